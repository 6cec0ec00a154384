//! What the page shows, as it is now.

use std::sync::Arc;

use crate::clock;
use crate::domain::board::{Board, Parts};
use crate::domain::deploy;
use crate::domain::fleet::in_millis;
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::domain::observed::Observation;
use crate::domain::sentinel::Generation;
use crate::domain::view::{self, View};
use crate::fleet::Gathered;
use crate::http::Pages;
use crate::http::replicas::ReplicasView;

/// One look.
pub(super) struct Look {
    pub(super) prefix: Prefix,
    pub(super) replicas: ReplicasView,
    /// The history that is believed.
    pub(super) generation: Option<Generation>,
    /// Whether this replica answers polls.
    pub(super) answers: bool,
    /// The others that have not reported.
    pub(super) unreported: Vec<Name>,
    pub(super) board: Board,
}

impl Look {
    /// Looks. It merges the fleet's reports and judges each row: not for a runtime's thread.
    pub(super) fn take(pages: &Pages, gathered: &Gathered) -> Self {
        let published = Arc::clone(&pages.store.load());
        let fleet = gathered.merged(pages.fleet.report());
        let snapshot = published.snapshot.as_deref();
        let now = in_millis(clock::now());
        let view = View::new(view::Parts {
            snapshot,
            fleet: Some(&fleet),
            observation: Observation::default(),
            missing: Vec::new(),
            now,
        });
        let verdict = published.standing.verdict(clock::moment());
        let answers = verdict.name.answers();
        let memory = published.memory.as_ref().map(|(_, memory)| memory);
        let listing = memory.and_then(|memory| memory.listing.as_ref());
        let deploys = listing
            .map(|listing| deploy::locks(listing))
            .unwrap_or_default();
        let replicas = ReplicasView::of(pages, &published);
        let board = Board::new(&Parts {
            prefix: pages.fleet.prefix(),
            snapshot,
            deploys: &deploys,
            verdicts: &[(None, verdict)],
            replica_problems: &replicas.problems,
            fleet: &fleet,
            missing: &gathered.missing,
            view: &view,
        });
        let missing = gathered.missing.iter();
        Self {
            prefix: pages.fleet.prefix().clone(),
            generation: snapshot.map(|snapshot| snapshot.generation),
            answers,
            unreported: missing.map(|missing| missing.replica.clone()).collect(),
            replicas,
            board,
        }
    }
}
