//! Places among the connections that may be open at once, over all workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use crate::metrics::WorkerCounters;

/// The places that one worker has taken.
#[derive(Debug)]
pub(super) struct Places {
    shared: Arc<Shared>,
    counters: Arc<WorkerCounters>,
    held: usize,
}

impl Places {
    pub(super) const fn new(shared: Arc<Shared>, counters: Arc<WorkerCounters>) -> Self {
        Self {
            shared,
            counters,
            held: 0,
        }
    }

    /// A place for one more than the `open` connections; false when there is none.
    pub(super) fn take(&mut self, open: usize) -> bool {
        if open < self.held {
            // Somebody went since the last settling.
            return true;
        }
        let all = &self.shared.connections;
        if all.fetch_add(1, Ordering::Relaxed) >= self.shared.connections_max {
            all.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.held += 1;
        true
    }

    /// Gives back what more than `open` places are held.
    pub(super) fn settle(&mut self, open: usize) {
        let left = self.held.saturating_sub(open);
        if left > 0 {
            self.shared.connections.fetch_sub(left, Ordering::Relaxed);
            self.held = open;
        }
        self.counters.open.store(open as u64, Ordering::Relaxed);
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.settle(0);
    }
}
