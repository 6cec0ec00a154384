//! What a whole group is asked to be, for routers that send a share of their requests to it and ask
//! no agent.

use jiff::Timestamp;
use serde::Serialize;

use super::answer::State;
use super::directive::{Desired, Directive};
use super::name::Name;
use super::ramp::By;
use super::snapshot::{About, Placed, Snapshot};

/// What a group is asked to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupState {
    /// The group.
    pub group: String,
    /// `ready`, `drain` or `maint`.
    pub state: &'static str,
    /// 1 to 100, with ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    /// Where its ramp stands, while one runs or holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<RampState>,
    /// When it may change next by the time alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Timestamp>,
    /// The key that decides; `None` when all that stand for it have ended.
    pub path: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The change's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// Where a ramp stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RampState {
    /// `nodes`: of those so many percent have the group ready, the others have it in `rest`.
    /// `weight`: every node gives it so many percent.
    pub by: &'static str,
    /// 1 to 100.
    pub percent: u8,
    /// What the other nodes have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<&'static str>,
}

/// Why nothing can be said of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupError {
    /// No key stands for it.
    Unknown,
    /// The key that decides cannot be read, or the guard refuses it: what was asked before stays.
    Frozen(String),
}

impl GroupState {
    /// Reads a group from a snapshot at `now`, as every poll has it, or those of one node or zone.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn read(
        snapshot: &Snapshot,
        group: &Name,
        (node, zone): (Option<&Name>, Option<&Name>),
        now: Timestamp,
    ) -> Result<Self, GroupError> {
        let about = About::Group(group.as_str());
        // No key stands for a node without a name.
        let name = node.map_or("", Name::as_str);
        let mut known = false;
        let places = snapshot.places(about, zone.map(Name::as_str), name);
        for placed in places.filter_map(|place| place.placed) {
            known = true;
            match &placed.directive {
                Err(error) => {
                    let text = format!("{} cannot be followed: {error}", placed.path);
                    return Err(GroupError::Frozen(text));
                }
                Ok(directive) if directive.is_lifted(now) => {}
                Ok(directive) => return Ok(Self::by(group, placed, directive, node, now)),
            }
        }
        if known {
            Ok(Self::open(group))
        } else {
            Err(GroupError::Unknown)
        }
    }

    /// Everything that stands for it has ended.
    fn open(group: &Name) -> Self {
        Self {
            group: group.to_string(),
            state: "ready",
            weight: Some(100),
            ramp: None,
            next_change: None,
            path: None,
            since: None,
            by: None,
            reason: None,
            change: None,
        }
    }

    fn by(
        group: &Name,
        placed: &Placed,
        directive: &Directive,
        node: Option<&Name>,
        now: Timestamp,
    ) -> Self {
        let step = directive.ramp_step(now);
        let ramp = step.map(|(ramp, percent)| RampState {
            by: match ramp.by {
                By::Weight => "weight",
                By::Nodes(_) => "nodes",
            },
            percent: percent.get(),
            rest: match &ramp.by {
                By::Weight => None,
                By::Nodes(nodes) => Some(word(nodes.rest.state()).0),
            },
        });
        let of_nodes = ramp.is_some_and(|ramp| ramp.by == "nodes");
        let state = match (&directive.desired, node) {
            // Of which nodes is not said: the share is.
            (Desired::Ready { weight, .. }, None) if of_nodes => State::Ready(*weight),
            (Desired::Ready { .. } | Desired::Drain | Desired::Maint, node) => {
                directive.state(now, node.map_or("", Name::as_str), &placed.path)
            }
        };
        let (state, weight) = word(state);
        let author = directive.author.clone();
        Self {
            state,
            weight,
            ramp,
            next_change: directive.next_change(now),
            path: Some(placed.path.clone()),
            since: directive.since,
            by: author.by,
            reason: author.reason,
            change: author.change,
            ..Self::open(group)
        }
    }
}

const fn word(state: State) -> (&'static str, Option<u8>) {
    match state {
        State::Ready(percent) => ("ready", Some(percent.get())),
        State::Drain => ("drain", None),
        State::Maint => ("maint", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::listing::Listing;

    fn check(entries: &[(&str, &str)], node: Option<&str>, expected: &str) {
        let snapshot = Snapshot::build(&Listing::with_sentinel(7, entries)).unwrap();
        let name = |text| Name::parse(text).unwrap();
        let (node, zone) = (node.map(name), name("b"));
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let place = (node.as_ref(), Some(&zone));
        let found = match GroupState::read(&snapshot, &name("canary"), place, now) {
            Ok(state) => serde_json::to_string(&state).unwrap(),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(found, expected, "{entries:?}");
    }

    const SINCE: &str = r#""since":"2026-11-30T09:57:30Z""#;

    #[test]
    fn a_group_is_what_its_strongest_key_asks_for() {
        let fleet = ("canary-state", "drain");
        let drain = r#"{"group":"canary","state":"drain","path":"canary-state"}"#;
        check(&[], None, "Unknown");
        check(&[fleet], None, drain);
        let zone = ("zones/b/canary-state", "40%");
        let of_zone =
            r#"{"group":"canary","state":"ready","weight":40,"path":"zones/b/canary-state"}"#;
        check(&[fleet, zone], None, of_zone);
        let node = ("nodes/lb-1/canary-state", "maint");
        let of_node = r#"{"group":"canary","state":"maint","path":"nodes/lb-1/canary-state"}"#;
        check(&[fleet, zone, node], Some("lb-1"), of_node);
        check(&[fleet, zone, node], None, of_zone);
        let frozen = r#"Frozen("zones/b/canary-state cannot be followed: \"dran\" is none of ready, drain, maint, or a percentage of 1% to 100%")"#;
        check(&[fleet, ("zones/b/canary-state", "dran")], None, frozen);
        let ended = r#"{"state":"maint","until":"2026-11-30T09:00:00Z","on_expiry":"lift"}"#;
        let open = r#"{"group":"canary","state":"ready","weight":100,"path":null}"#;
        check(&[("canary-state", ended)], None, open);
    }

    #[test]
    fn a_ramp_says_its_step() {
        let ramp = |by: &str| {
            format!(
                r#"{{"state":"ready","ramp":{{"by":"{by}","steps":[5,25,50],"every":"2m"}},{SINCE},"by":"alice","reason":"18.7"}}"#
            )
        };
        let rest = r#""next_change":"2026-11-30T10:01:30Z","path":"canary-state","since":"2026-11-30T09:57:30Z","by":"alice","reason":"18.7"}"#;
        let weight =
            r#"{"group":"canary","state":"ready","weight":25,"ramp":{"by":"weight","percent":25},"#;
        check(
            &[("canary-state", &ramp("weight"))],
            None,
            &format!("{weight}{rest}"),
        );
        let nodes = r#"{"group":"canary","state":"ready","weight":100,"ramp":{"by":"nodes","percent":25,"rest":"drain"},"#;
        check(
            &[("canary-state", &ramp("nodes"))],
            None,
            &format!("{nodes}{rest}"),
        );
        let out = r#"{"group":"canary","state":"drain","ramp":{"by":"nodes","percent":25,"rest":"drain"},"#;
        check(
            &[("canary-state", &ramp("nodes"))],
            Some("lb-1"),
            &format!("{out}{rest}"),
        );
    }

    #[test]
    fn a_plan_that_is_due_ends_the_ramp() {
        let plan = format!(
            r#"{{"state":"ready","ramp":{{"by":"weight","steps":[5],"every":"1h"}},"then":{{"state":"maint","after":"60s"}},{SINCE}}}"#
        );
        let maint = format!(
            r#"{{"group":"canary","state":"maint","next_change":"2026-11-30T10:57:30Z","path":"canary-state",{SINCE}}}"#
        );
        check(&[("canary-state", &plan)], None, &maint);
    }
}
