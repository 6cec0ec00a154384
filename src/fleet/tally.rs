//! What one agent worker counts of its polls.
//!
//! The worker alone writes it, under a lock of its own that nobody else wants except, once a
//! second or when the list is long, the collector: to swap it for an empty one. So a poll never
//! waits for as long as a list is read, and a list that keeps its room needs no allocation.
//!
//! Who polls is remembered beside his answer, and so is where he is counted ([`Spot`]): counting a
//! poll looks nothing up.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::fleet::{Asker, Polled};

/// The most places that one worker counts in between two collections: more than a core answers
/// polls in the second that they are at most apart.
pub const TALLY_ROWS_MAX: usize = 65_536;

/// At so many places the collector is called: a fleet of hundreds of thousands of rows would
/// otherwise have each worker hold a second of it.
const TALLY_ROWS_CALL: usize = 4_096;

/// What the lists keep room for when they are empty: twice what a call finds, as it is not answered
/// at once.
pub(super) const ROOM_KEPT: usize = 2 * TALLY_ROWS_CALL;

/// Polls of one asker from one address. The same may be there several times, when it is not known
/// where it was counted.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) asker: Arc<Asker>,
    pub(super) source: IpAddr,
    pub(super) polled: Polled,
}

/// Where polls with one line were counted last, until the next collection.
#[derive(Debug, Default)]
pub struct Spot(Cell<(u64, usize)>);

/// What one agent worker counts of its polls.
#[derive(Debug)]
pub struct Tally {
    counted: Mutex<Counted>,
    full: Arc<Notify>,
}

/// What all agent workers count, one tally each.
#[derive(Debug, Clone)]
pub struct Tallies {
    all: Vec<Arc<Tally>>,
    full: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Counted {
    counts: Vec<Count>,
    /// How often it was collected: a spot of before is none.
    collections: u64,
    /// Polls that were not counted, for want of room.
    dropped: u64,
}

impl Tallies {
    /// Of so many workers.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let full = Arc::new(Notify::new());
        let tally = |_| {
            let full = Arc::clone(&full);
            let counted = Mutex::default();
            Arc::new(Tally { counted, full })
        };
        Self {
            all: (0..workers).map(tally).collect(),
            full,
        }
    }

    /// In the order of the workers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tally>> {
        self.all.iter()
    }

    /// Returns when one of them wants to be collected.
    pub(super) async fn full(&self) {
        self.full.notified().await;
    }
}

impl Tally {
    /// One more poll.
    pub fn record(&self, asker: &Arc<Asker>, source: IpAddr, spot: &Spot, polled: &Polled) {
        let mut counted = self.lock();
        // The default, 0, is no collection's number.
        let collection = counted.collections + 1;
        let (known, place) = spot.0.get();
        if known == collection
            && let Some(count) = counted.counts.get_mut(place)
            && count.source == source
        {
            count.polled.add(polled);
        } else if counted.counts.len() < TALLY_ROWS_MAX {
            spot.0.set((collection, counted.counts.len()));
            counted.counts.push(Count {
                asker: Arc::clone(asker),
                source,
                polled: *polled,
            });
            if counted.counts.len() == TALLY_ROWS_CALL {
                self.full.notify_one();
            }
        } else {
            counted.dropped += 1;
        }
    }

    /// Swaps what was counted for an empty list; gives how many polls were not counted.
    pub(super) fn take(&self, empty: &mut Vec<Count>) -> u64 {
        let mut counted = self.lock();
        std::mem::swap(&mut counted.counts, empty);
        counted.collections += 1;
        std::mem::take(&mut counted.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // A panic between two lines of `record` leaves counts behind, no broken promise.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::request::Request;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    struct Poller(Arc<Asker>, Spot);

    impl Poller {
        fn new(number: usize) -> Self {
            let line = format!("web/s{number} node=lb-1\n");
            let request = Request::parse(line.as_bytes()).unwrap();
            Self(Arc::new(Asker::new(&request)), Spot::default())
        }

        fn poll(&self, tally: &Tally) {
            self.poll_from(tally, HERE);
        }

        fn poll_from(&self, tally: &Tally, source: IpAddr) {
            let polled = Polled::once(Timestamp::UNIX_EPOCH, None);
            tally.record(&self.0, source, &self.1, &polled);
        }
    }

    fn one() -> Arc<Tally> {
        Arc::clone(&Tallies::new(1).all[0])
    }

    fn taken(tally: &Tally) -> (u64, Vec<Count>) {
        let mut counts = Vec::new();
        (tally.take(&mut counts), counts)
    }

    #[test]
    fn a_tally_is_bounded_and_counts_what_it_had_no_room_for() {
        let tally = &one();
        let pollers: Vec<_> = (0..TALLY_ROWS_MAX + 5).map(Poller::new).collect();
        for poller in &pollers {
            poller.poll(tally);
        }
        pollers[0].poll(tally);
        let (dropped, counts) = taken(tally);
        assert_eq!((dropped, counts.len()), (5, TALLY_ROWS_MAX));
        assert_eq!(counts.iter().map(|count| count.polled.polls).max(), Some(2));
        let (dropped, counts) = taken(tally);
        assert_eq!((dropped, counts.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_long_list_calls_the_collector_once() {
        let tallies = Tallies::new(2);
        let waits = async |tallies: &Tallies| {
            let mut full = std::pin::pin!(tallies.full());
            futures_util::poll!(&mut full).is_pending()
        };
        let poll_all = |pollers: &[Poller]| {
            for poller in pollers {
                poller.poll(&tallies.all[1]);
            }
        };
        let pollers: Vec<_> = (0..TALLY_ROWS_CALL + 5).map(Poller::new).collect();
        let (last, before) = pollers[..TALLY_ROWS_CALL].split_last().unwrap();
        poll_all(before);
        assert!(waits(&tallies).await);
        last.poll(&tallies.all[1]);
        assert!(!waits(&tallies).await);
        // Those that came before the collector did are his as well.
        poll_all(&pollers[TALLY_ROWS_CALL..]);
        assert!(waits(&tallies).await);
        assert_eq!(taken(&tallies.all[1]).1.len(), pollers.len());
        poll_all(&pollers);
        assert!(!waits(&tallies).await);
    }

    #[test]
    fn a_spot_of_before_the_last_collection_is_none() {
        let tally = &one();
        let [one, other] = [0, 1].map(Poller::new);
        one.poll(tally);
        other.poll(tally);
        taken(tally);
        // In the other order: each would count in the other one's place.
        other.poll(tally);
        one.poll(tally);
        one.poll(tally);
        let (_, counts) = taken(tally);
        let seen = counts
            .iter()
            .map(|count| (&count.asker, count.polled.polls));
        assert!(seen.eq([(&other.0, 1), (&one.0, 2)]), "{counts:?}");
    }

    #[test]
    fn one_line_from_two_addresses_is_counted_for_each() {
        let tally = &one();
        let poller = Poller::new(0);
        let elsewhere = IpAddr::from([10, 0, 0, 2]);
        for source in [HERE, HERE, elsewhere] {
            poller.poll_from(tally, source);
        }
        let (_, counts) = taken(tally);
        let seen = counts
            .iter()
            .map(|count| (count.source, count.polled.polls));
        assert!(seen.eq([(HERE, 2), (elsewhere, 1)]), "{counts:?}");
    }
}
