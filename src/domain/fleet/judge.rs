//! What is silent, and who has not been told the newest listing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Node, Row, Version, span};
use crate::domain::name::Name;

/// A row is silent after this many of its own intervals: one poll may be lost and the next one
/// late by the spread of `spread-checks`.
const SILENT_INTERVALS: u32 = 3;
/// No row is silent before this: a reload takes longer than a short interval, and the clocks of two
/// replicas may differ by as much.
const SILENT_AFTER_MIN: Duration = Duration::from_secs(5);

/// What rows are judged by at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judge {
    /// The moment.
    pub now: Timestamp,
    /// Since when somebody listens: before that, silence says nothing.
    pub since: Timestamp,
    /// The fleet's smallest agent-inter.
    pub poll_interval: Duration,
    /// The newest listing in force.
    pub newest: Option<Version>,
}

/// The fleet in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Summary {
    /// Nodes known.
    pub nodes: usize,
    /// Nodes of which no row polls.
    pub nodes_silent: usize,
    /// Rows known.
    pub rows: usize,
    /// Rows that do not poll.
    pub rows_silent: usize,
    /// Rows that have not been told the newest listing.
    pub rows_behind: usize,
    /// Names that several machines go by.
    pub duplicate_names: usize,
}

impl Judge {
    /// Whether a row has not polled for longer than it should.
    #[must_use]
    pub fn silent(&self, row: &Row) -> bool {
        let interval = row.interval.unwrap_or_default().max(self.poll_interval);
        let limit = SILENT_AFTER_MIN.max(interval * SILENT_INTERVALS);
        span(row.last.max(self.since), self.now) > limit
    }

    /// Whether no row of a node polls.
    #[must_use]
    pub fn silent_node(&self, node: &Node) -> bool {
        node.rows.values().all(|row| self.silent(&row))
    }

    /// Rows that do not poll while others of their node do.
    #[must_use]
    pub fn rows_silent_alone(&self, nodes: &BTreeMap<Name, Arc<Node>>) -> usize {
        let silent = |node: &Node| node.rows.values().filter(|row| self.silent(row)).count();
        let all = nodes.values().map(|node| (silent(node), node.rows.len()));
        let alone = all.filter(|(silent, rows)| silent < rows);
        alone.map(|(silent, _)| silent).sum()
    }

    /// Whether a row has not been told the newest listing. After each change that is every row
    /// until its next poll.
    #[must_use]
    pub fn behind(&self, row: &Row) -> bool {
        let told = row.told.map(|told| told.version);
        self.newest.is_some_and(|newest| told < Some(newest))
    }

    /// For how long the row that lacks the newest listing for longest has been told nothing; rows
    /// that do not poll are left out. It is the age of the oldest change that is not applied, or up
    /// to one interval more. `None`: every row that polls was told.
    #[must_use]
    pub fn oldest_unapplied(&self, nodes: &BTreeMap<Name, Arc<Node>>) -> Option<Duration> {
        let rows = nodes.values().flat_map(|node| node.rows.values());
        let lacking = rows.filter(|row| self.behind(row) && !self.silent(row));
        let told = lacking.map(|row| row.told.map_or(row.first, |told| told.at));
        told.min().map(|oldest| span(oldest, self.now))
    }

    /// Counts it all.
    #[must_use]
    pub fn summary(&self, nodes: &BTreeMap<Name, Arc<Node>>) -> Summary {
        let mut summary = Summary {
            nodes: nodes.len(),
            ..Summary::default()
        };
        for node in nodes.values() {
            let silent = node.rows.values().filter(|row| self.silent(row)).count();
            summary.nodes_silent += usize::from(silent == node.rows.len());
            summary.rows += node.rows.len();
            summary.rows_silent += silent;
            summary.rows_behind += node.rows.values().filter(|row| self.behind(row)).count();
            let shared = !node.addresses.at_once(self.now).is_empty();
            summary.duplicate_names += usize::from(shared);
        }
        summary
    }
}
