//! The fleet as a person, or a program, reads it.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::Serialize;

use super::report::WireVersion;
use super::{Judge, Merged, Node, Report, Row, Summary};
use crate::domain::name::{Name, ServerId};

/// The most rows that one view lists. A real fleet has fewer; beyond it a filter is needed, and a
/// reader who takes its time does not hold the memory of the whole table.
pub const ROWS_SHOWN_MAX: usize = 8_192;

/// Which rows are listed: those whose node and server contain these texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Part of the node's name.
    pub node: Option<String>,
    /// Part of `backend/server`.
    pub server: Option<String>,
}

/// A replica whose report is missing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The replica.
    pub replica: Name,
    /// Why, for a person.
    pub why: String,
}

/// The fleet at one moment. Numbers, replicas and problems are of the whole fleet; the lists of
/// rows are filtered.
#[derive(Debug, Serialize)]
pub struct View {
    at: Timestamp,
    /// Whether every replica has reported.
    complete: bool,
    newest: Option<WireVersion>,
    totals: Summary,
    replicas: Vec<ReplicaView>,
    problems: Vec<ProblemView>,
    /// Rows that have not been told the newest listing.
    behind: Vec<BehindView>,
    nodes: Vec<NodeView>,
    rows_shown: usize,
    /// Rows that fit the filter and are not listed, for want of room.
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct ReplicaView {
    replica: String,
    reported: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<WireVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ProblemView {
    kind: &'static str,
    node: String,
    addresses: Vec<IpAddr>,
    text: String,
}

#[derive(Debug, Serialize)]
struct BehindView {
    node: String,
    server: String,
    told: Option<WireVersion>,
    silent: bool,
}

#[derive(Debug, Serialize)]
struct NodeView {
    node: String,
    zones: Vec<String>,
    silent: bool,
    first_poll: Option<Timestamp>,
    last_poll: Option<Timestamp>,
    addresses: Vec<AddressView>,
    rows_behind: usize,
    rows: Vec<RowView>,
}

#[derive(Debug, Serialize)]
struct AddressView {
    address: IpAddr,
    since: Timestamp,
    last_poll: Timestamp,
}

#[derive(Debug, Serialize)]
struct RowView {
    server: String,
    silent: bool,
    behind: bool,
    first_poll: Timestamp,
    last_poll: Timestamp,
    polls: u64,
    unanswered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_seconds: Option<f64>,
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<WireVersion>,
}

impl View {
    /// Shows a fleet at `now`, and who has not reported.
    #[must_use]
    pub fn new(merged: &Merged, missing: &[Missing], filter: &Filter, now: Timestamp) -> Self {
        let judge = merged.judge(now);
        let replicas = merged.replicas.values().map(ReplicaView::reported);
        let nodes = || {
            let all = merged.nodes.iter();
            all.filter(|(name, _)| contains(name.as_str(), filter.node.as_deref()))
        };
        let mut view = Self {
            at: now,
            complete: missing.is_empty(),
            newest: judge.newest.map(Into::into),
            totals: judge.summary(&merged.nodes),
            replicas: replicas
                .chain(missing.iter().map(ReplicaView::missing))
                .collect(),
            problems: merged
                .nodes
                .iter()
                .filter_map(|(name, node)| ProblemView::shared_name(name, node, now))
                .collect(),
            behind: Vec::new(),
            nodes: Vec::new(),
            rows_shown: 0,
            rows_left_out: 0,
        };
        for (name, node) in nodes() {
            view.list(name, node, filter.server.as_deref(), &judge);
        }
        view
    }

    fn list(&mut self, name: &Name, node: &Node, server: Option<&str>, judge: &Judge) {
        let fitting = || {
            let all = node.rows.iter();
            all.filter(|(id, _)| contains(id.as_str(), server))
        };
        let count = fitting().count();
        let room = count.min(ROWS_SHOWN_MAX - self.rows_shown);
        self.rows_left_out += count - room;
        self.rows_shown += room;
        if room == 0 {
            return;
        }
        let rows: Vec<_> = fitting().take(room).collect();
        let behind = rows.iter().filter(|(_, row)| judge.behind(row));
        self.behind.extend(behind.map(|(server, row)| BehindView {
            node: name.to_string(),
            server: server.to_string(),
            told: row.told.map(|told| told.version.into()),
            silent: judge.silent(row),
        }));
        self.nodes.push(NodeView::new(name, node, &rows, judge));
    }
}

impl NodeView {
    fn new(name: &Name, node: &Node, rows: &[(&ServerId, Row)], judge: &Judge) -> Self {
        let polled = node.polled();
        let addresses = node.addresses.iter().map(|(address, run)| AddressView {
            address,
            since: run.since,
            last_poll: run.last,
        });
        let row = |(server, row): &(&ServerId, Row)| RowView::new(server, row, judge);
        Self {
            node: name.to_string(),
            zones: node.zones_now().map(ToString::to_string).collect(),
            silent: judge.silent_node(node),
            first_poll: polled.map(|(first, _)| first),
            last_poll: polled.map(|(_, last)| last),
            addresses: addresses.collect(),
            rows_behind: node.rows.values().filter(|row| judge.behind(row)).count(),
            rows: rows.iter().map(row).collect(),
        }
    }
}

impl RowView {
    fn new(server: &ServerId, row: &Row, judge: &Judge) -> Self {
        Self {
            server: server.to_string(),
            silent: judge.silent(row),
            behind: judge.behind(row),
            first_poll: row.first,
            last_poll: row.last,
            polls: row.polls,
            unanswered: row.unanswered,
            interval_seconds: row.interval.map(|interval| interval.as_secs_f64()),
            address: row.address,
            answer: row.told.map(|told| told.answer.words()),
            answered: row.told.map(|told| told.at),
            told: row.told.map(|told| told.version.into()),
        }
    }
}

impl ReplicaView {
    fn reported(report: &Report) -> Self {
        Self {
            replica: report.replica.to_string(),
            reported: true,
            why: None,
            at: Some(report.at),
            newest: report.newest.map(Into::into),
            dropped: Some(report.dropped),
        }
    }

    fn missing(missing: &Missing) -> Self {
        Self {
            replica: missing.replica.to_string(),
            reported: false,
            why: Some(missing.why.clone()),
            at: None,
            newest: None,
            dropped: None,
        }
    }
}

impl ProblemView {
    fn shared_name(name: &Name, node: &Node, now: Timestamp) -> Option<Self> {
        let addresses = node.addresses.at_once(now);
        (!addresses.is_empty()).then(|| Self {
            kind: "duplicate_name",
            node: name.to_string(),
            text: shared_name(name, &addresses),
            addresses,
        })
    }
}

/// What is wrong with a name that several addresses use, and what to do.
#[must_use]
pub fn shared_name(name: &Name, addresses: &[IpAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    format!(
        "polls of the node {name} come from {} at once: several machines share its name, or one \
         leaves by several addresses. Give each HAProxy a node= of its own",
        addresses.join(", ")
    )
}

fn contains(text: &str, part: Option<&str>) -> bool {
    part.is_none_or(|part| text.contains(part))
}

mod text;
