//! What is in force now: published by the watcher, loaded by everybody else.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::domain::authority::{Moment, Standing};
use crate::domain::snapshot::Snapshot;

/// The snapshot in force, and what decides whether to answer from it.
#[derive(Debug)]
pub struct Published {
    /// The snapshot; `None` before the first good listing.
    pub snapshot: Option<Arc<Snapshot>>,
    /// What decides whether to answer.
    pub standing: Standing,
}

/// Holds the one [`Published`] value. Loading it takes no lock.
#[derive(Debug)]
pub struct Store {
    published: ArcSwap<Published>,
}

impl Published {
    /// The snapshot to answer from at `now`; `None` when this replica must be silent.
    #[must_use]
    pub fn answering(&self, now: Moment) -> Option<&Arc<Snapshot>> {
        self.snapshot
            .as_ref()
            .filter(|_| self.standing.name(now).answers())
    }
}

impl Store {
    /// Nothing in force yet.
    #[must_use]
    pub fn new(standing: Standing) -> Self {
        Self {
            published: ArcSwap::from_pointee(Published {
                snapshot: None,
                standing,
            }),
        }
    }

    /// What is in force. Hold the guard briefly, never over an `await`.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Published>> {
        self.published.load()
    }

    /// Puts a new value in force.
    pub fn publish(&self, published: Published) {
        self.published.store(Arc::new(published));
    }
}
