//! Rails: what a write may not do to the traffic.
//!
//! A write is compared as two snapshots, before and after, over time: now, and at every later
//! moment at which an answer changes by itself (ramps, plans, ends that lift). A rail refuses what
//! the write makes worse, never what was so before: with a backend below its floor already, another
//! drain is refused and an undrain is not.
//!
//! Each node's view of a backend is judged twice: with the servers that are seen down taken as
//! down, and with none of them down. A server that is down for a minute is no reason to let its
//! drain pass.
//!
//! Rows are taken to state their weight (`base=`), so that no percentage rounds them to weight 0.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::answer::Answer;
use super::deploy::Deploy;
use super::name::{Name, ServerId};
use super::snapshot::Snapshot;
use super::topology::Topology;

mod capacity;
mod course;
mod evaluation;
mod policy;
mod station;
mod survey;

pub use self::evaluation::evaluate;

/// The most changes of one row that lie ahead of one write: a ramp has 100 steps at most, and
/// several directives may take turns.
pub const CHANGES_AHEAD_MAX: usize = 512;

/// A rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rail {
    /// Settings that cannot be read whole.
    Settings,
    /// Too few servers that can serve.
    Floor,
    /// Only the canary takes traffic.
    CanaryAlone,
    /// All servers of two zones out.
    SecondZone,
    /// Many rows at once.
    ManyRows,
    /// Maintenance without a drain before.
    MaintFromReady,
    /// A deploy is running.
    DeployLock,
    /// No end, or one too far away.
    Ttl,
    /// No reason.
    Reason,
    /// More changes lie ahead than are looked at.
    TooFarAhead,
}

/// What overrides a refusal, where anything may.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Override {
    /// A flag, together with a reason.
    Flag(Flag),
    /// This sentence, typed; without a terminal `--yes` with a reason where `settings.rails.unattended`
    /// allows it.
    Sentence(String),
}

/// Flags that override rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// `--below-floor`.
    BelowFloor,
    /// `--canary-alone`.
    CanaryAlone,
    /// `--second-zone`.
    SecondZone,
    /// `--now`.
    Now,
    /// `--force`, which passes the guard of the settings too.
    Force,
    /// `--ignore-deployment-check`, known from the command of old; it needs no reason.
    IgnoreDeploymentCheck,
}

/// What was said with the write.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The moment.
    pub now: Timestamp,
    /// The values of `deploys/<stage>`, as [`Deploy::parse`] read them.
    pub deploys: &'a BTreeMap<Name, Result<Deploy, String>>,
    /// The flags that were given.
    pub flags: BTreeSet<Flag>,
    /// Why it is written.
    pub reason: Option<&'a str>,
    /// How a question can be answered.
    pub consent: Consent<'a>,
}

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent<'a> {
    /// By a person: what was typed, `None` as long as nothing was.
    Terminal(Option<&'a str>),
    /// Nobody is there; whether `--yes` was given.
    Unattended {
        /// `--yes`.
        yes: bool,
    },
}

/// What the rails say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Why nothing may be written; empty: it may.
    pub refusals: Vec<Refusal>,
    /// What would have been refused without a flag or a sentence.
    pub overridden: Vec<Refusal>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// The rows that change.
    pub rows: Vec<PlanRow>,
    /// The servers that can serve, for each backend with a row that changes, as each zone's nodes
    /// see it.
    pub capacities: Vec<Capacity>,
}

/// Why something may not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rail.
    pub rail: Rail,
    /// The rows that it is about.
    pub rows: Vec<ServerId>,
    /// What is wrong, for the person who writes; may have several lines.
    pub text: String,
    /// What overrides it.
    pub overridden_by: Option<Override>,
}

/// A row that changes, on nodes where it changes alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    /// The server.
    pub server: ServerId,
    /// The LB nodes.
    pub nodes: Vec<Name>,
    /// Which they are: `all 60 nodes`, `zone us-east1-b (20 nodes)`, `nodes lb-1, lb-2`.
    pub scope: String,
    /// Whether it is written by their stats sockets: it does not follow the KV there.
    pub by_socket: bool,
    /// What they are told now.
    pub now: Answer,
    /// What they will be told.
    pub next: Answer,
    /// What they will be told in the end, and from when, where that is something else.
    pub then: Option<(Timestamp, Answer)>,
}

/// The servers of a backend that can serve, as the nodes of a zone see it. Where the nodes of a
/// zone differ, that of the worst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// The backend.
    pub backend: Name,
    /// The zone of the LB nodes.
    pub zone: Option<Name>,
    /// How many can serve now.
    pub now: usize,
    /// How many at least, from the write on.
    pub next: usize,
    /// The moment from which it is that few.
    pub at: Timestamp,
    /// How many servers there are.
    pub of: usize,
    /// How many it must be.
    pub floor: usize,
}

/// The two snapshots that are compared, and what the fleet looks like.
#[derive(Debug, Clone, Copy)]
struct Comparison<'a> {
    before: &'a Snapshot,
    after: &'a Snapshot,
    topology: &'a Topology,
    now: Timestamp,
}

impl Rail {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Floor => "floor",
            Self::CanaryAlone => "canary-alone",
            Self::SecondZone => "second-zone",
            Self::ManyRows => "many-rows",
            Self::MaintFromReady => "maint-from-ready",
            Self::DeployLock => "deploy-lock",
            Self::Ttl => "ttl",
            Self::Reason => "reason",
            Self::TooFarAhead => "too-far-ahead",
        }
    }
}

impl Flag {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BelowFloor => "--below-floor",
            Self::CanaryAlone => "--canary-alone",
            Self::SecondZone => "--second-zone",
            Self::Now => "--now",
            Self::Force => "--force",
            Self::IgnoreDeploymentCheck => "--ignore-deployment-check",
        }
    }

    /// Whether a reason must be given with it.
    #[must_use]
    pub const fn needs_reason(self) -> bool {
        match self {
            Self::BelowFloor | Self::CanaryAlone | Self::SecondZone | Self::Force => true,
            Self::Now | Self::IgnoreDeploymentCheck => false,
        }
    }
}

impl Context<'_> {
    /// The reason, where there is one.
    fn reason(&self) -> Option<&str> {
        self.reason
            .map(str::trim)
            .filter(|reason| !reason.is_empty())
    }

    /// Whether a refusal is overridden. `unattended`: what the settings allow.
    fn overrides(&self, refusal: &Refusal, unattended: bool) -> bool {
        let told = self.reason().is_some();
        match &refusal.overridden_by {
            None => false,
            Some(Override::Flag(flag)) => {
                self.flags.contains(flag) && (told || !flag.needs_reason())
            }
            Some(Override::Sentence(sentence)) => match self.consent {
                Consent::Terminal(typed) => typed.is_some_and(|typed| typed.trim() == sentence),
                Consent::Unattended { yes } => yes && told && unattended,
            },
        }
    }
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
