//! How far a ramp is.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::answer::State;
use crate::domain::directive::{Desired, Directive};
use crate::domain::group::GroupState;
use crate::domain::key::CANARY;
use crate::domain::name::Name;
use crate::domain::ramp::{By, after};
use crate::domain::snapshot::{Placed, Snapshot};
use crate::domain::view::View;

/// A ramp that runs or holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// `nodes` or `weight`.
    pub by: &'static str,
    /// The percentages of its steps.
    pub steps: Vec<u8>,
    /// What comes behind the last one: all nodes, or the directive's weight.
    pub goal: u8,
    /// Which step it is at, from 0.
    pub at: usize,
    /// The time from step to step; `None`: it holds.
    pub every: Option<Duration>,
    /// When the next step begins.
    pub next: Option<Timestamp>,
    /// When the last one ends and all is ready.
    pub end: Option<Timestamp>,
    /// Known nodes that have the canary ready.
    pub inside: Vec<Name>,
    /// Known nodes that have it in what it was before.
    pub outside: Vec<Name>,
}

impl Course {
    /// Where the ramp of a directive stands; `None` without one, and behind its last step.
    pub(super) fn of(
        placed: &Placed,
        directive: &Directive,
        (snapshot, view): (&Snapshot, &View),
    ) -> Option<Self> {
        let (ramp, _) = directive.ramp_step(view.at)?;
        let since = directive.since.unwrap_or(view.at);
        let position = ramp.position(since, view.at);
        let at = position.step?;
        let left = u32::try_from(ramp.steps.len() - at - 1).ok()?;
        let rest = ramp.every.and_then(|every| every.checked_mul(left));
        let end = position.next.zip(rest);
        let (by, goal, (inside, outside)) = match &ramp.by {
            By::Weight => ("weight", weight_of(directive), (Vec::new(), Vec::new())),
            By::Nodes(nodes) => {
                let known = known_nodes(view);
                let split = if known.is_empty() {
                    // Nobody polls: the list says who would be in.
                    let names = nodes.order.names().into_iter().cloned();
                    names.partition(|node| is_ready(directive, node, placed, view.at))
                } else {
                    split(snapshot, view.at, known)
                };
                ("nodes", 100, split)
            }
        };
        Some(Self {
            by,
            steps: ramp.steps.iter().map(|step| step.get()).collect(),
            goal,
            at,
            every: ramp.every,
            next: position.next,
            end: end.and_then(|(next, rest)| after(next, rest)),
            inside,
            outside,
        })
    }

    /// How much of the step is over at `now`, in thousandths; `None` when it holds.
    #[must_use]
    pub fn permille(&self, now: Timestamp) -> Option<u16> {
        let (every, next) = (self.every?, self.next?);
        let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        let gone = every.saturating_sub(left).as_millis() * 1_000;
        let gone = gone.checked_div(every.as_millis())?;
        u16::try_from(gone.min(1_000)).ok()
    }

    /// The percentage of its step.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.steps.get(self.at).copied().unwrap_or(self.goal)
    }
}

/// The nodes that have a canary server, with the zone that they stand in.
fn known_nodes(view: &View) -> BTreeMap<&Name, Option<&Name>> {
    let rows = view.rows.iter().filter(|row| row.canary);
    rows.map(|row| (&row.node, row.zone.as_ref())).collect()
}

/// Who has the canary ready: as each node has it, whatever its zone or itself is told.
fn split(
    snapshot: &Snapshot,
    now: Timestamp,
    nodes: BTreeMap<&Name, Option<&Name>>,
) -> (Vec<Name>, Vec<Name>) {
    let canary = Name::parse(CANARY).expect("the group's name is a name");
    let ready = |(node, zone): &(&Name, Option<&Name>)| {
        let state = GroupState::read(snapshot, &canary, (Some(*node), *zone), now);
        state.is_ok_and(|state| state.state == "ready")
    };
    let (inside, outside): (Vec<_>, Vec<_>) = nodes.into_iter().partition(ready);
    let names = |nodes: Vec<(&Name, Option<&Name>)>| {
        let names = nodes.into_iter().map(|(node, _)| node.clone());
        names.collect()
    };
    (names(inside), names(outside))
}

fn is_ready(directive: &Directive, node: &Name, placed: &Placed, now: Timestamp) -> bool {
    let state = directive.state(now, node.as_str(), &placed.path);
    matches!(state, State::Ready(_))
}

fn weight_of(directive: &Directive) -> u8 {
    match &directive.desired {
        Desired::Ready { weight, .. } => weight.get(),
        Desired::Drain | Desired::Maint => 0,
    }
}
