//! The canary: what it is asked to be, by whom, and where it is something else.

use jiff::Timestamp;

use super::Parts;
use super::ramp::Course;
use crate::domain::answer::State;
use crate::domain::deploy::Deploy;
use crate::domain::directive::Directive;
use crate::domain::group::{GroupError, GroupState};
use crate::domain::key::{CANARY, Scope, Target};
use crate::domain::name::Name;
use crate::domain::snapshot::{Placed, Snapshot};

/// The canary at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    /// What the whole fleet is told; `None` while nothing is believed.
    pub state: Option<Result<GroupState, GroupError>>,
    /// Its ramp, while one runs or holds.
    pub ramp: Option<Course>,
    /// What it becomes by itself, and when.
    pub then: Option<(State, Timestamp)>,
    /// When what stands ends, or was to end.
    pub until: Option<Timestamp>,
    /// Zones and nodes that are told something of their own.
    pub exceptions: Vec<Exception>,
    /// How many more there are.
    pub exceptions_more: usize,
    /// Deploys that are running, by stage; or locks that cannot be read.
    pub deploys: Vec<(String, Result<Deploy, String>)>,
}

/// A zone or node with a canary key of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// Where.
    pub scope: Scope,
    /// What it is told, in the words of [`super::Standing`].
    pub says: Result<String, String>,
}

impl Canary {
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        let now = parts.view.at;
        let running = parts.deploys.iter().filter(|(_, deploy)| match deploy {
            Ok(deploy) => deploy.locks(now),
            Err(_) => true,
        });
        let mut canary = Self {
            state: None,
            ramp: None,
            then: None,
            until: None,
            exceptions: Vec::new(),
            exceptions_more: 0,
            deploys: running.cloned().collect(),
        };
        if let Some(snapshot) = parts.snapshot {
            canary.read(snapshot, parts);
        }
        canary
    }

    fn read(&mut self, snapshot: &Snapshot, parts: &Parts<'_>) {
        let now = parts.view.at;
        let group = Name::parse(CANARY).expect("the group's name is a name");
        let of_group = Target::Group(group.clone());
        let mut all: Vec<_> = snapshot.placed().collect();
        all.retain(|placed| placed.key.target == of_group);
        let fleet = all.iter().find(|placed| placed.key.scope == Scope::Fleet);
        if let Some((placed, directive)) = fleet.and_then(|placed| in_force(placed, now)) {
            self.ramp = Course::of(placed, directive, (snapshot, parts.view));
            self.then = directive.becomes().filter(|(_, due)| *due > now);
            self.until = directive.expiry.map(|expiry| expiry.until);
        }
        self.state = Some(GroupState::read(snapshot, &group, (None, None), now));
        let mut exceptions: Vec<_> = all
            .iter()
            .filter(|placed| placed.key.scope != Scope::Fleet)
            .map(|placed| Exception {
                scope: placed.key.scope.clone(),
                says: super::standing::says(placed, now),
            })
            .collect();
        self.exceptions_more = exceptions.len().saturating_sub(super::NAMES_MAX);
        exceptions.truncate(super::NAMES_MAX);
        self.exceptions = exceptions;
    }
}

/// What can be done now, and the words of `tidegate canary` for it.
type Actions = &'static [(&'static str, &'static str)];

impl Canary {
    /// What it is asked to be, in a word or two.
    #[must_use]
    pub fn word(&self) -> String {
        match &self.state {
            None => "unknown".to_owned(),
            Some(Err(GroupError::Unknown)) => "no key".to_owned(),
            Some(Err(GroupError::Frozen(_))) => "frozen".to_owned(),
            Some(Ok(state)) => match &self.ramp {
                Some(ramp) if ramp.every.is_none() => format!("held at {}%", ramp.percent()),
                Some(ramp) => format!("ramp {}%", ramp.percent()),
                None => match state.weight.filter(|weight| *weight < 100) {
                    Some(weight) => format!("{} {weight}%", state.state),
                    None => state.state.to_owned(),
                },
            },
        }
    }

    /// What makes sense now.
    #[must_use]
    pub fn actions(&self) -> Actions {
        let held = self.ramp.as_ref().map(|ramp| ramp.every.is_none());
        let ready = match &self.state {
            Some(Ok(state)) => state.state == "ready",
            Some(Err(_)) | None => false,
        };
        match (held, ready) {
            (Some(false), _) => &[("Stop at this step", "--hold"), DRAIN, ALL],
            (Some(true), _) => &[("Go on", "--resume"), DRAIN, ALL],
            (None, true) => &[
                DRAIN,
                ("Out, and into maintenance", "--disable --reason WHY"),
            ],
            (None, false) => &[("Bring it back slowly", "--slowly --reason WHY"), ALL],
        }
    }
}

const DRAIN: (&str, &str) = ("Take it out", "--drain --reason WHY");
const ALL: (&str, &str) = ("Everywhere at once", "--ready --reason WHY");

fn in_force<'a>(placed: &'a &Placed, now: Timestamp) -> Option<(&'a Placed, &'a Directive)> {
    let directive = placed.directive.as_ref().ok()?;
    (!directive.is_lifted(now)).then_some((placed, directive))
}
