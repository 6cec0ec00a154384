//! Whether this replica may answer now.
//!
//! One state machine without a clock or a socket: reads sent and received are its events, every
//! moment is an argument. A listing is judged before it is believed: Consul shows an empty or a
//! smaller world without any error when rights are lost, and an older one after a restore
//! (measured on Consul 1.8.7). What is not believed answers nothing.
//!
//! One replica alone is judged here: it goes on with its last listing while its source is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::standing::{AuthorityName, Distrust, Refusal, Standing, Verdict};
use self::standing::{Broken, Held};
pub use self::vanished::VANISHED_ASKED_MAX;
use self::vanished::{to_ask, vanished};
use super::key::META;
use super::listing::{Listing, Outline};
use super::memory::Memory;
use super::sentinel::Generation;

/// A moment of the monotonic clock that counts suspension, since an origin of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub Duration);

/// All times of the authority, from one setting: the fleet's smallest `agent-inter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    poll_interval: Duration,
}

/// What this replica holds, and what it knows of its source.
#[derive(Debug, Clone)]
pub struct Authority {
    accepted: Option<Accepted>,
    highest: Generation,
    /// The highest index ever seen, of a key, of the prefix or of the whole table.
    table_index: u64,
    /// The first reading that went back; a second one breaks the history.
    suspected: Option<Suspicion>,
    standing: Standing,
}

/// The listing in force.
#[derive(Debug, Clone)]
struct Accepted {
    listing: Arc<Listing>,
    outline: Outline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Suspicion {
    received: Moment,
}

/// What to do with a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// In force; `changed` when its contents are other than before.
    Accepted {
        /// Whether the contents differ from those in force before.
        changed: bool,
    },
    /// Ask the source these things, then hand the reading to [`Authority::examined`].
    Examine(Questions),
    /// Not believed. A full read without an index comes next.
    Refused,
}

/// What is asked before a doubtful reading is believed; the table-wide index always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Questions {
    /// Vanished paths to ask for by name.
    pub paths: Vec<String>,
}

/// The source's answers to [`Questions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The table-wide index.
    pub table_index: u64,
    /// The first path that may not be read.
    pub denied: Option<Refusal>,
    /// The paths that are there after all, with their modify indexes.
    pub present: BTreeMap<String, u64>,
}

impl Times {
    /// From the fleet's smallest `agent-inter`.
    #[must_use]
    pub const fn from_poll_interval(poll_interval: Duration) -> Self {
        Self { poll_interval }
    }

    /// How long a confirmation counts. Shorter than a poll, so that an answer given one poll
    /// later cannot rest on an older listing.
    #[must_use]
    pub fn lease(self) -> Duration {
        self.poll_interval * 3 / 4
    }

    /// Time from one light read to the next.
    #[must_use]
    pub fn light_read(self) -> Duration {
        self.poll_interval / 4
    }
}

impl Moment {
    /// Time since an earlier moment.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Authority {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(times: Times) -> Self {
        Self {
            accepted: None,
            highest: Generation { epoch: 0, r#gen: 0 },
            table_index: 0,
            suspected: None,
            standing: Standing {
                lease: times.lease(),
                has_listing: false,
                confirmed: None,
                held: None,
                broken: None,
                waiting: false,
                trouble: None,
            },
        }
    }

    /// Knows what it knew before a restart. It answers from it only once the source has had its
    /// chance: an answer, or none.
    #[must_use]
    pub fn remembering(times: Times, memory: Memory) -> Self {
        let mut authority = Self::new(times);
        let broken = memory.broken;
        authority.standing.broken = broken.map(|(epoch, evidence)| Broken { epoch, evidence });
        authority.highest = memory.highest;
        authority.table_index = memory.table_index;
        authority.standing.has_listing = true;
        authority.standing.waiting = true;
        let outline = memory.listing.outline();
        let listing = memory.listing;
        authority.accepted = Some(Accepted { listing, outline });
        authority
    }

    /// What to remember over a restart; `at` is the wall clock.
    #[must_use]
    pub fn memory(&self, at: Timestamp) -> Option<Memory> {
        let broken = self.standing.broken.as_ref();
        Some(Memory {
            listing: Arc::clone(self.listing()?),
            highest: self.highest,
            table_index: self.table_index,
            broken: broken.map(|broken| (broken.epoch, broken.evidence.clone())),
            at,
        })
    }

    /// The listing in force.
    #[must_use]
    pub fn listing(&self) -> Option<&Arc<Listing>> {
        self.accepted.as_ref().map(|accepted| &accepted.listing)
    }

    /// What decides whether to answer.
    #[must_use]
    pub const fn standing(&self) -> &Standing {
        &self.standing
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
        let Some(accepted) = &self.accepted else {
            return match generation {
                Ok(generation) => self.accept(reading, generation, sent),
                // Missing rights look like missing keys; a key that is asked for by name tells.
                Err(_) if !reading.entries.contains_key(META) => Judgement::Examine(Questions {
                    paths: vec![META.to_owned()],
                }),
                Err(error) => self.hold(Distrust::Sentinel(error), received),
            };
        };
        let vanished = vanished(&accepted.listing, &reading);
        let doubtful = generation.is_err()
            || !vanished.is_empty()
            || reading.index < accepted.listing.index
            || self
                .went_back(&reading, generation.as_ref().ok().copied())
                .is_some();
        match generation {
            Ok(generation) if !doubtful => self.accept(reading, generation, sent),
            _ => {
                let paths = to_ask(&vanished);
                // The source goes on answering so: what holds must not lapse while it is asked.
                if let Some(held) = &mut self.standing.held {
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
        if let Some(refusal) = findings.denied.clone() {
            return self.hold(Distrust::RightsLost(refusal), received);
        }
        let generation = Generation::read(&reading);
        let new_history = generation
            .as_ref()
            .is_ok_and(|g| g.epoch > self.highest.epoch);
        if !new_history {
            let known = generation.as_ref().ok().copied();
            let (now, seen) = (findings.table_index, self.table_index);
            let table = (self.accepted.is_some() && now < seen)
                .then(|| format!("the store's index is {now}, it was {seen}"));
            if let Some(evidence) = self.went_back(&reading, known).or(table) {
                return self.suspect(evidence, sent, received);
            }
        }
        self.table_index = self.table_index.max(findings.table_index);
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
        if let Some(accepted) = self.accepted.as_ref().filter(|_| !new_history) {
            let vanished = vanished(&accepted.listing, &reading);
            if let Some(path) = vanished
                .first()
                .filter(|_| reading.index <= accepted.listing.index)
            {
                let (keys, path) = (vanished.len(), (*path).to_owned());
                return self.hold(Distrust::Shrunk { keys, path }, received);
            }
        }
        self.accept(reading, generation, sent)
    }

    /// A light read. `false`: it renews nothing, and a full read without an index comes next.
    #[must_use]
    pub fn confirmed(&mut self, outline: &Outline, sent: Moment) -> bool {
        let same = self
            .accepted
            .as_ref()
            .is_some_and(|accepted| accepted.outline == *outline);
        let trusted = self.standing.held.is_none() && self.suspected.is_none();
        if same && trusted {
            self.confirm(sent);
        }
        same && trusted
    }

    /// The source refused our rights.
    pub fn denied(&mut self, text: String, received: Moment) {
        self.hold(Distrust::Denied(text), received);
    }

    /// The source gave no answer that can be used.
    pub fn unreachable(&mut self, text: String) {
        self.standing.waiting = false;
        self.standing.trouble = Some(text);
    }

    /// What shows that the reading is older than what was seen.
    fn went_back(&self, reading: &Listing, generation: Option<Generation>) -> Option<String> {
        let generation = generation?;
        if generation.epoch > self.highest.epoch {
            return None;
        }
        if generation < self.highest {
            return Some(format!("generation {generation}, it was {}", self.highest));
        }
        let accepted = &self.accepted.as_ref()?.listing.entries;
        reading.entries.iter().find_map(|(path, entry)| {
            let seen = accepted.get(path)?.modify_index;
            let now = entry.modify_index;
            let path = path.escape_debug();
            (now < seen).then(|| format!("{path} is of index {now}, it was {seen}"))
        })
    }

    /// One reading that went back may have been late; a second one, sent after the first was
    /// received, has no such excuse.
    fn suspect(&mut self, evidence: String, sent: Moment, received: Moment) -> Judgement {
        match self.suspected {
            Some(first) if sent >= first.received => {
                self.standing.broken = Some(Broken {
                    epoch: self.highest.epoch,
                    evidence,
                });
                Judgement::Refused
            }
            Some(_) => Judgement::Refused,
            None => {
                self.suspected = Some(Suspicion { received });
                Judgement::Refused
            }
        }
    }

    fn hold(&mut self, cause: Distrust, received: Moment) -> Judgement {
        self.standing.trouble = None;
        self.standing.waiting = false;
        self.standing.held = Some(Held {
            cause,
            last_answer: received,
        });
        Judgement::Refused
    }

    fn accept(&mut self, reading: Arc<Listing>, generation: Generation, sent: Moment) -> Judgement {
        let broken = self.standing.broken.as_ref();
        if broken.is_some_and(|broken| generation.epoch <= broken.epoch) {
            return Judgement::Refused;
        }
        self.standing.broken = None;
        let modified = reading
            .entries
            .values()
            .map(|e| e.modify_index)
            .max()
            .unwrap_or(0);
        let new_history = generation.epoch > self.highest.epoch;
        let seen = if new_history { 0 } else { self.table_index };
        self.table_index = seen.max(reading.index).max(modified);
        self.highest = self.highest.max(generation);
        let changed = self
            .accepted
            .as_ref()
            .is_none_or(|a| !a.listing.same_contents(&reading));
        if changed
            || self
                .accepted
                .as_ref()
                .is_some_and(|a| a.listing.index != reading.index)
        {
            let outline = reading.outline();
            self.accepted = Some(Accepted {
                listing: reading,
                outline,
            });
        }
        self.suspected = None;
        self.standing.held = None;
        self.standing.has_listing = true;
        self.confirm(sent);
        Judgement::Accepted { changed }
    }

    fn confirm(&mut self, sent: Moment) {
        self.standing.trouble = None;
        self.standing.waiting = false;
        self.standing.confirmed = self.standing.confirmed.max(Some(sent));
    }
}

mod standing;
#[cfg(test)]
mod tests;
mod vanished;
