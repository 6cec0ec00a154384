//! The whole fleet out of what each replica was asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Judge, Node, Report, Row, span};
use crate::domain::name::{Name, ServerId};

/// For how many of its intervals the last poll that a replica saw still says how often a row asks
/// that replica: a balancer that hashes may send it elsewhere for ever.
const COUNTED_INTERVALS: u32 = 10;

/// The fleet as several replicas know it together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// What each replica said, its nodes left out.
    pub replicas: BTreeMap<Name, Report>,
    /// All nodes.
    pub nodes: BTreeMap<Name, Arc<Node>>,
}

impl Merged {
    /// Merges reports. The order does not matter, and of two reports of one replica the newer one
    /// counts: polls are summed over replicas, never over time.
    #[must_use]
    pub fn of(reports: impl IntoIterator<Item = Report>) -> Self {
        let mut replicas = BTreeMap::<Name, Report>::new();
        for report in reports {
            let known = replicas.get(&report.replica);
            if known.is_none_or(|known| known.at < report.at) {
                replicas.insert(report.replica.clone(), report);
            }
        }
        let mut known = BTreeMap::<Name, Vec<Arc<Node>>>::new();
        for report in replicas.values_mut() {
            for (name, node) in std::mem::take(&mut report.nodes) {
                known.entry(name).or_default().push(node);
            }
        }
        let nodes = known.into_iter();
        let nodes = nodes.map(|(name, seen)| (name, merge_node(seen))).collect();
        Self { replicas, nodes }
    }

    /// What its rows are judged by at `now`.
    #[must_use]
    pub fn judge(&self, now: Timestamp) -> Judge {
        let all = || self.replicas.values();
        Judge {
            now,
            since: all().map(|report| report.since).min().unwrap_or(now),
            poll_interval: all()
                .map(|report| report.poll_interval)
                .min()
                .unwrap_or_default(),
            newest: all().filter_map(|report| report.newest).max(),
        }
    }
}

/// One node out of what each replica knows of it. Whom one replica alone knows is not copied.
fn merge_node(seen: Vec<Arc<Node>>) -> Arc<Node> {
    let seen = match <[_; 1]>::try_from(seen) {
        Ok([only]) => return only,
        Err(seen) => seen,
    };
    let mut merged = Node::default();
    let mut rows = BTreeMap::<&ServerId, Vec<Row>>::new();
    for node in &seen {
        for (zone, at) in &node.zones {
            merged.in_zone(zone, *at);
        }
        for (address, run) in node.addresses.iter() {
            merged.addresses.join(address, run);
        }
        for (server, row) in node.rows.iter() {
            rows.entry(server).or_default().push(row);
        }
    }
    let merge = |(server, rows): (&ServerId, Vec<Row>)| Some((server.clone(), merge_rows(&rows)?));
    merged.rows = rows.into_iter().filter_map(merge).collect();
    Arc::new(merged)
}

/// One row out of what each replica knows of it; the newest poll counts.
fn merge_rows(rows: &[Row]) -> Option<Row> {
    let last = rows.iter().max_by_key(|row| (row.last, row.address))?;
    Some(Row {
        polls: sum(rows.iter().map(|row| row.polls)),
        unanswered: sum(rows.iter().map(|row| row.unanswered)),
        first: rows.iter().map(|row| row.first).min()?,
        last: last.last,
        interval: interval(rows, last.last),
        address: last.address,
        told: rows.iter().filter_map(|row| row.told).max(),
    })
}

/// The time between two polls over all replicas: their rates add up.
fn interval(rows: &[Row], last: Timestamp) -> Option<Duration> {
    // Polls in a million hours: whole numbers add up to the same in any order.
    const SCALE: u128 = 3_600_000_000_000_000;
    let counts = |row: &&Row| {
        let interval = row.interval.unwrap_or_default();
        span(row.last, last) <= interval * COUNTED_INTERVALS
    };
    let counted = rows.iter().filter(counts).filter_map(|row| row.interval);
    let all: Vec<_> = counted.collect();
    if let [one] = all[..] {
        return Some(one);
    }
    let rates: u128 = all
        .iter()
        .map(|interval| SCALE / interval.as_millis().max(1))
        .sum();
    let millis = SCALE.checked_div(rates)?;
    Some(Duration::from_millis(u64::try_from(millis).ok()?))
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
