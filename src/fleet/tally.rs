//! What one agent worker counts of its polls.
//!
//! The worker alone writes it, under a lock of its own that nobody else wants except, once a
//! second, the collector: to swap the full list for an empty one. So a poll never waits for as long
//! as a list is read, and a list that keeps its room needs no allocation.
//!
//! Who polls is remembered beside his answer, and so is where he is counted ([`Spot`]): counting a
//! poll looks nothing up.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::domain::fleet::{Identity, Polled, Told};

/// The most places that one worker counts in between two collections, which are a second apart: a
/// core answers some 40,000 polls in it, and a row seldom polls twice.
pub const TALLY_ROWS_MAX: usize = 16_384;

/// Polls by identity. One may be there several times, when it is not known where it was counted.
pub(super) type Counts = Vec<(Arc<Identity>, Polled)>;

/// Where polls of one identity are counted, until the next collection.
#[derive(Debug, Default)]
pub struct Spot(Cell<(u64, usize)>);

/// What one agent worker counts of its polls.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    counts: Counts,
    /// How often it was collected: a spot of before is none.
    collections: u64,
    /// Polls that were not counted, for want of room.
    dropped: u64,
}

impl Tally {
    /// One more poll, and what it was told: `None` when it was closed without an answer.
    pub fn record(&self, identity: &Arc<Identity>, spot: &Spot, at: Timestamp, told: Option<Told>) {
        let mut counted = self.lock();
        let polled = Polled::once(at, told);
        // The default, 0, is no collection's number.
        let collection = counted.collections + 1;
        let place = counted.counts.len();
        match spot.0.get() {
            (known, place) if known == collection => counted.counts[place].1.add(&polled),
            _ if place < TALLY_ROWS_MAX => {
                counted.counts.push((Arc::clone(identity), polled));
                spot.0.set((collection, place));
            }
            _ => counted.dropped += 1,
        }
    }

    /// Swaps what was counted for an empty list; gives how many polls were not counted.
    pub(super) fn take(&self, empty: &mut Counts) -> u64 {
        let mut counted = self.lock();
        std::mem::swap(&mut counted.counts, empty);
        counted.collections += 1;
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

    struct Poller(Arc<Identity>, Spot);

    impl Poller {
        fn new(number: usize) -> Self {
            let line = format!("web/s{number} node=lb-1\n");
            let request = Request::parse(line.as_bytes()).unwrap();
            let identity = Identity::new(&request, [10, 0, 0, 1].into());
            Self(Arc::new(identity), Spot::default())
        }

        fn poll(&self, tally: &Tally) {
            tally.record(&self.0, &self.1, Timestamp::UNIX_EPOCH, None);
        }
    }

    #[test]
    fn a_tally_is_bounded_and_counts_what_it_had_no_room_for() {
        let tally = Tally::default();
        let pollers: Vec<_> = (0..TALLY_ROWS_MAX + 5).map(Poller::new).collect();
        for poller in &pollers {
            poller.poll(&tally);
        }
        pollers[0].poll(&tally);
        let mut counts = Counts::new();
        assert_eq!(tally.take(&mut counts), 5);
        assert_eq!(counts.len(), TALLY_ROWS_MAX);
        assert_eq!(counts.iter().map(|(_, polled)| polled.polls).max(), Some(2));
        counts.clear();
        assert_eq!((tally.take(&mut counts), counts.len()), (0, 0));
    }

    #[test]
    fn a_spot_of_before_the_last_collection_is_none() {
        let tally = Tally::default();
        let [one, other] = [0, 1].map(Poller::new);
        one.poll(&tally);
        other.poll(&tally);
        let mut counts = Counts::new();
        tally.take(&mut counts);
        counts.clear();
        // In the other order: each would count in the other one's place.
        other.poll(&tally);
        one.poll(&tally);
        one.poll(&tally);
        tally.take(&mut counts);
        let seen = counts
            .iter()
            .map(|(identity, polled)| (identity, polled.polls));
        assert!(seen.eq([(&other.0, 1), (&one.0, 2)]), "{counts:?}");
    }
}
