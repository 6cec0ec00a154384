//! What decides whether to answer at a moment, and the words for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::clocks::OFFSET_SHOWN;
use super::{Moment, Offset, PeerView};
use crate::domain::sentinel::SentinelError;

/// What decides whether to answer at any moment until the next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub(super) lease: Duration,
    pub(super) fresh: Duration,
    pub(super) has_listing: bool,
    pub(super) own: Option<Moment>,
    pub(super) relayed: Option<Moment>,
    pub(super) held: Option<Held>,
    pub(super) broken: Option<Broken>,
    /// The source has not had its chance yet.
    pub(super) waiting: bool,
    /// Why the source gave no answer, when that was the last thing heard of it.
    pub(super) trouble: Option<String>,
    pub(super) agreed_until: Option<Moment>,
    pub(super) peers: Arc<[PeerView]>,
    /// Our clock is wrong by this: too much.
    pub(super) clock: Option<Offset>,
    pub(super) source_clock: Option<Offset>,
    pub(super) deferred: Option<Moment>,
}

/// Whether this replica may answer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The authority.
    pub name: AuthorityName,
    /// Why, and what to do, for a person.
    pub reason: String,
}

/// The authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorityName {
    /// Confirmed by the source within the lease.
    Current,
    /// Confirmed within the lease by a peer's source.
    Relayed,
    /// The source is out of reach, for all who could know better.
    Agreed,
    /// No listing yet.
    Starting,
    /// The source is not to be trusted.
    Held,
    /// Somebody out of sight may know better.
    CutOff,
}

/// What is answered from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Silence.
    Nothing,
    /// The listing that is believed.
    TheListing,
    /// The one that the replicas agreed on before: some may still answer from it.
    WhatWasAgreed,
}

/// What a peer is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedAs {
    /// It answered lately, with this authority.
    Heard(AuthorityName),
    /// Its host refused the connection.
    Dead,
    /// Nothing was heard for too long.
    OutOfSight,
    /// Of another environment, slot or configuration.
    Stranger,
    /// The configuration says that it is gone for good.
    AssumedGone,
}

/// The source is not to be trusted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) cause: Distrust,
    pub(super) last_answer: Moment,
}

/// The history of this epoch went back: nothing of it counts any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) epoch: u64,
    pub(super) evidence: String,
}

/// Why the source is not to be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distrust {
    /// It refuses our rights.
    Denied(String),
    /// A key that is not listed may not be read when asked for by name: rights are missing, and
    /// nothing was deleted.
    RightsLost(Refusal),
    /// The listing has no good sentinel.
    Sentinel(SentinelError),
    /// Keys are gone although the index is not newer.
    Shrunk {
        /// How many.
        keys: usize,
        /// One of them.
        path: String,
    },
    /// The listing lacks a key that is there when asked for by name.
    Partial {
        /// The path below the prefix.
        path: String,
    },
}

/// The source's refusal to show one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The path below the prefix.
    pub path: String,
    /// The source's own words.
    pub text: String,
}

impl Standing {
    /// The authority at `now`, the first that fits. Cheap: every answer asks it.
    #[must_use]
    pub fn name(&self, now: Moment) -> AuthorityName {
        if self.clock.is_some() && self.broken.is_none() {
            return AuthorityName::CutOff;
        }
        self.name_for_peers(now)
    }

    /// The same without a look at our clock: what is known of the listing does not depend on it.
    #[must_use]
    pub fn name_for_peers(&self, now: Moment) -> AuthorityName {
        let within = |moment: Moment| now.since(moment) < self.lease;
        if self.broken.is_some() {
            AuthorityName::Held
        } else if self.held.is_none() && self.has_listing && self.own.is_some_and(within) {
            AuthorityName::Current
        } else if self.has_listing && self.relayed.is_some_and(within) {
            AuthorityName::Relayed
        } else if self.held.as_ref().is_some_and(|h| within(h.last_answer)) {
            AuthorityName::Held
        } else if !self.has_listing || self.waiting {
            AuthorityName::Starting
        } else if self.agreed_until.is_some_and(|until| now < until) {
            AuthorityName::Agreed
        } else {
            AuthorityName::CutOff
        }
    }

    /// Which listing is answered from at `now`.
    #[must_use]
    pub fn answers(&self, now: Moment) -> Answers {
        if !self.name(now).answers() {
            return Answers::Nothing;
        }
        match self.deferred {
            Some(until) if now < until => match self.agreed_until {
                Some(agreed) if now < agreed => Answers::WhatWasAgreed,
                Some(_) | None => Answers::Nothing,
            },
            Some(_) | None => Answers::TheListing,
        }
    }

    /// Time since the listing was last confirmed, by the source or through a peer.
    #[must_use]
    pub fn age(&self, now: Moment) -> Option<Duration> {
        let confirmed = self.own.max(self.relayed);
        confirmed.map(|confirmed| now.since(confirmed))
    }

    /// Until when what was agreed on is answered, although another listing is believed.
    #[must_use]
    pub const fn deferred_until(&self) -> Option<Moment> {
        self.deferred
    }

    /// The last word of each peer.
    #[must_use]
    pub fn peers(&self) -> &Arc<[PeerView]> {
        &self.peers
    }

    /// How far the source's clock is ahead of ours.
    #[must_use]
    pub const fn source_clock(&self) -> Option<Offset> {
        self.source_clock
    }

    /// What this peer is counted as at `now`.
    #[must_use]
    pub fn counted_as(&self, peer: &PeerView, now: Moment) -> CountedAs {
        let fresh = |asked: Moment| now.since(asked) < self.fresh;
        match (peer.asked, &peer.said) {
            _ if peer.assumed_gone => CountedAs::AssumedGone,
            _ if peer.stranger => CountedAs::Stranger,
            (Some(asked), None) if fresh(asked) => CountedAs::Dead,
            (Some(asked), Some(said)) if fresh(asked) => CountedAs::Heard(said.authority),
            (Some(_) | None, _) => CountedAs::OutOfSight,
        }
    }

    /// The authority at `now`, with its reason.
    #[must_use]
    pub fn verdict(&self, now: Moment) -> Verdict {
        let name = self.name(now);
        let reason = match name {
            AuthorityName::Current => {
                let age = seconds(self.own.map(|own| now.since(own)));
                format!("confirmed by the source {age} s ago")
            }
            AuthorityName::Relayed => {
                let age = seconds(self.relayed.map(|relayed| now.since(relayed)));
                format!(
                    "confirmed through a peer {age} s ago{}",
                    self.why_no_source()
                )
            }
            AuthorityName::Agreed => {
                let peers = if self.peers.is_empty() {
                    ""
                } else {
                    ", for every replica"
                };
                let (why, last) = (self.why_no_source(), self.last_confirmed(now));
                format!("the source is out of reach{peers}{why}; {last}")
            }
            AuthorityName::Held => match (&self.broken, &self.held) {
                (Some(broken), _) => broken.to_string(),
                (None, Some(held)) => held.cause.to_string(),
                (None, None) => "the source is not to be trusted".to_owned(),
            },
            AuthorityName::Starting => self.why_starting(),
            AuthorityName::CutOff => self.why_cut_off(now),
        };
        Verdict { name, reason }
    }

    /// What somebody should look at although this replica answers.
    #[must_use]
    pub fn problems(&self, own_version: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(offset) = self.source_clock.filter(|o| o.size() > OFFSET_SHOWN) {
            let offset = signed(offset);
            problems.push(format!("the clock of the source is {offset} s from ours"));
        }
        for peer in self.peers.iter() {
            let slot = &peer.slot;
            if peer.assumed_gone {
                problems.push(format!(
                    "assume_gone: peer {slot} is taken for dead whatever it knows; take it out of \
                     assume_gone when it is back"
                ));
            }
            if let (true, Some(trouble)) = (peer.stranger, &peer.trouble) {
                problems.push(format!("peer {slot} is not counted as one: {trouble}"));
            }
            if let Some(version) = peer.other_version(own_version) {
                problems.push(format!(
                    "peer {slot} runs version {}, this replica {own_version}",
                    version.escape_debug()
                ));
            }
            if let Some(offset) = peer.offset.filter(|offset| offset.size() > OFFSET_SHOWN) {
                let offset = signed(offset);
                problems.push(format!("the clock of peer {slot} is {offset} s from ours"));
            }
        }
        problems
    }

    fn why_no_source(&self) -> String {
        let trouble = self.trouble.as_deref();
        trouble.map_or_else(String::new, |text| format!(" ({text})"))
    }

    fn last_confirmed(&self, now: Moment) -> String {
        match self.age(now) {
            Some(age) => format!("last confirmed {} s ago", seconds(Some(age))),
            None => "the listing is from before the start".to_owned(),
        }
    }

    fn why_starting(&self) -> String {
        match (&self.trouble, self.has_listing) {
            (_, true) => "a listing is known from before the start; the source is asked first",
            (Some(text), false) => return format!("no listing yet: {text}"),
            (None, false) => "no listing yet: the source has not answered",
        }
        .to_owned()
    }

    /// Each peer that is not accounted for, with the reason.
    pub(super) fn out_of_sight(&self, now: Moment) -> Vec<String> {
        let peers = self.peers.iter();
        let unseen = peers.filter_map(|peer| match self.counted_as(peer, now) {
            counted @ (CountedAs::OutOfSight | CountedAs::Stranger) => counted.why_not_agreed(peer),
            CountedAs::Heard(_) | CountedAs::Dead | CountedAs::AssumedGone => None,
        });
        unseen.collect()
    }

    fn why_cut_off(&self, now: Moment) -> String {
        if let Some(offset) = self.clock {
            // A clock that was ahead and is set back stands still here until it is caught up with.
            let ahead = if offset.0 < 0 {
                ", and start this replica again: its time never runs back by itself"
            } else {
                ""
            };
            return format!(
                "the clock of this machine is wrong: all others are {} s from it. Set it right\
                 {ahead}; ramps and plans count by it",
                signed(offset)
            );
        }
        let who: Vec<_> = self
            .peers
            .iter()
            .filter_map(|peer| self.counted_as(peer, now).why_not_agreed(peer))
            .collect();
        let (why, who) = (self.why_no_source(), who.join("; "));
        format!(
            "the source is out of reach{why}, and somebody may know better: {who}. Bring back the \
             source or that replica; if it is gone for good, name it in assume_gone"
        )
    }
}

impl CountedAs {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Heard(authority) => authority.as_str(),
            Self::Dead => "dead",
            Self::OutOfSight => "out of sight",
            Self::Stranger => "no peer",
            Self::AssumedGone => "assumed gone",
        }
    }

    fn why_not_agreed(self, peer: &PeerView) -> Option<String> {
        let slot = &peer.slot;
        let trouble = peer.trouble.as_deref();
        match self {
            Self::Dead | Self::AssumedGone => None,
            Self::Heard(authority) => match authority {
                AuthorityName::Current | AuthorityName::Relayed | AuthorityName::Held => {
                    Some(format!("{slot} is {}", authority.as_str()))
                }
                AuthorityName::Agreed | AuthorityName::Starting | AuthorityName::CutOff => None,
            },
            Self::OutOfSight => {
                let why = trouble.map_or_else(String::new, |text| format!(" ({text})"));
                Some(format!("{slot} is out of sight{why}"))
            }
            Self::Stranger => Some(format!(
                "{slot} is no peer ({})",
                trouble.unwrap_or("another configuration")
            )),
        }
    }
}

fn seconds(span: Option<Duration>) -> String {
    format!("{:.1}", span.unwrap_or_default().as_secs_f64())
}

fn signed(offset: Offset) -> String {
    let sign = if offset.0 < 0 { '-' } else { '+' };
    format!("{sign}{:.1}", offset.size().as_secs_f64())
}

impl AuthorityName {
    /// All of them, for metrics.
    pub const ALL: [Self; 6] = [
        Self::Current,
        Self::Relayed,
        Self::Agreed,
        Self::Starting,
        Self::Held,
        Self::CutOff,
    ];

    /// Reads the word for it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// Whether such a replica answers.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Current | Self::Relayed | Self::Agreed)
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Relayed => "relayed",
            Self::Agreed => "agreed",
            Self::Starting => "starting",
            Self::Held => "held",
            Self::CutOff => "cut-off",
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, evidence } = self;
        write!(
            f,
            "the store's history went back ({evidence}): restored or wiped. `tidegate accept` shows \
             what that changes, asks, and ends it with an epoch above {epoch}"
        )
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(text) => write!(f, "the source refuses: {text}"),
            Self::RightsLost(Refusal { path, text }) => write!(
                f,
                "rights are missing: {} is not listed and may not be read. Give the token the \
                 policy `list` on the whole prefix. The source says: {text}",
                path.escape_debug()
            ),
            Self::Sentinel(error) => write!(f, "{error}"),
            Self::Shrunk { keys, path } => write!(
                f,
                "{keys} keys are gone without a newer index ({} among them): a filtered \
                 listing, or a recursive delete. Any write below the prefix settles it",
                path.escape_debug()
            ),
            Self::Partial { path } => {
                write!(
                    f,
                    "the listing lacks {}, which is there when asked for by name",
                    path.escape_debug()
                )
            }
        }
    }
}
