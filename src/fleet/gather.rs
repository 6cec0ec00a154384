//! The other replicas' part of the fleet, asked for once for all who look.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::domain::fleet::{Merged, Missing, Report};
use crate::domain::name::Name;

/// How long a gathering is shown after its end. Rows poll every two seconds or so, and a page that
/// many people keep open must not ask the replicas for each of them.
pub const SHARED_FOR: Duration = Duration::from_secs(1);

/// The way to the other replicas. Each call ends within a few seconds, whatever they do.
#[async_trait]
pub trait Others: fmt::Debug + Send + Sync {
    /// What each one says of the fleet.
    async fn reports(&self) -> Vec<Result<Report, Missing>>;

    /// Has each one forget a node.
    async fn forget(&self, node: &Name) -> Vec<Result<Forgot, Missing>>;
}

/// A replica forgot a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgot {
    /// The replica.
    pub replica: Name,
    /// How many rows the node had there.
    pub rows: usize,
}

/// What the others said, and who said nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gathered {
    /// Their reports.
    pub reports: Vec<Report>,
    /// The others that did not report, and why.
    pub missing: Vec<Missing>,
}

/// Asks the others: one gathering at a time, that all who look meanwhile share.
#[derive(Debug)]
pub struct Gatherer {
    others: Arc<dyn Others>,
    flight: Flight,
}

type Flight = Arc<Mutex<Option<Gathering>>>;

/// A gathering that is under way, or has ended a moment ago.
#[derive(Debug)]
struct Gathering {
    gathered: watch::Receiver<Option<Arc<Gathered>>>,
    /// Ends when the gathering is no longer shown.
    task: JoinHandle<()>,
}

impl Gatherer {
    /// Asks nobody yet.
    #[must_use]
    pub fn new(others: Arc<dyn Others>) -> Self {
        let flight = Flight::default();
        Self { others, flight }
    }

    /// What the others say, no older than [`SHARED_FOR`] and the time that asking takes.
    ///
    /// # Errors
    /// When the gathering broke off: a fault of this program.
    pub async fn gather(&self) -> Result<Arc<Gathered>, String> {
        let mut gathered = self.under_way();
        let gathered = gathered.wait_for(Option::is_some).await;
        let gathered = gathered.ok().and_then(|gathered| gathered.clone());
        gathered.ok_or_else(|| "the gathering of the others' reports broke off".to_owned())
    }

    /// Has each of the others forget a node; what was gathered before is not shown any more.
    pub async fn forget(&self, node: &Name) -> Vec<Result<Forgot, Missing>> {
        let forgot = self.others.forget(node).await;
        *lock(&self.flight) = None;
        forgot
    }

    fn under_way(&self) -> watch::Receiver<Option<Arc<Gathered>>> {
        let mut flight = lock(&self.flight);
        if let Some(known) = &*flight
            && !known.task.is_finished()
        {
            return known.gathered.clone();
        }
        let (tx, gathered) = watch::channel(None);
        // A task of its own: who looks may go away, and others wait for the same.
        let task = tokio::spawn(run(
            Arc::clone(&self.others),
            tx,
            Arc::downgrade(&self.flight),
        ));
        let rx = gathered.clone();
        *flight = Some(Gathering { gathered, task });
        rx
    }
}

impl Gathered {
    /// The whole fleet: what the others said, and what this replica says itself. It copies the
    /// rows that several know: not for a runtime's thread.
    #[must_use]
    pub fn merged(&self, own: Report) -> Merged {
        Merged::of(self.reports.iter().cloned().chain([own]))
    }
}

impl FromIterator<Result<Report, Missing>> for Gathered {
    fn from_iter<T: IntoIterator<Item = Result<Report, Missing>>>(outcomes: T) -> Self {
        let mut gathered = Self::default();
        for outcome in outcomes {
            match outcome {
                Ok(report) => gathered.reports.push(report),
                Err(missing) => gathered.missing.push(missing),
            }
        }
        gathered
    }
}

async fn run(
    others: Arc<dyn Others>,
    tx: watch::Sender<Option<Arc<Gathered>>>,
    flight: std::sync::Weak<Mutex<Option<Gathering>>>,
) {
    let gathered = others.reports().await.into_iter().collect();
    tx.send_replace(Some(Arc::new(gathered)));
    sleep(SHARED_FOR).await;
    let Some(flight) = flight.upgrade() else {
        return;
    };
    let mut flight = lock(&flight);
    let own = |known: &Gathering| known.gathered.same_channel(&tx.subscribe());
    if flight.as_ref().is_some_and(own) {
        // Nobody may look for hours: the reports are not held meanwhile.
        *flight = None;
    }
}

fn lock(flight: &Mutex<Option<Gathering>>) -> MutexGuard<'_, Option<Gathering>> {
    // Nothing is done under the lock that could leave half of it.
    flight.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const ASKING: Duration = Duration::from_secs(2);

    /// Counts how often it is asked; each time takes [`ASKING`].
    #[derive(Debug, Default)]
    struct Slow {
        asked: AtomicUsize,
        breaks: bool,
    }

    #[async_trait]
    impl Others for Slow {
        async fn reports(&self) -> Vec<Result<Report, Missing>> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(ASKING).await;
            assert!(!self.breaks, "as the test wants it");
            vec![Err(Missing {
                replica: Name::parse("b").unwrap(),
                why: asked.to_string(),
            })]
        }

        async fn forget(&self, _: &Name) -> Vec<Result<Forgot, Missing>> {
            Vec::new()
        }
    }

    /// Which asking the gathering comes from.
    async fn look(gatherer: &Gatherer) -> String {
        gatherer.gather().await.unwrap().missing[0].why.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_look_at_once_share_one_gathering() {
        let gatherer = Arc::new(Gatherer::new(Arc::new(Slow::default())));
        let looks = (0..50).map(|_| {
            let gatherer = Arc::clone(&gatherer);
            tokio::spawn(async move { look(&gatherer).await })
        });
        let looks: Vec<_> = looks.collect();
        for look in looks {
            assert_eq!(look.await.unwrap(), "1");
        }
        // It is shown for a moment after its end, and not longer.
        sleep(SHARED_FOR.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(look(&gatherer).await, "1");
        sleep(Duration::from_millis(2)).await;
        assert!(lock(&gatherer.flight).is_none(), "it is held for nobody");
        assert_eq!(look(&gatherer).await, "2");
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_ends_no_gathering() {
        let gatherer = Gatherer::new(Arc::new(Slow::default()));
        let early = tokio::time::timeout(ASKING / 2, look(&gatherer)).await;
        assert!(early.is_err());
        assert_eq!(look(&gatherer).await, "1");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_gathered_before_a_node_was_forgotten_is_shown_no_more() {
        let gatherer = Gatherer::new(Arc::new(Slow::default()));
        assert_eq!(look(&gatherer).await, "1");
        gatherer.forget(&Name::parse("lb-1").unwrap()).await;
        assert_eq!(look(&gatherer).await, "2");
        // The end of the first one leaves the second one alone.
        sleep(SHARED_FOR / 2).await;
        assert_eq!(look(&gatherer).await, "2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gathering_that_breaks_off_is_no_empty_fleet() {
        let slow = Slow {
            breaks: true,
            ..Slow::default()
        };
        let gatherer = Gatherer::new(Arc::new(slow));
        for _ in 0..2 {
            let error = gatherer.gather().await.unwrap_err();
            assert!(error.contains("broke off"), "{error}");
        }
    }
}
