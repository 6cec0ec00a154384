//! What the other replicas say, and what follows from it.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::order::order;
use super::{Authority, AuthorityName, Clause, Moment, Offset};
use crate::domain::listing::Listing;
use crate::domain::memory::Memory;
use crate::domain::name::Name;
use crate::domain::sentinel::Generation;
use crate::domain::word::Word;

/// What came of a question to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It answered, and is a peer.
    Word(Box<Word>),
    /// Its host refused the connection: no such process runs.
    Refused,
    /// No word that can be used: too late, broken, or an error. The text says which.
    Silent(String),
    /// Somebody answered who is no peer. The text says why.
    Stranger(String),
}

/// The last word of one peer, and what it is counted as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its slot.
    pub slot: Name,
    /// When the question was asked that it answered or refused last.
    pub asked: Option<Moment>,
    /// What it said then; `None`: the connection was refused.
    pub said: Option<Said>,
    /// Why the last question had no such outcome.
    pub trouble: Option<String>,
    /// Whether that was because it is no peer.
    pub stranger: bool,
    /// Whether the configuration says that it is gone for good.
    pub assumed_gone: bool,
    /// How far its clock is ahead of ours.
    pub offset: Option<Offset>,
    /// The edition of its memory that is known here.
    pub edition: Option<u64>,
}

/// A peer's word without what it remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its authority.
    pub authority: AuthorityName,
    /// Whether it stops.
    pub stopping: bool,
    /// Time since its listing was confirmed.
    pub age: Option<Duration>,
    /// Its program's version.
    pub version: String,
    /// The index of its listing.
    pub index: Option<u64>,
}

/// The other replicas.
#[derive(Debug, Clone)]
pub(super) struct Peers(Vec<Peer>);

#[derive(Debug, Clone)]
struct Peer {
    slot: Name,
    record: Option<Record>,
    memory: Option<(u64, Arc<Memory>)>,
    trouble: Option<String>,
    stranger: bool,
    assumed_gone: bool,
}

/// The last answer or refusal.
#[derive(Debug, Clone)]
struct Record {
    asked: Moment,
    said: Option<Said>,
}

impl Peers {
    pub(super) fn new(slots: impl IntoIterator<Item = Name>) -> Self {
        let peer = |slot| Peer {
            slot,
            record: None,
            memory: None,
            trouble: None,
            stranger: false,
            assumed_gone: false,
        };
        Self(slots.into_iter().map(peer).collect())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the peers told of their memories.
    pub(super) fn memories(&self) -> impl Iterator<Item = &Memory> {
        let told = self.0.iter().filter_map(|peer| peer.memory.as_ref());
        told.map(|(_, memory)| &**memory)
    }

    /// Whether each answered or refused lately, or is gone for good.
    pub(super) fn all_heard(&self, now: Moment, fresh: Duration) -> bool {
        let lately = |record: &Record| now.since(record.asked) <= fresh;
        let heard = |peer: &Peer| peer.assumed_gone || peer.record.as_ref().is_some_and(lately);
        self.0.iter().all(heard)
    }

    fn find(&mut self, slot: &Name) -> Option<&mut Peer> {
        self.0.iter_mut().find(|peer| peer.slot == *slot)
    }
}

impl Peer {
    /// Whether it answered or refused, and does not know better than somebody who sees no source.
    fn accounts(&self, authority: &Authority) -> Option<Moment> {
        let record = self.record.as_ref()?;
        let Some(said) = &record.said else {
            return Some(record.asked);
        };
        let wiser = match said.authority {
            AuthorityName::Current | AuthorityName::Relayed => true,
            AuthorityName::Held => authority.holds(Clause::HeldCounts),
            AuthorityName::Agreed | AuthorityName::Starting | AuthorityName::CutOff => false,
        };
        (!wiser).then_some(record.asked)
    }

    /// Takes a word. `Err`: it cannot be used.
    fn take(&mut self, asked: Moment, word: Word) -> Result<Option<Arc<Memory>>, String> {
        let memory = match (word.edition, word.memory) {
            (None, _) => None,
            (Some(edition), Some(memory)) => Some((edition, Arc::new(memory))),
            (Some(edition), None) => match self.memory.take() {
                Some(known) if known.0 == edition => Some(known),
                _ => return Err("it kept back a memory that was not told before".to_owned()),
            },
        };
        self.memory = memory;
        let told = self.memory.as_ref().map(|(_, memory)| Arc::clone(memory));
        self.record = Some(Record {
            asked,
            said: Some(Said {
                authority: word.authority,
                stopping: word.stopping,
                age: word.age,
                version: word.identity.version,
                index: told
                    .as_ref()
                    .and_then(|told| Some(told.listing.as_ref()?.index)),
            }),
        });
        self.trouble = None;
        self.stranger = false;
        self.assumed_gone = false;
        Ok(told)
    }

    fn view(&self, offset: Option<Offset>) -> PeerView {
        let record = self.record.as_ref();
        PeerView {
            slot: self.slot.clone(),
            asked: record.map(|record| record.asked),
            said: record.and_then(|record| record.said.clone()),
            trouble: self.trouble.clone(),
            stranger: self.stranger,
            assumed_gone: self.assumed_gone,
            offset,
            edition: self.memory.as_ref().map(|(edition, _)| *edition),
        }
    }
}

impl PeerView {
    /// The version that it runs, when that is another one.
    #[must_use]
    pub fn other_version(&self, own: &str) -> Option<&str> {
        let version = self.said.as_ref().map(|said| said.version.as_str());
        version.filter(|version| *version != own)
    }
}

impl Authority {
    /// What came of a question that was asked, and over, at these moments.
    pub fn heard(&mut self, slot: &Name, asked: Moment, received: Moment, heard: Heard) {
        let stopping_counts = self.holds(Clause::StoppingCounts);
        let silence_counts = self.holds(Clause::SilenceCounts);
        // Once it is heard that a peer is current, nothing is agreed any more.
        self.note_agreement(received);
        let Some(peer) = self.peers.find(slot) else {
            return;
        };
        if peer
            .record
            .as_ref()
            .is_some_and(|record| asked < record.asked)
        {
            return;
        }
        match heard {
            Heard::Refused => {
                peer.record = Some(Record { asked, said: None });
                peer.trouble = None;
                peer.stranger = false;
            }
            // Its last word counts on until it is too old.
            Heard::Silent(text) => {
                if let Some(record) = &mut peer.record {
                    let stops = record.said.as_ref().is_some_and(|said| said.stopping);
                    if !silence_counts || (!stopping_counts && stops) {
                        record.asked = asked;
                    }
                }
                peer.trouble = Some(text);
            }
            Heard::Stranger(text) => {
                peer.record = None;
                peer.trouble = Some(text);
                peer.stranger = true;
            }
            Heard::Word(word) => match peer.take(asked, *word) {
                Ok(memory) => {
                    if let Some(memory) = memory {
                        let when = Exchange { asked, received };
                        self.learn(slot, &memory, &when);
                    }
                }
                Err(text) => peer.trouble = Some(text),
            },
        }
    }

    /// The clock of a peer, as its answer showed it.
    pub fn clock_of_peer(&mut self, slot: &Name, now: Moment, offset: Offset) {
        self.clocks.measured_at_peer(slot, now, offset);
    }

    /// Break glass: these are gone for good, whatever the silence. It ends for each that is heard.
    pub fn assume_gone(&mut self, slots: &[Name]) {
        for peer in &mut self.peers.0 {
            peer.assumed_gone = slots.contains(&peer.slot);
        }
    }

    /// Until when every peer is accounted for, and none may know better; `None`: it is not so.
    pub(super) fn agreed_until(&self) -> Option<Moment> {
        let fresh = if self.holds(Clause::Fresh) {
            self.times.fresh()
        } else {
            Duration::MAX
        };
        let until = |peer: &Peer| {
            if peer.assumed_gone {
                return Some(Moment::NEVER);
            }
            peer.accounts(self).map(|asked| asked.after(fresh))
        };
        let mut all = self.peers.0.iter().map(until);
        all.try_fold(Moment::NEVER, |all, one| Some(all.min(one?)))
    }

    pub(super) fn peer_views(&self) -> Arc<[PeerView]> {
        let views = self.peers.0.iter();
        views
            .map(|peer| peer.view(self.clocks.of_peer(&peer.slot)))
            .collect()
    }

    /// MEMORY, RELAY and ADOPT.
    fn learn(&mut self, slot: &Name, memory: &Arc<Memory>, exchange: &Exchange) {
        let received = exchange.received;
        if let Some((epoch, evidence)) = &memory.broken
            && self.holds(Clause::BrokenStays)
        {
            self.break_history(*epoch, evidence.clone());
        }
        if self.evidence.raise(&memory.evidence) {
            self.raised = received;
            self.edition += 1;
        }
        let Some(said) = self.said_by(slot) else {
            return;
        };
        let Some(listing) = &memory.listing else {
            return;
        };
        let Ok(generation) = Generation::read(listing) else {
            return;
        };
        if self.is_broken(generation) {
            return;
        }
        let told = Told {
            listing,
            generation,
            confirmed: self.confirmed_at(&said, exchange),
            received,
        };
        let sees = match said.authority {
            AuthorityName::Current => true,
            AuthorityName::Relayed => self.holds(Clause::RelayChain),
            AuthorityName::Agreed
            | AuthorityName::Starting
            | AuthorityName::Held
            | AuthorityName::CutOff => false,
        };
        match told
            .confirmed
            .filter(|at| received.since(*at) < self.times.lease())
        {
            Some(confirmed) if sees => self.relay(&told, confirmed),
            Some(_) | None => self.adopt(&told, said.authority),
        }
    }

    fn said_by(&self, slot: &Name) -> Option<Said> {
        let peer = self.peers.0.iter().find(|peer| peer.slot == *slot)?;
        peer.record.as_ref()?.said.clone()
    }

    /// The age that was told was true at some moment after the question.
    fn confirmed_at(&self, said: &Said, exchange: &Exchange) -> Option<Moment> {
        if !self.holds(Clause::RelayAge) {
            return said.age.map(|_| exchange.received);
        }
        let from = if self.holds(Clause::CountsFromSending) {
            exchange.asked
        } else {
            exchange.received
        };
        from.before(said.age?)
    }

    /// A peer has the listing confirmed: so it is for us. One with more keys at the same place is
    /// taken as well: our own source is asked for them by name then, and may not show them.
    fn relay(&mut self, told: &Told<'_>, confirmed: Moment) {
        let Some(believed) = &self.believed else {
            if self
                .evidence
                .against(told.listing, told.generation)
                .is_none()
            {
                self.take_from_peer(told);
                self.relayed = Some(confirmed);
            }
            return;
        };
        if believed.listing.same_contents(told.listing) {
            self.leave_agreement(told.received);
            self.relayed = self.relayed.max(Some(confirmed));
            return;
        }
        let behind = self.evidence.against(told.listing, told.generation);
        if behind.is_none() && self.is_greater(told) {
            self.leave_agreement(told.received);
            self.take_from_peer(told);
            self.relayed = Some(confirmed);
        }
    }

    /// Nobody confirms anything: the listing that is further in the history is the better one.
    fn adopt(&mut self, told: &Told<'_>, authority: AuthorityName) {
        let may = match authority {
            AuthorityName::Held | AuthorityName::Starting => false,
            AuthorityName::Current
            | AuthorityName::Relayed
            | AuthorityName::Agreed
            | AuthorityName::CutOff => self.holds(Clause::Adopt),
        };
        if !may || self.standing().name(told.received) == AuthorityName::Current {
            return;
        }
        let better = match &self.believed {
            None => true,
            Some(_) if told.generation.epoch < self.evidence.highest.epoch => false,
            Some(_) if self.holds(Clause::Order) => self.is_greater(told),
            Some(believed) => {
                !believed.listing.same_contents(told.listing)
                    && told.confirmed > self.own.max(self.relayed)
            }
        };
        if better {
            self.take_from_peer(told);
        }
    }

    fn is_greater(&self, told: &Told<'_>) -> bool {
        self.believed.as_ref().is_none_or(|believed| {
            let ours = (&*believed.listing, believed.generation);
            order((&**told.listing, told.generation), ours) == Ordering::Greater
        })
    }

    fn take_from_peer(&mut self, told: &Told<'_>) {
        self.believe(Arc::clone(told.listing), told.generation);
        // Our own source has confirmed another one. Were its confirmation to count for this one,
        // replicas could pass a listing that no source shows any more round for ever.
        self.own = None;
        self.unread = true;
    }
}

/// A peer's listing.
struct Told<'a> {
    listing: &'a Arc<Listing>,
    generation: Generation,
    confirmed: Option<Moment>,
    received: Moment,
}

/// A question and its answer.
struct Exchange {
    asked: Moment,
    received: Moment,
}

#[cfg(test)]
pub(super) mod tests;
