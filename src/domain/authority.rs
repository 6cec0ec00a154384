//! Whether this replica may answer now.
//!
//! One state machine without a clock or a socket: reads sent and received and the words of peers
//! are its events, every moment is an argument. A listing is judged before it is believed: Consul
//! shows an empty or a smaller world without any error when rights are lost, and an older one
//! after a restore (measured on Consul 1.8.7). What is not believed answers nothing.
//!
//! Replicas that disagree would make servers flap, so none answers on a guess: its own source has
//! confirmed the listing just now (`current`), or a peer's has (`relayed`), or every peer is known
//! to be no wiser (`agreed`). Otherwise it is silent, and HAProxy keeps its state.

use std::sync::Arc;

use jiff::Timestamp;

pub use self::clause::Clause;
pub use self::clocks::Offset;
pub use self::held::HeldKind;
pub use self::judgement::{Findings, Judgement, Questions};
pub use self::peers::{Heard, PeerView, Said};
pub use self::standing::{Answers, AuthorityName, CountedAs, Distrust, Refusal, Standing, Verdict};
pub use self::times::{Moment, Times};
pub use self::vanished::VANISHED_ASKED_MAX;

use self::away::Away;
use self::peers::Peers;
use self::standing::{Broken, Held};
use self::vanished::{to_ask, vanished};
use super::evidence::Evidence;
use super::key::META;
use super::listing::{Listing, Outline};
use super::memory::Memory;
use super::name::Name;
use super::sentinel::Generation;

mod away;
mod clause;
mod clocks;
mod held;
mod judgement;
mod order;
mod peers;
mod standing;
#[cfg(test)]
mod tests;
mod times;
mod vanished;

/// What this replica believes, and what it knows of its source and its peers.
#[derive(Debug, Clone)]
pub struct Authority {
    times: Times,
    /// A clause that is left out, to show that it matters.
    without: Option<Clause>,
    believed: Option<Believed>,
    evidence: Evidence,
    /// When the evidence last grew. A reading that was sent before proves nothing against it.
    raised: Moment,
    /// The first reading that went back; a second one breaks the history.
    suspected: Option<Suspicion>,
    broken: Option<Broken>,
    held: Option<Held>,
    /// Confirmed by the own source: when that reading was sent.
    own: Option<Moment>,
    /// Confirmed through a peer.
    relayed: Option<Moment>,
    /// The listing did not come with the last whole reading of the own source: light reads prove
    /// nothing until one has.
    unread: bool,
    /// Until the first reading is accepted.
    away: Option<Away>,
    /// The source has not had its chance yet: no answer, nor a failure.
    waiting: bool,
    /// Why the source gave no answer, when that was the last thing heard of it.
    trouble: Option<String>,
    /// Until then this listing, which was agreed on, is answered even if a newer one is believed.
    deferral: Option<(Moment, Arc<Listing>)>,
    /// Until when this replica last agreed, and on what.
    agreed: Option<(Moment, Arc<Listing>)>,
    peers: Peers,
    clocks: clocks::Clocks,
    edition: u64,
}

/// The listing that is believed.
#[derive(Debug, Clone)]
struct Believed {
    listing: Arc<Listing>,
    outline: Outline,
    generation: Generation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suspicion {
    received: Moment,
}

impl Authority {
    /// Knows nothing yet. `peers` are the slots of the other replicas; none: it stands alone.
    #[must_use]
    pub fn new(times: Times, peers: impl IntoIterator<Item = Name>) -> Self {
        Self {
            times,
            without: None,
            believed: None,
            evidence: Evidence::default(),
            raised: Moment::default(),
            suspected: None,
            broken: None,
            held: None,
            own: None,
            relayed: None,
            unread: true,
            away: Some(Away::default()),
            waiting: true,
            trouble: None,
            deferral: None,
            agreed: None,
            peers: Peers::new(peers),
            clocks: clocks::Clocks::default(),
            edition: 0,
        }
    }

    /// Knows what it knew before a restart. It answers from it only once the source has had its
    /// chance: an answer, or none.
    #[must_use]
    pub fn remembering(mut self, memory: Memory) -> Self {
        let told = |(epoch, evidence)| Broken { epoch, evidence };
        self.away = Some(Away::remembering());
        self.broken = memory.broken.map(told);
        self.evidence = memory.evidence;
        if let Some(listing) = memory.listing
            && let Ok(generation) = Generation::read(&listing)
        {
            self.believed = Some(Believed::new(listing, generation));
        }
        self.edition += 1;
        self
    }

    /// What to remember over a restart and to tell peers; `at` is the wall clock. `None`: nothing.
    #[must_use]
    pub fn memory(&self, at: Timestamp) -> Option<Memory> {
        if self.believed.is_none() && !self.evidence.is_some() && self.broken.is_none() {
            return None;
        }
        let broken = self.broken.as_ref();
        Some(Memory {
            listing: self.listing().map(Arc::clone),
            evidence: self.evidence.clone(),
            broken: broken.map(|broken| (broken.epoch, broken.evidence.clone())),
            at,
        })
    }

    /// Grows with each change of [`Authority::memory`].
    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }

    /// The listing that is believed.
    #[must_use]
    pub fn listing(&self) -> Option<&Arc<Listing>> {
        self.believed.as_ref().map(|believed| &believed.listing)
    }

    /// What decides whether to answer, and from what.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing {
            lease: self.times.lease(),
            has_listing: self.believed.is_some(),
            own: self.own,
            relayed: self.relayed,
            held: self.held.clone(),
            broken: self.breach().cloned(),
            waiting: self.waiting,
            trouble: self.trouble.clone(),
            agreed_until: self.agreed_until(),
            fresh: self.times.fresh(),
            peers: self.peer_views(),
            clock: self.clock_off_by(),
            source_clock: self.clocks.of_source(),
            deferred: self.deferred_until(),
        }
    }

    /// A whole reading, sent and received at these moments.
    pub fn listed(
        &mut self,
        reading: impl Into<Arc<Listing>>,
        sent: Moment,
        received: Moment,
    ) -> Judgement {
        let reading = reading.into();
        let generation = Generation::read(&reading);
        let known = generation.as_ref().ok().copied();
        let gone = self.gone_from(&reading);
        let doubtful = !gone.is_empty()
            || self
                .believed
                .as_ref()
                .is_some_and(|b| reading.index < b.listing.index)
            || self.went_back(&reading, known).is_some()
            // Nobody watched meanwhile: only the table-wide index may tell of a restore.
            || (self.unread && self.evidence.table_index > reading.index);
        match generation {
            Ok(generation) if !doubtful => self.accept(reading, generation, sent, received),
            // Without anything to compare with: a schema of the future, a slip of the hand.
            Err(error) if !self.knows() && reading.entries.contains_key(META) => {
                self.hold(Distrust::Sentinel(error), received)
            }
            _ => {
                let mut paths = to_ask(&gone);
                // Missing rights look like missing keys; a key that is asked for by name tells.
                if !reading.entries.contains_key(META) && !paths.iter().any(|path| path == META) {
                    paths.push(META.to_owned());
                }
                // The source goes on answering so: what holds must not lapse while it is asked.
                if let Some(held) = &mut self.held {
                    held.last_answer = received;
                }
                Judgement::Examine(Questions { paths })
            }
        }
    }

    /// A doubtful reading with the source's answers, which were received at this moment.
    pub fn examined(
        &mut self,
        reading: impl Into<Arc<Listing>>,
        sent: Moment,
        findings: &Findings,
        received: Moment,
    ) -> Judgement {
        let reading = reading.into();
        let generation = Generation::read(&reading);
        let highest = self.evidence.highest.epoch;
        let new_history = generation.as_ref().is_ok_and(|g| g.epoch > highest);
        let denied = findings.denied.clone();
        if let Some(refusal) = denied.filter(|_| self.holds(Clause::AskByName)) {
            self.hold(Distrust::RightsLost(refusal), received);
        }
        // What was heard since may be what makes this reading look old.
        if sent < self.raised && self.holds(Clause::Guard) {
            return Judgement::Refused;
        }
        if !new_history {
            let known = generation.as_ref().ok().copied();
            let (now, seen) = (findings.table_index, self.evidence.table_index);
            let table = (self.knows() && now < seen)
                .then(|| format!("the store's index is {now}, it was {seen}"));
            // Missing rights hide keys, and no part of the history.
            if let Some(evidence) = self.went_back(&reading, known).or(table) {
                return self.suspect(evidence, sent, received);
            }
            if now > seen && self.knows() {
                self.evidence.table_index = now;
                self.edition += 1;
            }
        }
        let asked = findings.denied.is_none() && self.all_asked(&reading, findings);
        if !asked && self.holds(Clause::AskByName) {
            return Judgement::Refused;
        }
        let generation = match generation {
            Ok(generation) => generation,
            Err(error) => return self.hold(Distrust::Sentinel(error), received),
        };
        // A key above the listing's index was created after it: the listing did not lack it.
        let mut present = findings.present.iter();
        if let Some((path, _)) = present.find(|(_, modified)| **modified <= reading.index) {
            let path = path.clone();
            return self.hold(Distrust::Partial { path }, received);
        }
        if let Some(cause) = self.shrunk(&reading).filter(|_| !new_history) {
            return self.hold(cause, received);
        }
        self.accept(reading, generation, sent, received)
    }

    /// A light read. `false`: it renews nothing, and a full read without an index comes next.
    #[must_use]
    pub fn confirmed(&mut self, outline: &Outline, sent: Moment, received: Moment) -> bool {
        let same = self
            .believed
            .as_ref()
            .is_some_and(|believed| believed.outline == *outline);
        let trusted = self.held.is_none() && self.suspected.is_none() && !self.unread;
        if same && trusted {
            self.note_agreement(received);
            self.leave_agreement(received);
            self.confirm(sent, received);
        }
        same && trusted
    }

    /// The source refused our rights.
    pub fn denied(&mut self, text: String, received: Moment) {
        self.hold(Distrust::Denied(text), received);
    }

    /// The source gave no answer that can be used.
    pub fn unreachable(&mut self, text: String) {
        self.waiting = false;
        self.unread = true;
        self.trouble = Some(text);
    }

    /// Leaves a clause out: only to show that it matters.
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, clause: Clause) -> Self {
        self.without = Some(clause);
        self
    }

    fn holds(&self, clause: Clause) -> bool {
        self.without != Some(clause)
    }

    /// Whether anything is known that a reading can be compared with.
    const fn knows(&self) -> bool {
        self.evidence.is_some()
    }

    /// What broke the history that the listing or the evidence belongs to.
    fn breach(&self) -> Option<&Broken> {
        let listing = self.believed.as_ref();
        let epoch = self.evidence.highest.epoch;
        let lowest = listing.map_or(epoch, |believed| believed.generation.epoch.min(epoch));
        let broken = self.broken.as_ref()?;
        (lowest <= broken.epoch && self.knows()).then_some(broken)
    }

    /// What shows that the reading is older than what was seen.
    fn went_back(&self, reading: &Listing, generation: Option<Generation>) -> Option<String> {
        self.evidence.against(reading, generation?)
    }

    /// Keys that are gone although the index is not newer.
    fn shrunk(&self, reading: &Listing) -> Option<Distrust> {
        let believed = &self.believed.as_ref()?.listing;
        let gone = vanished(believed, reading);
        let path = gone.first().filter(|_| reading.index <= believed.index)?;
        let (keys, path) = (gone.len(), (*path).to_owned());
        Some(Distrust::Shrunk { keys, path })
    }

    /// One reading that went back may have been late; a second one, sent after the first was
    /// received, has no such excuse.
    fn suspect(&mut self, evidence: String, sent: Moment, received: Moment) -> Judgement {
        if !self.holds(Clause::BrokenStays) {
            return self.hold(Distrust::Denied(evidence), received);
        }
        match self.suspected {
            Some(first) if sent >= first.received || !self.holds(Clause::Guard) => {
                let epoch = self.evidence.highest.epoch;
                self.break_history(epoch, evidence);
            }
            Some(_) => {}
            None => self.suspected = Some(Suspicion { received }),
        }
        Judgement::Refused
    }

    /// Whether nothing of this generation's epoch counts any more.
    fn is_broken(&self, generation: Generation) -> bool {
        let broken = self.broken.as_ref();
        broken.is_some_and(|broken| generation.epoch <= broken.epoch)
    }

    /// The mark only grows.
    fn break_history(&mut self, epoch: u64, evidence: String) {
        if self
            .broken
            .as_ref()
            .is_none_or(|broken| broken.epoch < epoch)
        {
            self.broken = Some(Broken { epoch, evidence });
            self.edition += 1;
        }
    }

    fn hold(&mut self, cause: Distrust, received: Moment) -> Judgement {
        self.trouble = None;
        self.waiting = false;
        self.unread = true;
        self.held = Some(Held {
            cause,
            last_answer: received,
        });
        Judgement::Refused
    }

    fn accept(
        &mut self,
        reading: Arc<Listing>,
        generation: Generation,
        sent: Moment,
        received: Moment,
    ) -> Judgement {
        if self.is_broken(generation) {
            return Judgement::Refused;
        }
        if !self.first_allowed(received) {
            self.trouble = Some(self.why_first(received));
            return Judgement::Refused;
        }
        self.away = None;
        if self.evidence.raise(&Evidence::of(&reading, generation)) {
            self.raised = received;
            self.edition += 1;
        }
        self.note_agreement(received);
        self.leave_agreement(received);
        let changed = self.believe(reading, generation);
        self.suspected = None;
        self.held = None;
        self.unread = false;
        self.confirm(sent, received);
        Judgement::Accepted { changed }
    }

    /// Puts a listing in force. Returns whether its contents are other than before.
    fn believe(&mut self, listing: Arc<Listing>, generation: Generation) -> bool {
        let before = self.believed.as_ref();
        let changed = before.is_none_or(|b| !b.listing.same_contents(&listing));
        if changed || before.is_some_and(|b| b.listing.index != listing.index) {
            self.evidence.bound(&listing);
            self.believed = Some(Believed::new(listing, generation));
            self.edition += 1;
        }
        changed
    }

    /// Keeps in mind what was agreed on until this event, or may be until the words expire.
    fn note_agreement(&mut self, now: Moment) {
        let standing = self.standing();
        if standing.name(now) == AuthorityName::Agreed
            && let (Some(until), Some(listing)) = (standing.agreed_until, self.listing())
        {
            self.agreed = Some((until, Arc::clone(listing)));
        }
    }

    /// Comes before a confirmation. Peers may agree on the listing before until they hear that
    /// this replica does not any more: answering another one at once would mean two truths at a
    /// time.
    fn leave_agreement(&mut self, now: Moment) {
        let confirmed = match self.standing().name(now) {
            AuthorityName::Current | AuthorityName::Relayed => true,
            AuthorityName::Agreed
            | AuthorityName::Starting
            | AuthorityName::Held
            | AuthorityName::CutOff => false,
        };
        if confirmed || self.peers.is_empty() || !self.holds(Clause::Defer) {
            return;
        }
        let fresh = self.times.fresh();
        let running = self.deferral.clone().filter(|(until, _)| now < *until);
        let lately = |(until, _): &(Moment, Arc<Listing>)| now.since(*until) <= fresh;
        // A confirmation that lapses and comes back begins anew: peers may have heard of the gap.
        if let Some((_, listing)) = running.or_else(|| self.agreed.take().filter(lately)) {
            self.deferral = Some((now.after(fresh), listing));
        }
    }

    fn deferred_until(&self) -> Option<Moment> {
        let (until, agreed) = self.deferral.as_ref()?;
        let now = self.listing()?;
        let same = Arc::ptr_eq(agreed, now) || agreed.same_contents(now);
        (!same).then_some(*until)
    }

    fn confirm(&mut self, sent: Moment, received: Moment) {
        self.trouble = None;
        self.waiting = false;
        let at = if self.holds(Clause::CountsFromSending) {
            sent
        } else {
            received
        };
        self.own = self.own.max(Some(at));
    }
}

impl Believed {
    fn new(listing: Arc<Listing>, generation: Generation) -> Self {
        let outline = listing.outline();
        Self {
            listing,
            outline,
            generation,
        }
    }
}
