//! The whole fleet in numbers, for scrapes.
//!
//! What one replica was asked itself says little of a row behind a balancer: its polls land here
//! only now and then, and look silent. So a scrape shows what all replicas were asked together, as
//! it was known at the scrape before: no scrape waits for another replica.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use tracing::warn;

use super::{Fleet, Gathered, Gatherer, now};
use crate::domain::fleet::Summary;

/// How old the numbers must be for a scrape to have them made anew. Two scrapers at once ask the
/// replicas once.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// How old they may be and still be shown: longer than the longest usual time between two scrapes.
pub const SHOWN_FOR: Duration = Duration::from_mins(2);

/// The whole fleet in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeNumbers {
    /// Nodes and rows.
    pub summary: Summary,
    /// Rows that do not poll while others of their node do.
    pub rows_silent_alone: usize,
    /// See [`crate::domain::fleet::Judge::oldest_unapplied`].
    pub oldest_unapplied: Option<Duration>,
    /// Replicas that did not report.
    pub replicas_missing: usize,
}

/// Makes the numbers, and keeps them for the next scrape.
#[derive(Debug)]
pub struct Whole {
    fleet: Arc<Fleet>,
    others: Arc<Gatherer>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<(Instant, WholeNumbers)>,
    making: Option<JoinHandle<()>>,
}

impl Whole {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, others: Arc<Gatherer>) -> Self {
        Self {
            fleet,
            others,
            state: Arc::default(),
        }
    }

    /// The numbers and their age; `None` before the first ones, and when they are too old.
    #[must_use]
    pub fn shown(&self) -> Option<(Duration, WholeNumbers)> {
        let (at, numbers) = lock(&self.state).known?;
        Some((at.elapsed(), numbers)).filter(|(age, _)| *age <= SHOWN_FOR)
    }

    /// Has the numbers made anew for the next scrape, unless they are new or under way.
    pub fn refresh(&self) {
        let mut state = lock(&self.state);
        let is_new = state
            .known
            .is_some_and(|(at, _)| at.elapsed() < ASKED_EVERY);
        let under_way = state
            .making
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if is_new || under_way {
            return;
        }
        let (fleet, others) = (Arc::clone(&self.fleet), Arc::clone(&self.others));
        let kept = Arc::clone(&self.state);
        state.making = Some(tokio::spawn(async move {
            match make(fleet, &others).await {
                Ok(numbers) => lock(&kept).known = Some((Instant::now(), numbers)),
                Err(error) => warn!(%error, "the whole fleet is not in the metrics"),
            }
        }));
    }
}

async fn make(fleet: Arc<Fleet>, others: &Gatherer) -> Result<WholeNumbers, String> {
    let gathered = others.gather().await?;
    // It looks at every row.
    let made = spawn_blocking(move || numbers(&fleet, &gathered));
    made.await.map_err(|error| error.to_string())
}

fn numbers(fleet: &Fleet, gathered: &Gathered) -> WholeNumbers {
    let merged = gathered.merged(fleet.report());
    let judge = merged.judge(now());
    WholeNumbers {
        summary: judge.summary(&merged.nodes),
        rows_silent_alone: judge.rows_silent_alone(&merged.nodes),
        oldest_unapplied: judge.oldest_unapplied(&merged.nodes),
        replicas_missing: gathered.missing.len(),
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing is done under the lock that could leave half of it.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
