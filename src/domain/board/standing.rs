//! What was written last, and stands: the history itself lies outside the watched prefix, and only
//! commands read it.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::{Parts, STANDING_MAX};
use crate::domain::answer::State;
use crate::domain::directive::{Author, Desired, Directive, OnExpiry};
use crate::domain::ramp::By;
use crate::domain::snapshot::{Placed, Snapshot};

/// What stands, the last change first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    /// The last ones.
    pub listed: Vec<Standing>,
    /// How many more there are.
    pub more: usize,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its path below the prefix.
    pub path: String,
    /// What it says, in words; or why it cannot be followed.
    pub says: Result<String, String>,
    /// The store's index of its last change.
    pub index: u64,
    /// Since when, if it says so.
    pub since: Option<Timestamp>,
    /// When it ends, or was to end.
    pub until: Option<Timestamp>,
    /// Who, and why.
    pub author: Author,
}

impl Stands {
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        let snapshot = parts.snapshot.into_iter();
        let mut placed: Vec<_> = snapshot.flat_map(Snapshot::placed).collect();
        placed.sort_by_key(|placed| (Reverse(placed.modify_index), &placed.path));
        let more = placed.len().saturating_sub(STANDING_MAX);
        placed.truncate(STANDING_MAX);
        let standing = |placed: &&Placed| Standing::new(placed, parts.view.at);
        Self {
            listed: placed.iter().map(standing).collect(),
            more,
        }
    }
}

impl Standing {
    fn new(placed: &Placed, now: Timestamp) -> Self {
        let directive = placed.directive.as_ref().ok();
        Self {
            path: placed.path.clone(),
            says: says(placed, now),
            index: placed.modify_index,
            since: directive.and_then(|directive| directive.since),
            until: directive.and_then(|d| d.expiry).map(|expiry| expiry.until),
            author: directive.map_or_else(Author::default, |d| d.author.clone()),
        }
    }
}

/// What a key says, in words: `ready 40%`, `drain, then maint after 1m`.
pub(super) fn says(placed: &Placed, now: Timestamp) -> Result<String, String> {
    let directive = placed.directive.as_ref().map_err(Clone::clone)?;
    Ok(words(directive, now))
}

fn words(directive: &Directive, now: Timestamp) -> String {
    let mut words = match &directive.desired {
        Desired::Ready { weight, ramp: None } => state(State::Ready(*weight)),
        Desired::Ready {
            weight,
            ramp: Some(ramp),
        } => {
            let by = match ramp.by {
                By::Weight => "weight",
                By::Nodes(_) => "nodes",
            };
            let steps: Vec<_> = ramp.steps.iter().map(|s| s.get().to_string()).collect();
            let pace = ramp.every.map_or_else(
                || "held".to_owned(),
                |every| format!("every {}", humantime::format_duration(every)),
            );
            let goal = state(State::Ready(*weight));
            let steps = steps.join(", ");
            format!("{goal} by {by}: {steps}% ({pace})")
        }
        Desired::Drain => state(State::Drain),
        Desired::Maint => state(State::Maint),
    };
    if let Some(plan) = directive.then {
        let after = humantime::format_duration(plan.after);
        words += &format!(", then {} after {after}", state(plan.state));
    }
    if directive.is_lifted(now) {
        words += ", has ended";
    } else if directive.is_overdue(now) {
        words += ", overdue";
    } else if directive
        .expiry
        .is_some_and(|e| e.on_expiry == OnExpiry::Lift)
    {
        words += ", ends by itself";
    }
    words
}

fn state(state: State) -> String {
    match state {
        State::Ready(percent) if percent.get() == 100 => "ready".to_owned(),
        State::Ready(percent) => format!("ready {}%", percent.get()),
        State::Drain => "drain".to_owned(),
        State::Maint => "maint".to_owned(),
    }
}
