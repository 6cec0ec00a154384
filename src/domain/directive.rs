//! Directives: what is asked for one target. The grammar of a KV value.
//!
//! A directive is a bare word (`ready`, `drain`, `maint`, `40%`), so that `consul kv put` works in
//! an emergency, or a JSON object. A field that this version does not know is an error: a reader
//! that ignored a `ramp` would open a server at full weight at once.

use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;

use super::answer::{Percent, State};
use super::ramp::{self, By, Ramp};

mod wire;

/// What is asked for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// What it shall be.
    pub desired: Desired,
    /// What it shall become later.
    pub then: Option<Plan>,
    /// From when ramps and plans count.
    pub since: Option<Timestamp>,
    /// When it ends, or is overdue.
    pub expiry: Option<Expiry>,
    /// Who, and why.
    pub author: Author,
    /// Knowingly against the guard of the settings.
    pub force: bool,
}

/// What a target shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// Takes traffic.
    Ready {
        /// At this weight; with a ramp, in the end.
        weight: Percent,
        /// Step by step.
        ramp: Option<Ramp>,
    },
    /// Finishes what it has.
    Drain,
    /// Out of service.
    Maint,
}

/// A change of state that happens by itself: every replica computes it, no client stays alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What it becomes; `ready` is at full weight.
    pub state: State,
    /// How long after `since`: a second to a year.
    pub after: Duration,
}

/// The end of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The moment.
    pub until: Timestamp,
    /// What happens then.
    pub on_expiry: OnExpiry,
}

/// What happens to a directive at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnExpiry {
    /// It keeps standing, and is shown as a problem.
    #[default]
    Alert,
    /// It no longer counts.
    Lift,
}

/// Who wrote a directive, and why. Nothing here changes an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Author {
    /// Who.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The change's id, a ULID.
    pub change: Option<String>,
    /// W3C traceparent of the command that wrote it.
    pub trace: Option<String>,
}

/// Why a KV value is no directive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DirectiveError {
    /// Nothing there.
    #[error(
        "the value is empty; write ready, drain, maint, a percentage such as 40%, or a JSON object"
    )]
    Empty,
    /// Bytes that are no text.
    #[error("the value is not UTF-8 text")]
    NotText,
    /// A word that is none of the four.
    #[error("{0:?} is none of ready, drain, maint, or a percentage of 1% to 100%")]
    Word(String),
    /// A JSON value of another shape, an unknown or repeated field, a wrong type.
    #[error("not a directive: {0}")]
    Json(String),
    /// `v` other than 1.
    #[error("v is {0}, this version reads 1: update this program before the writers")]
    Version(u64),
    /// A weight outside 1 to 100.
    #[error("weight is {0}, allowed are 1 to 100 (to stop traffic write state drain)")]
    Weight(u64),
    /// A field that belongs to another state or field.
    #[error("{field} needs {needs}")]
    Needs {
        /// The field that stands alone.
        field: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A duration or moment that cannot be read or is out of range.
    #[error("{field} is {value:?}: {error}")]
    Time {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        error: String,
    },
    /// Steps that are no ramp.
    #[error("ramp.steps: {0}")]
    Steps(String),
    /// Nodes that are no order.
    #[error("ramp.nodes: {0}")]
    Nodes(String),
}

/// The longest piece of a bad value that an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 60;

impl Directive {
    /// A directive that asks for a state and says nothing else.
    #[must_use]
    pub fn bare(desired: Desired) -> Self {
        Self {
            desired,
            then: None,
            since: None,
            expiry: None,
            author: Author::default(),
            force: false,
        }
    }

    /// Reads a KV value.
    ///
    /// # Errors
    /// See [`DirectiveError`]; its text is for the person who wrote the value.
    pub fn parse(value: &[u8]) -> Result<Self, DirectiveError> {
        let text = std::str::from_utf8(value)
            .map_err(|_| DirectiveError::NotText)?
            .trim();
        match text.as_bytes().first() {
            None => Err(DirectiveError::Empty),
            Some(b'{') => wire::read(text),
            Some(b'"') => serde_json::from_str::<String>(text)
                .map_err(|error| DirectiveError::Json(error.to_string()))
                .and_then(|word| bare_word(word.trim())),
            Some(_) => bare_word(text),
        }
    }

    /// The JSON object that [`Directive::parse`] reads back, for writing.
    #[must_use]
    pub fn to_json(&self) -> String {
        wire::write(self)
    }

    /// Whether both ask for the same, whoever wrote them and whenever: writing the one over the
    /// other would only restart its ramp or plan.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let asked = |d: &Self| (d.desired.clone(), d.then, d.expiry, d.force);
        asked(self) == asked(other)
    }

    /// The same, counted from when the standing one counts, if that asks for the same but for its
    /// end: another end restarts no ramp and no plan.
    #[must_use]
    pub fn going_on(self, standing: &Self, now: Timestamp) -> Self {
        let asked = |d: &Self| (d.desired.clone(), d.then);
        if asked(&self) != asked(standing) || standing.is_lifted(now) {
            return self;
        }
        Self {
            since: standing.since.or(self.since),
            ..self
        }
    }

    /// Whether it no longer counts: past its end, and to be lifted there. Once true it stays so.
    #[must_use]
    pub fn is_lifted(&self, now: Timestamp) -> bool {
        self.expiry
            .is_some_and(|e| e.on_expiry == OnExpiry::Lift && e.until <= now)
    }

    /// Whether it stands beyond its end: a problem to be shown.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.expiry
            .is_some_and(|e| e.on_expiry == OnExpiry::Alert && e.until <= now)
    }

    /// What a node answers at `now`; `path` is the key's, below the prefix.
    #[must_use]
    pub fn state(&self, now: Timestamp, node: &str, path: &str) -> State {
        if let Some(plan) = self
            .then
            .filter(|plan| self.plan_due(plan).is_some_and(|d| d <= now))
        {
            return plan.state;
        }
        match &self.desired {
            Desired::Ready { weight, ramp: None } => State::Ready(*weight),
            Desired::Ready {
                weight,
                ramp: Some(ramp),
            } => {
                let position = ramp.position(self.counts_from(now), now);
                ramp.state(*weight, &position, node, path)
            }
            Desired::Drain => State::Drain,
            Desired::Maint => State::Maint,
        }
    }

    /// Where its ramp stands at `now`: the ramp, and the percentage of its step. `None` without a
    /// ramp, behind its last step, and when its plan is due.
    #[must_use]
    pub fn ramp_step(&self, now: Timestamp) -> Option<(&Ramp, Percent)> {
        let due = self.then.and_then(|plan| self.plan_due(&plan));
        if due.is_some_and(|due| due <= now) {
            return None;
        }
        match &self.desired {
            Desired::Ready {
                ramp: Some(ramp), ..
            } => {
                let step = ramp.position(self.counts_from(now), now).step?;
                Some((ramp, *ramp.steps.get(step)?))
            }
            Desired::Ready { ramp: None, .. } | Desired::Drain | Desired::Maint => None,
        }
    }

    /// What its plan makes of it, and when.
    #[must_use]
    pub fn becomes(&self) -> Option<(State, Timestamp)> {
        let plan = self.then?;
        Some((plan.state, self.plan_due(&plan)?))
    }

    /// The next moment after `now` at which an answer from this directive may change because of
    /// the time alone.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let lift = self
            .expiry
            .filter(|e| e.on_expiry == OnExpiry::Lift)
            .map(|e| e.until);
        let plan = self.then.and_then(|plan| self.plan_due(&plan));
        let step = match &self.desired {
            Desired::Ready {
                ramp: Some(ramp), ..
            } => ramp.position(self.counts_from(now), now).next,
            Desired::Ready { ramp: None, .. } | Desired::Drain | Desired::Maint => None,
        };
        [lift, plan, step]
            .into_iter()
            .flatten()
            .filter(|moment| *moment > now)
            .min()
    }

    /// Whether it takes traffic away from somebody, now or later: what the guard looks at.
    #[must_use]
    pub fn takes_away(&self) -> bool {
        let later = self
            .then
            .is_some_and(|plan| !matches!(plan.state, State::Ready(_)));
        // In a ramp by nodes those that are not in yet are drained.
        later || self.is_by_nodes() || matches!(self.desired, Desired::Drain | Desired::Maint)
    }

    /// Whether what it says depends on the node that asks.
    #[must_use]
    pub const fn is_by_nodes(&self) -> bool {
        match &self.desired {
            Desired::Ready {
                ramp: Some(ramp), ..
            } => matches!(ramp.by, By::Nodes(_)),
            Desired::Ready { ramp: None, .. } | Desired::Drain | Desired::Maint => false,
        }
    }

    /// `since` is there whenever something counts from it: the reader demands it.
    fn counts_from(&self, now: Timestamp) -> Timestamp {
        self.since.unwrap_or(now)
    }

    fn plan_due(&self, plan: &Plan) -> Option<Timestamp> {
        ramp::after(self.since?, plan.after)
    }
}

fn bare_word(text: &str) -> Result<Directive, DirectiveError> {
    let ready = |weight| Desired::Ready { weight, ramp: None };
    let desired = match text.to_ascii_lowercase().as_str() {
        "" => return Err(DirectiveError::Empty),
        "ready" => ready(Percent::FULL),
        "drain" => Desired::Drain,
        "maint" => Desired::Maint,
        other => percentage(other)
            .map(ready)
            .ok_or_else(|| DirectiveError::Word(shown(text)))?,
    };
    Ok(Directive::bare(desired))
}

fn percentage(text: &str) -> Option<Percent> {
    let digits = text.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    Percent::new(digits.parse().ok().filter(|_| plain)?)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
