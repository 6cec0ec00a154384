//! What the KV held and when, as its only writer knows it: the measure of every answer.

use std::time::Duration;

/// Time since the scene's beginning.
pub(crate) type At = Duration;

/// One version of one key.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Below the environment: `canary-state`.
    pub(crate) key: String,
    /// What it asks for, as HAProxy shows it: `drain`, `maint` or `40%`.
    pub(crate) word: String,
    /// Consul's index of this version.
    pub(crate) index: u64,
    /// It did not count before.
    pub(crate) sent: At,
    /// It counted from then on at the latest.
    pub(crate) acked: At,
}

/// Place of a listing in the history. An index alone is none: it begins anew in a wiped cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    era: usize,
    index: u64,
}

/// Every version of every key. A new era begins where somebody ended a broken history.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    eras: Vec<Era>,
}

#[derive(Clone, Debug, Default)]
struct Era {
    begin: At,
    /// By index.
    writes: Vec<Write>,
}

impl History {
    /// Adds a version to the newest era, in its place by index: that of a write whose outcome was
    /// unknown is found out later.
    pub(crate) fn add(&mut self, write: Write) {
        if self.eras.is_empty() {
            self.eras.push(Era::default());
        }
        let era = self.eras.last_mut().expect("there is one by now");
        let place = era.writes.partition_point(|w| w.index <= write.index);
        era.writes.insert(place, write);
    }

    /// From `begin` on, answers rest on another history: on what is left of this one, when only
    /// versions up to an index are kept.
    pub(crate) fn begin_era(&mut self, begin: At, kept_up_to: u64) {
        let before = self.eras.last().cloned().unwrap_or_default();
        let kept = before
            .writes
            .into_iter()
            .filter(|write| write.index <= kept_up_to);
        let writes = kept.collect();
        self.eras.push(Era { begin, writes });
    }

    /// The place of a listing with that index which was answered from at `at`.
    pub(crate) fn rank(&self, index: u64, at: At) -> Rank {
        let era = self.eras.iter().rposition(|era| era.begin <= at);
        Rank {
            era: era.unwrap_or_default(),
            index,
        }
    }

    /// What a server asks HAProxy to be, by the first of these keys that exists in that listing.
    pub(crate) fn word(&self, rank: Rank, keys: &[String]) -> &str {
        let writes = self.eras.get(rank.era).map_or(&[][..], |era| &era.writes);
        let seen = &writes[..writes.partition_point(|write| write.index <= rank.index)];
        let of_key = |key: &String| seen.iter().rfind(|write| write.key == *key);
        keys.iter()
            .find_map(of_key)
            .map_or("100%", |write| &write.word)
    }

    /// The newest version that certainly counted at `at`.
    pub(crate) fn certain_at(&self, at: At) -> Option<&Write> {
        self.eras
            .iter()
            .rev()
            .filter(|era| era.begin <= at)
            .find_map(|era| era.writes.iter().rev().find(|write| write.acked <= at))
    }

    /// Rank of a version of this history.
    pub(crate) fn rank_of(&self, write: &Write) -> Rank {
        self.rank(write.index, write.acked)
    }

    /// How many versions there are.
    pub(crate) fn len(&self) -> usize {
        self.eras.iter().map(|era| era.writes.len()).sum()
    }

    /// The highest index of the newest era.
    pub(crate) fn index(&self) -> u64 {
        let newest = self.eras.last().and_then(|era| era.writes.last());
        newest.map_or(0, |write| write.index)
    }
}
