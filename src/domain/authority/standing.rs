//! What decides whether to answer at a moment, and the words for it.

use std::fmt;
use std::time::Duration;

use super::Moment;
use crate::domain::sentinel::SentinelError;

/// What decides whether to answer: small, and copied to whoever answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub(super) lease: Duration,
    pub(super) has_listing: bool,
    pub(super) confirmed: Option<Moment>,
    pub(super) held: Option<Held>,
    pub(super) broken: Option<Broken>,
    /// The listing is from before a restart, and the source has not had its chance yet.
    pub(super) waiting: bool,
    /// Why the source gave no answer, when that was the last thing heard of it.
    pub(super) trouble: Option<String>,
}

/// Whether this replica may answer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The authority.
    pub name: AuthorityName,
    /// Why, and what to do, for a person.
    pub reason: String,
}

/// The authorities of one replica alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorityName {
    /// Confirmed by the source within the lease.
    Current,
    /// The source is out of reach, for all who could know better.
    Agreed,
    /// No listing yet.
    Starting,
    /// The source is not to be trusted.
    Held,
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
    /// The authority at `now`. Cheap: every answer asks it.
    #[must_use]
    pub fn name(&self, now: Moment) -> AuthorityName {
        let within = |moment: Moment| now.since(moment) < self.lease;
        if self.broken.is_some() {
            AuthorityName::Held
        } else if self.held.is_none() && self.has_listing && self.confirmed.is_some_and(within) {
            AuthorityName::Current
        } else if self.has_listing && self.held.as_ref().is_some_and(|h| within(h.last_answer)) {
            AuthorityName::Held
        } else if self.has_listing && !self.waiting {
            AuthorityName::Agreed
        } else {
            AuthorityName::Starting
        }
    }

    /// Time since the source last confirmed the listing.
    #[must_use]
    pub fn age(&self, now: Moment) -> Option<Duration> {
        self.confirmed.map(|confirmed| now.since(confirmed))
    }

    /// The authority at `now`, with its reason.
    #[must_use]
    pub fn verdict(&self, now: Moment) -> Verdict {
        let name = self.name(now);
        let age = self.age(now).unwrap_or_default().as_secs_f64();
        let trouble = self.trouble.as_deref();
        let reason = match (name, &self.broken, &self.held) {
            (AuthorityName::Current, ..) => format!("confirmed by the source {age:.1} s ago"),
            (AuthorityName::Agreed, ..) => {
                let why = trouble.map_or_else(String::new, |text| format!(" ({text})"));
                let last = match self.age(now) {
                    Some(_) => format!("last confirmed {age:.1} s ago"),
                    None => "the listing is from before the start".to_owned(),
                };
                format!("the source is out of reach{why}; {last}")
            }
            (AuthorityName::Held, Some(broken), _) => broken.to_string(),
            (AuthorityName::Starting, ..) if self.waiting => {
                "a listing is known from before the start; the source is asked first".to_owned()
            }
            (AuthorityName::Starting, ..) if trouble.is_some() => {
                format!("no listing yet: {}", trouble.unwrap_or_default())
            }
            (AuthorityName::Held | AuthorityName::Starting, _, Some(held)) => {
                held.cause.to_string()
            }
            (AuthorityName::Held | AuthorityName::Starting, ..) => {
                "no listing yet: the source has not answered".to_owned()
            }
        };
        Verdict { name, reason }
    }
}

impl AuthorityName {
    /// All of them, for metrics.
    pub const ALL: [Self; 4] = [Self::Current, Self::Agreed, Self::Starting, Self::Held];

    /// Whether such a replica answers.
    #[must_use]
    pub const fn answers(self) -> bool {
        matches!(self, Self::Current | Self::Agreed)
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Agreed => "agreed",
            Self::Starting => "starting",
            Self::Held => "held",
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epoch, evidence } = self;
        write!(
            f,
            "the store's history went back ({evidence}): restored or wiped. Look at every directive, \
             then write a _meta with an epoch above {epoch}"
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
