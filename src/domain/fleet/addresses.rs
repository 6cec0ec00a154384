//! Where the polls of one node come from, and whether two machines go by its name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::span;

/// The most addresses that a replica keeps of one node.
pub const ADDRESSES_MAX: usize = 8;
/// The longest silence within one run of an address. What comes after a longer one, from this
/// address or another, is a node that came back or was replaced.
pub const GAP_MAX: Duration = Duration::from_mins(1);
/// How long two addresses must have been in use side by side to be two machines. A node that moves
/// to another address uses one after the other, and the clocks of two replicas that saw it differ
/// by less than this: a replica whose clock is further off does not answer.
pub const TOGETHER_MIN: Duration = Duration::from_secs(5);

/// The addresses of one node, each with its last run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses(BTreeMap<IpAddr, Run>);

/// A time over which an address was in use without a silence longer than [`GAP_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Its first poll.
    pub since: Timestamp,
    /// Its last poll.
    pub last: Timestamp,
}

impl Run {
    /// From one poll to another.
    #[must_use]
    pub const fn new(since: Timestamp, last: Timestamp) -> Self {
        Self { since, last }
    }

    /// One run of both, or the later one when there was a silence between them.
    fn join(self, other: Self) -> Self {
        let between = span(self.last, other.since).max(span(other.last, self.since));
        if between > GAP_MAX {
            return if self.last > other.last { self } else { other };
        }
        Self {
            since: self.since.min(other.since),
            last: self.last.max(other.last),
        }
    }

    fn beside(self, other: Self) -> bool {
        let begin = self.since.max(other.since);
        span(begin, self.last.min(other.last)) >= TOGETHER_MIN
    }
}

impl Addresses {
    /// Polls came from there. When all places are taken, the place of an address whose run is over
    /// is used; if there is none, this one is not kept: those that are, already show that several
    /// machines go by this name.
    pub(super) fn seen(&mut self, address: IpAddr, run: Run) {
        if !self.0.contains_key(&address) && self.0.len() >= ADDRESSES_MAX {
            let oldest = self.0.iter().min_by_key(|(_, known)| known.last);
            let Some((&oldest, known)) = oldest else {
                return;
            };
            if span(known.last, run.last) <= GAP_MAX {
                return;
            }
            self.0.remove(&oldest);
        }
        self.join(address, run);
    }

    /// Takes in what another replica saw. Not cut to [`ADDRESSES_MAX`]: there are few replicas.
    pub(super) fn join(&mut self, address: IpAddr, run: Run) {
        let known = self.0.entry(address).or_insert(run);
        *known = known.join(run);
    }

    /// Cuts times that lie in the future down to now.
    pub(super) fn cut(&mut self, now: Timestamp) {
        for run in self.0.values_mut() {
            *run = Run::new(run.since.min(now), run.last.min(now));
        }
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, Run)> {
        self.0.iter().map(|(address, run)| (*address, *run))
    }

    /// The addresses that were in use side by side lately: several machines under one name.
    /// One of each family is one machine that speaks both.
    #[must_use]
    pub fn at_once(&self, now: Timestamp) -> Vec<IpAddr> {
        let lately = || {
            self.iter()
                .filter(|(_, run)| span(run.last, now) <= GAP_MAX)
        };
        let shared = |(one, run): &(IpAddr, Run)| {
            lately().any(|(other, beside)| {
                *one != other && one.is_ipv4() == other.is_ipv4() && run.beside(beside)
            })
        };
        lately()
            .filter(shared)
            .map(|(address, _)| address)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(since: i64, last: i64) -> Run {
        let at = |second| Timestamp::from_second(second).unwrap();
        Run::new(at(since), at(last))
    }

    fn check(runs: &[(&str, i64, i64)], now: i64, expected: &[&str]) {
        let mut addresses = Addresses::default();
        for (address, since, last) in runs {
            addresses.seen(address.parse().unwrap(), run(*since, *last));
        }
        let found = addresses.at_once(Timestamp::from_second(now).unwrap());
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{runs:?} at {now}");
    }

    #[test]
    fn only_addresses_in_use_side_by_side_are_two_machines() {
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        check(&[(a, 0, 100), (b, 1, 99)], 100, &[a, b]);
        // A node that moved: one after the other, and for less than the clocks may differ.
        check(&[(a, 0, 50), (b, 51, 100)], 100, &[]);
        check(&[(a, 0, 55), (b, 51, 100)], 100, &[]);
        check(&[(a, 0, 56), (b, 51, 100)], 100, &[a, b]);
        // It came back to the first one after a long silence.
        check(&[(a, 0, 10), (b, 12, 84), (a, 80, 100)], 100, &[]);
        // Polled in turns, seen in pieces.
        check(
            &[(a, 0, 0), (b, 1, 1), (a, 30, 30), (b, 31, 31)],
            31,
            &[a, b],
        );
        // Mended: it goes away by itself.
        check(&[(a, 0, 100), (b, 0, 100)], 160, &[a, b]);
        check(&[(a, 0, 100), (b, 0, 200)], 161, &[]);
    }

    #[test]
    fn both_families_of_one_node_are_one_machine() {
        check(&[("10.0.0.1", 0, 100), ("fd00::1", 0, 100)], 100, &[]);
        let six = ("fd00::2", 0, 100);
        let expected = ["fd00::1", "fd00::2"];
        check(
            &[("10.0.0.1", 0, 100), ("fd00::1", 0, 100), six],
            100,
            &expected,
        );
    }

    #[test]
    fn the_places_are_bounded_and_live_addresses_keep_theirs() {
        let mut addresses = Addresses::default();
        let address = |n: u8| IpAddr::from([10, 0, 0, n]);
        for second in 0..20 {
            for n in 0..60 {
                addresses.seen(address(n), run(second, second));
            }
        }
        assert_eq!(addresses.iter().count(), ADDRESSES_MAX);
        let now = Timestamp::from_second(20).unwrap();
        assert_eq!(addresses.at_once(now).len(), ADDRESSES_MAX);
        addresses.seen(address(200), run(100, 100));
        assert!(addresses.iter().any(|(known, _)| known == address(200)));
        assert_eq!(addresses.iter().count(), ADDRESSES_MAX);
    }
}
