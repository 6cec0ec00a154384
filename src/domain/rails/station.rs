//! Stations: the nodes that see one backend alike, so that one of them stands for all.

use std::collections::{BTreeMap, BTreeSet};

use super::Comparison;
use super::course::{Course, Level};
use crate::domain::answer::Answer;
use crate::domain::directive::Desired;
use crate::domain::key::{CANARY, Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::ramp::{By, Nodes, Order, Ramp};
use crate::domain::request::Request;
use crate::domain::settings::Row;
use crate::domain::snapshot::Placed;
use crate::domain::topology::{Kind, Placement};

/// One backend as some nodes see it.
#[derive(Debug)]
pub(super) struct Station<'a> {
    pub(super) backend: &'a str,
    pub(super) zone: Option<&'a Name>,
    pub(super) nodes: Vec<&'a Name>,
    pub(super) members: Vec<Member<'a>>,
}

/// A server of the backend, as these nodes see it.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) server: &'a ServerId,
    pub(super) row: &'a Row,
    pub(super) placement: Placement,
    pub(super) down: bool,
    pub(super) canary: bool,
    /// Whether it does not follow the KV here.
    pub(super) held: bool,
    pub(super) before: Course,
    pub(super) after: Course,
}

/// The ramps over nodes that a backend's rows may follow: which step a node comes in with parts the
/// nodes of one kind.
struct RampsByNodes<'a>(Vec<(&'a Nodes, &'a Ramp, &'a str)>);

/// The stations of a backend with these rows.
pub(super) fn stations<'a>(
    comparison: &Comparison<'a>,
    kinds: &[Kind<'a>],
    special: &BTreeSet<&Name>,
    backend: &'a str,
    rows: &[(&'a ServerId, &'a Row)],
) -> Vec<Station<'a>> {
    let ramps = RampsByNodes::of(comparison, rows);
    let mut stations = Vec::new();
    for kind in kinds {
        let node = kind.node;
        let placed: Vec<_> = rows
            .iter()
            .filter_map(|(id, row)| Some((*id, *row, comparison.topology.placement(node, id)?)))
            .collect();
        if placed.is_empty() {
            continue;
        }
        let mut alike: BTreeMap<(Option<&Name>, Vec<usize>), Vec<&Name>> = BTreeMap::new();
        for &name in &kind.nodes {
            let own = special.contains(name).then_some(name);
            alike
                .entry((own, ramps.entries(name)))
                .or_default()
                .push(name);
        }
        for nodes in alike.into_values() {
            let member = |&(server, row, placement)| {
                member(comparison, nodes[0], kind, (server, row, placement))
            };
            let members = placed.iter().map(member).collect();
            stations.push(Station {
                backend,
                zone: kind.zone,
                members,
                nodes,
            });
        }
    }
    stations
}

fn member<'a>(
    comparison: &Comparison<'a>,
    node: &Name,
    kind: &Kind<'a>,
    (server, row, placement): (&'a ServerId, &'a Row, Placement),
) -> Member<'a> {
    let held = kind.node.held.get(server);
    // Without a stated weight a percentage is told as it is written; weight 0 never serves.
    let base = (placement.weight > 0).then_some(placement.weight);
    let groups = row.groups.iter().map(Name::as_str);
    let request = Request::of(server, groups, kind.zone.map(Name::as_str), base);
    let course = |snapshot, held: Option<Answer>| {
        if let Some(answer) = held {
            Course::constant(comparison.now, answer)
        } else if row.agent {
            Course::new(snapshot, &request, node.as_str(), comparison.now)
        } else {
            Course::untouched(comparison.now)
        }
    };
    Member {
        server,
        row,
        placement,
        down: kind.node.down.contains(server),
        canary: row.is_of(CANARY),
        held: held.is_some(),
        before: course(comparison.before, held.map(|held| held.now)),
        after: course(comparison.after, held.map(|held| held.next)),
    }
}

impl Member<'_> {
    /// Whether it surely serves, told this; `seen`: whether what is seen down is taken as down.
    pub(super) fn serves(&self, answer: Answer, seen: bool) -> bool {
        self.may_serve(answer, seen) && matches!(answer, Answer::State(_))
    }

    /// Whether it serves or may: HAProxy keeps its state at an answer that it does not understand.
    pub(super) fn may_serve(&self, answer: Answer, seen: bool) -> bool {
        let open = matches!(Level::of(answer), Level::Traffic(_));
        open && self.placement.weight > 0 && !(seen && self.down)
    }

    /// Whether it is told anything else by the write, now or later.
    pub(super) fn changes(&self) -> bool {
        self.before != self.after
    }
}

impl<'a> RampsByNodes<'a> {
    fn of(comparison: &Comparison<'a>, rows: &[(&'a ServerId, &'a Row)]) -> Self {
        let servers: BTreeSet<&ServerId> = rows.iter().map(|(id, _)| *id).collect();
        let groups: BTreeSet<&Name> = rows.iter().flat_map(|(_, row)| &row.groups).collect();
        let mut ramps = Self(Vec::new());
        let placed = comparison.before.placed().chain(comparison.after.placed());
        for placed in placed {
            let covers = match &placed.key.target {
                Target::Server(id) => servers.contains(id),
                Target::Group(group) => groups.contains(group),
            };
            if let Some(found) = ramp_by_nodes(placed).filter(|_| covers) {
                // What many rows share counts once; the path only makes the order where no seed does.
                let same = |known: &(&Nodes, &Ramp, &str)| {
                    let by_path = found.0.seed.is_none() && found.0.order == Order::default();
                    *known.0 == *found.0
                        && known.1.steps == found.1.steps
                        && (!by_path || known.2 == found.2)
                };
                if !ramps.0.iter().any(same) {
                    ramps.0.push(found);
                }
            }
        }
        ramps
    }

    /// For each ramp the step with which a node comes in.
    fn entries(&self, node: &Name) -> Vec<usize> {
        let entry = |(nodes, ramp, path): &(&Nodes, &Ramp, &str)| {
            let comes_in = |step: &_| nodes.is_in(*step, node.as_str(), path);
            let step = ramp.steps.iter().position(comes_in);
            step.unwrap_or(ramp.steps.len())
        };
        self.0.iter().map(entry).collect()
    }
}

fn ramp_by_nodes(placed: &Placed) -> Option<(&Nodes, &Ramp, &str)> {
    let directive = placed.directive.as_ref().ok()?;
    match &directive.desired {
        Desired::Ready {
            ramp: Some(ramp), ..
        } => match &ramp.by {
            By::Nodes(nodes) => Some((nodes, ramp, &placed.path)),
            By::Weight => None,
        },
        Desired::Ready { ramp: None, .. } | Desired::Drain | Desired::Maint => None,
    }
}

/// The nodes that have keys of their own.
pub(super) fn special_nodes<'a>(comparison: &Comparison<'a>) -> BTreeSet<&'a Name> {
    let placed = comparison.before.placed().chain(comparison.after.placed());
    let own = placed.filter_map(|placed| match &placed.key.scope {
        Scope::Node(node) => Some(node),
        Scope::Zone(_) | Scope::Fleet => None,
    });
    own.collect()
}
