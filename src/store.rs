//! What is in force now: published by [`crate::beliefs`], loaded by everybody else.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;

use crate::domain::authority::{Answers, Moment, Standing};
use crate::domain::fleet::Version;
use crate::domain::memory::Memory;
use crate::domain::snapshot::Snapshot;
use crate::domain::trace_parent::TraceParent;
use crate::domain::word::{Identity, Word};

/// The snapshot in force, and what decides whether to answer from it.
#[derive(Debug)]
pub struct Published {
    /// The snapshot; `None` before the first good listing.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The one before, while peers may still answer from it.
    pub agreed: Option<Arc<Snapshot>>,
    /// What decides whether to answer.
    pub standing: Standing,
    /// What is known, for peers, and its edition.
    pub memory: Option<(u64, Arc<Memory>)>,
}

/// A listing that is in force here, other than the one before.
#[derive(Debug, Clone)]
pub struct InForce {
    /// Which one.
    pub version: Version,
    /// Since when.
    pub at: Timestamp,
    /// What asked for it, and the span in which this replica took it.
    pub asked: Vec<TraceParent>,
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
        match self.standing.answers(now) {
            Answers::TheListing => self.snapshot.as_ref(),
            Answers::WhatWasAgreed => self.agreed.as_ref(),
            Answers::Nothing => None,
        }
    }
}

impl Published {
    /// What this replica says of itself to a peer that has the memory of edition `known`.
    #[must_use]
    pub fn word(
        &self,
        identity: &Identity,
        known: Option<u64>,
        stopping: bool,
        (moment, now): (Moment, Timestamp),
    ) -> Word {
        let memory = self.memory.as_ref();
        let untold = memory.filter(|(edition, _)| known != Some(*edition));
        Word {
            identity: identity.clone(),
            authority: self.standing.name_for_peers(moment),
            stopping,
            age: self.standing.age(moment),
            now,
            edition: memory.map(|(edition, _)| *edition),
            memory: untold.map(|(_, memory)| (**memory).clone()),
        }
    }
}

impl Store {
    /// Nothing in force yet.
    #[must_use]
    pub fn new(standing: Standing) -> Self {
        Self {
            published: ArcSwap::from_pointee(Published {
                snapshot: None,
                agreed: None,
                standing,
                memory: None,
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
