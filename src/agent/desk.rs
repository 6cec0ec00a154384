//! Where a line gets its answer, and where it is counted what became of it.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::Guard;
use jiff::Timestamp;

use super::Shared;
use super::cache::{Cache, Rendered};
use crate::clock;
use crate::domain::authority::Moment;
use crate::domain::fleet::{Asker, Polled, Told};
use crate::domain::request::Request;
use crate::fleet::{Spot, Tally};
use crate::metrics::{Silence, WorkerCounters};
use crate::store::Published;

/// Answers for one worker.
#[derive(Debug)]
pub(super) struct Desk {
    shared: Arc<Shared>,
    counters: Arc<WorkerCounters>,
    tally: Arc<Tally>,
    cache: Cache,
}

/// What the answers of one wake-up rest on: they are so few that it is a millisecond old at most,
/// or as old as the process was stopped, which the lease takes care of.
pub(super) struct Round {
    published: Guard<Arc<Published>>,
    at: Timestamp,
}

impl Desk {
    pub(super) fn new(
        shared: Arc<Shared>,
        counters: Arc<WorkerCounters>,
        tally: Arc<Tally>,
    ) -> Self {
        let cache = Cache::new(shared.replica.clone());
        Self {
            shared,
            counters,
            tally,
            cache,
        }
    }

    /// Reads what is in force, and the wall clock.
    pub(super) fn round(&self) -> Round {
        Round {
            published: self.shared.store.load(),
            at: clock::now(),
        }
    }

    /// The answer to a request line; `None` when this replica must be silent at `now`.
    pub(super) fn answer(
        &mut self,
        round: &Round,
        line: &[u8],
        source: IpAddr,
        now: Moment,
    ) -> Option<Rc<Rendered>> {
        let snapshot = round.published.answering(now)?;
        Some(self.cache.answer(snapshot, line, source, round.at))
    }

    /// A poll was told its answer, so long after its line was read.
    pub(super) fn told(&self, round: &Round, rendered: &Rendered, source: IpAddr, took: Duration) {
        self.counters.answered(rendered.answer);
        self.counters.latency.record(took);
        let told = Told {
            at: round.at,
            version: rendered.version,
            answer: rendered.answer,
        };
        self.count(round, rendered, source, Some(told));
    }

    /// The peer did not take its answer.
    pub(super) fn not_told(
        &self,
        round: &Round,
        rendered: &Rendered,
        source: IpAddr,
        why: Silence,
    ) {
        self.counters.silent(why);
        self.count(round, rendered, source, None);
    }

    /// A poll was closed because this replica must be silent: a node that asks is there all the
    /// same, and not shown as silent itself.
    pub(super) fn no_authority(&self, round: &Round, line: &[u8], source: IpAddr) {
        self.counters.silent(Silence::NoAuthority);
        if let Ok(request) = Request::parse(line) {
            let asker = Arc::new(Asker::new(&request));
            let polled = Polled::once(round.at, None);
            self.tally.record(&asker, source, &Spot::default(), &polled);
        }
    }

    /// A connection was closed without an answer.
    pub(super) fn silent(&self, why: Silence) {
        self.counters.silent(why);
    }

    /// Accept itself failed.
    pub(super) fn accept_failed(&self) {
        self.counters.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, round: &Round, rendered: &Rendered, source: IpAddr, told: Option<Told>) {
        if let Some(asker) = &rendered.asker {
            let polled = Polled::once(round.at, told);
            self.tally.record(asker, source, &rendered.spot, &polled);
        }
    }
}
