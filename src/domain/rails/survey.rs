//! What a write changes, row by row and node by node.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::capacity::Finding;
use super::course::{Course, Level, maint_from_ready, moments, reduced};
use super::station::{Member, Station};
use super::{PlanRow, Rail};
use crate::domain::answer::{Answer, State};
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::Row;
use crate::domain::topology::{Kind, Topology};

/// What was seen at all stations.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    pub(super) findings: BTreeMap<Rail, Vec<Finding<'a>>>,
    changes: BTreeMap<&'a ServerId, Vec<Change<'a>>>,
    /// Rows of which more lies ahead than is looked at.
    pub(super) cut: BTreeSet<&'a ServerId>,
    /// Rows whose weight ramp changes nothing, and the nodes' zones.
    alone: BTreeSet<(&'a ServerId, Option<&'a Name>)>,
    /// Rows that HAProxy is told nothing about any more.
    frozen: BTreeMap<&'a ServerId, Answer>,
}

/// A row that changes alike on some nodes.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) server: &'a ServerId,
    pub(super) row: &'a Row,
    pub(super) canary: bool,
    pub(super) nodes: Vec<&'a Name>,
    /// Whether it is written by its stats socket.
    pub(super) by_socket: bool,
    pub(super) now: Answer,
    pub(super) next: Answer,
    pub(super) then: Option<(Timestamp, Answer)>,
    /// When it gets less traffic than without the write.
    pub(super) reduced: Option<Timestamp>,
    /// When it goes from traffic to maintenance at once.
    pub(super) maint_from_ready: Option<Timestamp>,
}

/// The most nodes that a plan names.
const NODES_NAMED_MAX: usize = 4;

impl<'a> Survey<'a> {
    /// The same text of two stations, of two roles in one zone, is told once.
    pub(super) fn find(&mut self, findings: Vec<Finding<'a>>) {
        for finding in findings {
            let known = self.findings.entry(finding.rail).or_default();
            match known.iter_mut().find(|known| known.text == finding.text) {
                Some(same) => same.rows.extend(finding.rows),
                None => known.push(finding),
            }
        }
    }

    pub(super) fn visit(&mut self, station: &Station<'a>, now: Timestamp) {
        for member in &station.members {
            if member.before.cut || member.after.cut {
                self.cut.insert(member.server);
            }
            if !member.changes() {
                continue;
            }
            self.note(station, member);
            if is_alone_in_its_ramp(station, member, now) {
                self.alone.insert((member.server, station.zone));
            }
        }
    }

    fn note(&mut self, station: &Station<'a>, member: &Member<'a>) {
        let (_, now) = *member.before.first();
        let (_, next) = *member.after.first();
        let last = *member.after.last();
        if !matches!(next, Answer::State(_)) {
            self.frozen.insert(member.server, next);
        }
        let change = Change {
            server: member.server,
            row: member.row,
            canary: member.canary,
            nodes: station.nodes.clone(),
            by_socket: member.held,
            now,
            next,
            then: Some(last).filter(|_| member.after.steps.len() > 1),
            reduced: reduced(&member.before, &member.after),
            maint_from_ready: maint_from_ready(&member.before, &member.after),
        };
        let alike = |known: &&mut Change<'a>| {
            (known.now, known.next, known.then) == (change.now, change.next, change.then)
                && known.reduced == change.reduced
                && known.maint_from_ready == change.maint_from_ready
                && known.by_socket == change.by_socket
        };
        let of_server = self.changes.entry(member.server).or_default();
        match of_server.iter_mut().find(alike) {
            Some(known) => known.nodes.extend(&change.nodes),
            None => of_server.push(change),
        }
    }

    /// The rows of the plan, by server.
    pub(super) fn plan(&self, topology: &Topology) -> Vec<PlanRow> {
        let kinds = topology.kinds();
        let row = |change: &Change<'_>| PlanRow {
            server: change.server.clone(),
            nodes: change.nodes.iter().map(|node| (*node).clone()).collect(),
            scope: scope_words(change, topology, &kinds),
            by_socket: change.by_socket,
            now: change.now,
            next: change.next,
            then: change.then,
        };
        self.changes().map(row).collect()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let alone = self.alone.iter().map(|(server, zone)| {
            let zone = zone.map_or_else(|| "no known zone".to_owned(), |z| format!("zone {z}"));
            format!(
                "{server} is the only active server of its backend on the nodes of {zone}: a ramp by weight changes nothing there, it gets all traffic at once; ramp by nodes"
            )
        });
        let frozen = self.frozen.iter().map(|(server, answer)| {
            format!(
                "{server} would be told {}: HAProxy keeps its state",
                answer.words()
            )
        });
        alone.chain(frozen).collect()
    }

    /// All changes, by server.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change<'a>> {
        self.changes.values().flatten()
    }

    /// The changes that leave less traffic.
    pub(super) fn reductions(&self) -> impl Iterator<Item = &Change<'a>> {
        self.changes().filter(|change| change.reduced.is_some())
    }
}

/// Whether a row ramps by weight and has no other active server beside it meanwhile: it gets all
/// traffic of the node, at whichever weight.
fn is_alone_in_its_ramp(station: &Station<'_>, member: &Member<'_>, now: Timestamp) -> bool {
    let courses = station.members.iter().map(|m| &m.after);
    let ramps = |course: &Course| {
        let parts = course.steps.iter().filter(|(_, answer)| {
            matches!(answer, Answer::State(State::Ready(percent)) if percent.get() < 100)
        });
        parts.count() > 1
    };
    let is_alone = |at: Timestamp| {
        let partly =
            matches!(Level::of(member.after.at(at)), Level::Traffic(percent) if percent < 100);
        let mut others = station
            .members
            .iter()
            .filter(|other| other.server != member.server && other.placement.active);
        partly && !others.any(|other| other.may_serve(other.after.at(at), true))
    };
    member.placement.active
        && member.placement.weight > 0
        && ramps(&member.after)
        && moments(courses)
            .into_iter()
            .any(|at| at >= now && is_alone(at))
}

fn scope_words(change: &Change<'_>, topology: &Topology, kinds: &[Kind<'_>]) -> String {
    let mut having: BTreeMap<Option<&Name>, usize> = BTreeMap::new();
    for kind in kinds {
        if topology.placement(kind.node, change.server).is_some() {
            *having.entry(kind.zone).or_default() += kind.nodes.len();
        }
    }
    let count = change.nodes.len();
    if count == having.values().sum::<usize>() {
        return match change.nodes.as_slice() {
            [node] => format!("node {node}"),
            _ => format!("all {count} nodes"),
        };
    }
    let mut chosen: BTreeMap<Option<&Name>, usize> = BTreeMap::new();
    for (_, node) in change
        .nodes
        .iter()
        .filter_map(|name| topology.nodes().get_key_value(*name))
    {
        *chosen.entry(node.zone.as_ref()).or_default() += 1;
    }
    let whole = chosen
        .iter()
        .all(|(zone, count)| zone.is_some() && having.get(zone) == Some(count));
    if whole {
        let names: Vec<_> = chosen.keys().flatten().map(|zone| zone.as_str()).collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        return format!("zone{plural} {} ({count} nodes)", names.join(", "));
    }
    let mut names: Vec<_> = change.nodes.iter().map(|name| name.as_str()).collect();
    names.sort_unstable();
    let more = match count.saturating_sub(NODES_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NODES_NAMED_MAX);
    format!("nodes {}{more}", names.join(", "))
}
