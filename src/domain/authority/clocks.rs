//! Whether this replica's wall clock can be trusted: ramps and plans count by it.
//!
//! Its offset to the store and to each peer is measured. One clock among several that is wrong
//! shows as the one that all others differ from: the median of all offsets, one's own zero
//! included, is one's own error.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Authority, Moment};
use crate::domain::name::Name;

/// An offset that is shown as a problem.
pub(super) const OFFSET_SHOWN: Duration = Duration::from_secs(1);
/// An error of one's own clock above which nothing is answered.
pub(super) const OFFSET_BORNE: Duration = Duration::from_secs(5);
/// An offset that was measured longer ago than this says nothing any more.
const MEASURED_WITHIN: Duration = Duration::from_mins(1);

/// How far another clock is ahead of ours, in milliseconds: nearest to zero of what is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(pub i64);

/// The offsets measured last.
#[derive(Debug, Clone, Default)]
pub(super) struct Clocks {
    source: Option<(Moment, Offset)>,
    peers: BTreeMap<Name, (Moment, Offset)>,
}

impl Offset {
    /// From another clock's time, read somewhere between `sent` and `received` of ours, and exact
    /// to `grain` (HTTP's `Date` has whole seconds, cut off).
    #[must_use]
    pub fn measure(
        other: Timestamp,
        grain: Duration,
        sent: Timestamp,
        received: Timestamp,
    ) -> Self {
        let millis = |time: Timestamp| time.as_millisecond();
        let grain = i64::try_from(grain.as_millis()).unwrap_or(i64::MAX);
        let lowest = millis(other).saturating_sub(millis(received));
        let highest = millis(other)
            .saturating_add(grain)
            .saturating_sub(millis(sent));
        Self(0.clamp(lowest.min(highest), highest.max(lowest)))
    }

    /// Its size.
    #[must_use]
    pub const fn size(self) -> Duration {
        Duration::from_millis(self.0.unsigned_abs())
    }
}

impl Clocks {
    pub(super) fn measured_at_source(&mut self, now: Moment, offset: Offset) {
        self.source = Some((now, offset));
        self.expire(now);
    }

    pub(super) fn measured_at_peer(&mut self, slot: &Name, now: Moment, offset: Offset) {
        self.peers.insert(slot.clone(), (now, offset));
        self.expire(now);
    }

    pub(super) fn of_source(&self) -> Option<Offset> {
        self.source.map(|(_, offset)| offset)
    }

    pub(super) fn of_peer(&self, slot: &Name) -> Option<Offset> {
        self.peers.get(slot).map(|(_, offset)| *offset)
    }

    /// Our own error: the median of all offsets; of two in the middle the smaller one. The store
    /// alone is believed: to be silent is the safer mistake.
    pub(super) fn own_error(&self) -> Offset {
        if let (Some((_, offset)), true) = (self.source, self.peers.is_empty()) {
            return offset;
        }
        let measured = self.source.iter().chain(self.peers.values());
        let mut all: Vec<_> = measured.map(|(_, offset)| *offset).collect();
        all.push(Offset(0));
        all.sort();
        let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
        if low.size() <= high.size() { low } else { high }
    }

    fn expire(&mut self, now: Moment) {
        let recent = |at: Moment| now.since(at) < MEASURED_WITHIN;
        self.source = self.source.filter(|(at, _)| recent(*at));
        self.peers.retain(|_, (at, _)| recent(*at));
    }
}

impl Authority {
    /// The store's clock, as its answer showed it.
    pub fn clock_of_source(&mut self, now: Moment, offset: Offset) {
        self.clocks.measured_at_source(now, offset);
    }

    /// By how much our wall clock is wrong, when nothing may be answered by it.
    pub(super) fn clock_off_by(&self) -> Option<Offset> {
        Some(self.clocks.own_error()).filter(|error| error.size() > OFFSET_BORNE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(Duration::from_secs(100));

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    fn clocks(source: Option<i64>, peers: &[i64]) -> Clocks {
        let mut clocks = Clocks::default();
        if let Some(offset) = source {
            clocks.measured_at_source(NOW, Offset(offset));
        }
        for (number, offset) in peers.iter().enumerate() {
            let slot = Name::parse(&format!("p{number}")).unwrap();
            clocks.measured_at_peer(&slot, NOW, Offset(*offset));
        }
        clocks
    }

    #[test]
    fn what_the_journey_and_whole_seconds_explain_is_no_offset() {
        for (other, grain, sent, received, offset) in [
            (500, 0, 400, 600, 0),
            (700, 0, 400, 600, 100),
            (300, 0, 400, 600, -100),
            // The store's 10.999 is written as 10.
            (10_000, 1_000, 10_950, 10_990, 0),
            (10_000, 1_000, 12_000, 12_100, -1_000),
            (20_000, 1_000, 12_000, 12_100, 7_900),
        ] {
            let grain = Duration::from_millis(grain);
            let found = Offset::measure(at(other), grain, at(sent), at(received));
            assert_eq!(found, Offset(offset), "{other} {sent} {received}");
        }
    }

    #[test]
    fn who_differs_from_all_others_is_wrong() {
        for (source, peers, error) in [
            (None, &[][..], 0),
            (Some(9_000), &[], 9_000),
            (None, &[9_000], 0),
            // One of them is wrong, not we.
            (Some(0), &[9_000], 0),
            (Some(9_000), &[10, -20], 0),
            (None, &[9_000, 0], 0),
            // We are.
            (Some(9_000), &[9_100], 9_000),
            (None, &[-9_000, -9_100], -9_000),
            (Some(9_000), &[9_100, 9_050], 9_000),
        ] {
            let found = clocks(source, peers).own_error();
            assert_eq!(found, Offset(error), "{source:?} {peers:?}");
        }
    }

    #[test]
    fn an_old_measurement_says_nothing() {
        let mut clocks = clocks(Some(9_000), &[9_100]);
        let later = NOW.after(MEASURED_WITHIN * 2);
        clocks.measured_at_peer(&Name::parse("p0").unwrap(), later, Offset(0));
        assert_eq!(clocks.of_source(), None);
        assert_eq!(clocks.own_error(), Offset(0));
    }
}
