//! One look for all who look: while somebody does, the page is made anew once a second, and at once
//! when another snapshot or authority is in force.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::edition::Edition;
use super::look::Look;
use crate::clock;
use crate::domain::authority::AuthorityName;
use crate::domain::snapshot::Snapshot;
use crate::fleet::{Gathered, SHARED_FOR};
use crate::http::Pages;
use crate::http::aside::aside;

/// The most who are told of changes at once. Each costs a connection of the HTTP listener's hundred,
/// and what changes on the page each second.
pub(super) const VIEWERS_MAX: usize = 32;
/// How often it is looked whether something else is in force: two loads of memory.
const GLANCE_EVERY: Duration = Duration::from_millis(100);
/// How often the page is made anew while nothing changes but polls and times.
const MAKE_EVERY: Duration = Duration::from_secs(1);
/// Which part of the time the making may take at most: a fleet of 65,536 rows is shown less often.
const MAKING_PART: u32 = 4;

/// How many pages are made at once.
static MAKING: Semaphore = Semaphore::const_new(1);

/// The page, for all who look.
pub(super) struct Hub {
    pages: Pages,
    /// Ends the streams.
    pub(super) stop: CancellationToken,
    /// Places of those who are told of changes.
    pub(super) viewers: Arc<Semaphore>,
    /// Tells the editions of this process from those of the one before.
    pub(super) nonce: u64,
    flight: Mutex<Flight>,
}

/// The editions that are shown, and who makes them.
#[derive(Default)]
struct Flight {
    /// The number of the last edition that anybody saw.
    last: u64,
    making: Option<Making>,
}

struct Making {
    editions: Editions,
    task: JoinHandle<()>,
}

/// The editions as they come.
pub(super) type Editions = watch::Receiver<Option<Arc<Edition>>>;

/// What was in force when an edition was made.
struct InForce {
    snapshot: Option<Arc<Snapshot>>,
    authority: AuthorityName,
    stopping: bool,
}

impl InForce {
    fn is(&self, other: &Self) -> bool {
        let same = match (&self.snapshot, &other.snapshot) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same && (self.authority, self.stopping) == (other.authority, other.stopping)
    }
}

impl Hub {
    /// Looks at nothing yet.
    pub(super) fn new(pages: Pages, stop: CancellationToken) -> Self {
        Self {
            pages,
            stop,
            viewers: Arc::new(Semaphore::new(VIEWERS_MAX)),
            nonce: rand::random(),
            flight: Mutex::default(),
        }
    }

    /// The page now: a second old at most, while it can be made as fast.
    ///
    /// # Errors
    /// When the making broke off: a fault of this program.
    pub(super) async fn now(self: &Arc<Self>) -> Result<Arc<Edition>, String> {
        let mut editions = self.editions();
        let edition = editions.wait_for(Option::is_some).await;
        let edition = edition.ok().and_then(|edition| edition.clone());
        edition.ok_or_else(|| "its making broke off".to_owned())
    }

    /// The editions from now on; they are made as long as somebody holds one of these.
    pub(super) fn editions(self: &Arc<Self>) -> Editions {
        let mut flight = lock(&self.flight);
        if let Some(making) = &flight.making
            && !making.task.is_finished()
        {
            return making.editions.clone();
        }
        let (tx, editions) = watch::channel(None);
        let task = tokio::spawn(make(Arc::clone(self), tx));
        let rx = editions.clone();
        flight.making = Some(Making { editions, task });
        rx
    }

    /// Whether nobody looks any more: then the making has ended for those who come.
    fn is_left(&self, tx: &watch::Sender<Option<Arc<Edition>>>) -> bool {
        let mut flight = lock(&self.flight);
        // The one of the flight itself.
        let left = tx.receiver_count() <= 1;
        if left {
            flight.making = None;
        }
        left
    }

    fn in_force(&self) -> InForce {
        let published = self.pages.store.load();
        InForce {
            snapshot: published.snapshot.clone(),
            authority: published.standing.name(clock::moment()),
            stopping: self.pages.stopping.is_cancelled(),
        }
    }

    /// The next edition.
    async fn edition(
        self: &Arc<Self>,
        gathered: &Arc<Gathered>,
        before: Option<Arc<Edition>>,
    ) -> Result<Arc<Edition>, String> {
        let (hub, gathered) = (Arc::clone(self), Arc::clone(gathered));
        let first = lock(&self.flight).last + 1;
        let edition = aside(&MAKING, move || {
            let look = Look::take(&hub.pages, &gathered);
            Arc::new(Edition::of(&look, before.as_deref(), first))
        });
        let edition = edition.await?;
        lock(&self.flight).last = edition.number;
        Ok(edition)
    }
}

/// Makes editions until nobody looks.
async fn make(hub: Arc<Hub>, tx: watch::Sender<Option<Arc<Edition>>>) {
    let Ok(mut gathered) = hub.pages.others.gather().await else {
        return;
    };
    let mut asking = JoinSet::new();
    let mut edition: Option<Arc<Edition>> = None;
    while !hub.is_left(&tx) {
        let (begun, in_force) = (Instant::now(), hub.in_force());
        // A peer that hangs takes seconds: what is new here does not wait for it.
        if let Some(Ok(Ok(newer))) = asking.try_join_next() {
            gathered = newer;
        }
        if asking.is_empty() {
            let others = Arc::clone(&hub.pages.others);
            asking.spawn(async move {
                let gathered = others.gather().await;
                // What has just ended is the same for so long.
                sleep(SHARED_FOR).await;
                gathered
            });
        }
        match hub.edition(&gathered, edition.take()).await {
            Ok(made) => edition = Some(made),
            Err(error) => {
                tracing::error!(%error, "the status page cannot be made");
                return;
            }
        }
        tx.send_replace(edition.clone());
        let took = begun.elapsed();
        let pause = took.saturating_mul(MAKING_PART);
        let next = begun + MAKE_EVERY.max(pause);
        tokio::select! {
            biased;
            () = hub.stop.cancelled() => return,
            () = something_new(&hub, &in_force, begun + pause, next) => {}
        }
    }
}

/// Waits until `next`, or until something else is in force, not before `earliest`.
async fn something_new(hub: &Hub, in_force: &InForce, earliest: Instant, next: Instant) {
    tokio::time::sleep_until(earliest).await;
    while Instant::now() < next && hub.in_force().is(in_force) {
        sleep(GLANCE_EVERY).await;
    }
}

fn lock(flight: &Mutex<Flight>) -> MutexGuard<'_, Flight> {
    // Nothing is done under the lock that could leave half of it.
    flight.lock().unwrap_or_else(PoisonError::into_inner)
}
