//! FIRST: whoever was away asks those who were not, before its first reading is believed.
//!
//! While a replica was down the store may have been restored and written to until nothing in it is
//! lower than what the replica remembers, and its token may have lost rights. Its peers can tell.

use std::collections::BTreeSet;

use super::vanished::{to_ask, vanished};
use super::{Authority, Clause, Findings, Moment};
use crate::domain::listing::Listing;

/// Nothing was accepted since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Away {
    /// Whether it knows from its own disk what was before.
    remembers: bool,
    /// When it first had a reading that could have been accepted.
    had_reading: Option<Moment>,
}

impl Away {
    pub(super) const fn remembering() -> Self {
        Self {
            remembers: true,
            had_reading: None,
        }
    }
}

impl Authority {
    /// Whether the peers had their chance to tell what they know. One that has no memory may be
    /// the only one that sees a wiped store: it waits for them as long as it takes. One that
    /// remembers waits for one question to each.
    pub(super) fn first_allowed(&mut self, now: Moment) -> bool {
        let most = self.times.fresh() + self.times.question();
        let knows = self.evidence.is_some();
        let Some(away) = self
            .away
            .as_mut()
            .filter(|_| self.without != Some(Clause::First))
        else {
            return true;
        };
        let waits = now.since(*away.had_reading.get_or_insert(now));
        let enough = if away.remembers {
            waits >= most || self.peers.memories().next().is_some()
        } else {
            knows
        };
        enough || self.peers.all_heard(now, self.times.fresh())
    }

    /// Why a first reading is not believed yet. Without memory that may last until somebody acts.
    pub(super) fn why_first(&self, now: Moment) -> String {
        let text = "after a start the peers are asked first, and not all have answered";
        if self.away.is_none_or(|away| away.remembers) {
            return text.to_owned();
        }
        let who = self.standing().out_of_sight(now).join("; ");
        format!(
            "{text}: {who}. Nothing is known here from before, so bring that replica back; if it \
             is gone for good, name it in assume_gone"
        )
    }

    /// The paths that a reading lacks of what is believed. The first reading after a start is
    /// compared with what the peers know as well: a token may have lost rights meanwhile.
    pub(super) fn gone_from(&self, reading: &Listing) -> Vec<&str> {
        let ours = self.believed.iter().map(|believed| &*believed.listing);
        let away = self.away.is_some() && self.holds(Clause::First);
        let peers = self.peers.memories().filter(|_| away);
        let theirs = peers.filter_map(|memory| memory.listing.as_deref());
        let gone: BTreeSet<_> = ours
            .chain(theirs)
            .flat_map(|listing| vanished(listing, reading))
            .collect();
        gone.into_iter().collect()
    }

    /// Whether all that is to be asked for by name was. A peer may have told of further keys since.
    pub(super) fn all_asked(&self, reading: &Listing, findings: &Findings) -> bool {
        let gone = to_ask(&self.gone_from(reading));
        gone.iter().all(|path| findings.asked.contains(path))
    }
}

#[cfg(test)]
mod tests;
