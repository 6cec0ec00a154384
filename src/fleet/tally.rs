//! What one agent worker counts of its polls.
//!
//! The worker alone writes it, under a lock of its own that nobody else wants except, once a
//! second, the collector: to swap the full map for an empty one. So a poll never waits for as long
//! as a map is read, and a map that keeps its room needs no allocation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::domain::fleet::{Identity, Polled, Told};

/// The most identities that one worker counts between two collections, which are a second apart: a
/// core answers some 30,000 polls in it, and a row seldom polls twice.
pub const TALLY_ROWS_MAX: usize = 16_384;

/// Polls by identity.
pub(super) type Counts = HashMap<Arc<Identity>, Polled>;

/// What one agent worker counts of its polls.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    counts: Counts,
    /// Polls that were not counted, for want of room.
    dropped: u64,
}

impl Tally {
    /// One more poll, and what it was told: `None` when it was closed without an answer.
    pub fn record(&self, identity: &Arc<Identity>, at: Timestamp, told: Option<Told>) {
        let mut counted = self.lock();
        let polled = Polled::once(at, told);
        if let Some(known) = counted.counts.get_mut(identity) {
            known.add(&polled);
        } else if counted.counts.len() < TALLY_ROWS_MAX {
            counted.counts.insert(Arc::clone(identity), polled);
        } else {
            counted.dropped += 1;
        }
    }

    /// Swaps what was counted for an empty map; gives how many polls were not counted.
    pub(super) fn take(&self, empty: &mut Counts) -> u64 {
        let mut counted = self.lock();
        std::mem::swap(&mut counted.counts, empty);
        std::mem::take(&mut counted.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // A panic between two lines of `record` leaves counts behind, no broken promise.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::request::Request;

    #[test]
    fn a_tally_is_bounded_and_counts_what_it_had_no_room_for() {
        let tally = Tally::default();
        let poll = |number: usize| {
            let line = format!("web/s{number} node=lb-1\n");
            let request = Request::parse(line.as_bytes()).unwrap();
            let identity = Arc::new(Identity::new(&request, [10, 0, 0, 1].into()));
            tally.record(&identity, Timestamp::UNIX_EPOCH, None);
        };
        (0..TALLY_ROWS_MAX + 5).for_each(poll);
        poll(0);
        let mut counts = Counts::new();
        assert_eq!(tally.take(&mut counts), 5);
        assert_eq!(counts.len(), TALLY_ROWS_MAX);
        assert_eq!(counts.values().map(|polled| polled.polls).max(), Some(2));
        counts.clear();
        assert_eq!((tally.take(&mut counts), counts.len()), (0, 0));
    }
}
