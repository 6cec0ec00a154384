//! The nodes: when each polled last, and how far it was told.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::NODES_MAX;
use crate::domain::name::Name;
use crate::domain::view::{Row, View};

/// The nodes at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The silent ones first, then those that wait, then by name.
    pub listed: Vec<NodeLine>,
    /// How many more there are; all of them poll, unless more than the limit do not.
    pub more: usize,
    /// How many do not poll.
    pub silent: usize,
    /// How many nodes have rows that wait to be told, or to follow.
    pub waiting: usize,
    /// How many there are.
    pub total: usize,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLine {
    /// Its name.
    pub name: Name,
    /// What it is for.
    pub role: Option<Name>,
    /// Where it stands.
    pub zone: Option<Name>,
    /// When its last poll came.
    pub last_poll: Timestamp,
    /// The oldest index that one of its rows was told; `None`: one was never answered.
    pub applied: Option<u64>,
    /// How many rows it has.
    pub rows: usize,
    /// How many of them do not poll.
    pub silent: usize,
    /// How many of the others have yet to be told, or to follow.
    pub waiting: usize,
}

impl Nodes {
    pub(super) fn new(view: &View) -> Self {
        let mut lines = BTreeMap::<&Name, NodeLine>::new();
        for row in &view.rows {
            let Some(one) = NodeLine::of(row) else {
                continue;
            };
            match lines.get_mut(&row.node) {
                Some(line) => line.add(&one),
                None => drop(lines.insert(&row.node, one)),
            }
        }
        let mut listed: Vec<_> = lines.into_values().collect();
        let total = listed.len();
        let silent = listed.iter().filter(|line| line.is_silent()).count();
        let waiting = listed.iter().filter(|line| line.waiting > 0).count();
        listed.sort_by_key(|line| (!line.is_silent(), line.silent == 0, line.waiting == 0));
        listed.truncate(NODES_MAX);
        Self {
            more: total - listed.len(),
            listed,
            silent,
            waiting,
            total,
        }
    }
}

impl NodeLine {
    fn of(row: &Row) -> Option<Self> {
        let served = row.served.as_ref()?;
        Some(Self {
            name: row.node.clone(),
            role: row.role.clone(),
            zone: row.zone.clone(),
            last_poll: served.last_poll,
            applied: served.index,
            rows: 1,
            silent: usize::from(served.silent),
            waiting: usize::from(row.not_converged.is_some() && !served.silent),
        })
    }

    fn add(&mut self, other: &Self) {
        self.last_poll = self.last_poll.max(other.last_poll);
        self.applied = self.applied.min(other.applied);
        self.rows += other.rows;
        self.silent += other.silent;
        self.waiting += other.waiting;
    }

    /// Whether a person looks for it: a row of it is silent, or waits.
    #[must_use]
    pub const fn stands_out(&self) -> bool {
        self.silent > 0 || self.waiting > 0
    }

    /// Whether none of its rows polls.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.silent == self.rows
    }
}
