//! The rows that asked one replica: bounded, and forgotten after a day of silence.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Identity, NODES_MAX, Node, Polled, Row, SERVERS_MAX, span};
use crate::domain::name::{Name, ServerId};

/// How long a silent row stays known: over a night and a weekend's first half it is still seen to
/// be missing, and a node that was taken away is not shown for ever.
pub const FORGET_AFTER: Duration = Duration::from_hours(24);

/// Which part of the rows, or nodes, makes room at once when all places are taken: finding the
/// longest silent ones looks at each row.
const EVICTED_PART: usize = 64;

/// The rows that asked this replica.
#[derive(Debug, Clone)]
pub struct Table {
    nodes: BTreeMap<Name, Arc<Node>>,
    servers: Servers,
    rows: usize,
    rows_max: usize,
    servers_max: usize,
    dropped: u64,
}

/// One copy of each server's name: all nodes have the same servers.
#[derive(Debug, Clone, Default)]
struct Servers(HashSet<ServerId>);

/// The longest silent ones of many.
struct Eviction {
    /// The last poll of the one among them that polled last.
    youngest: Timestamp,
    left: usize,
}

impl Eviction {
    fn of(mut lasts: Vec<Timestamp>, count: usize) -> Self {
        let left = count.min(lasts.len());
        let youngest = left
            .checked_sub(1)
            .map(|at| *lasts.select_nth_unstable(at).1);
        Self {
            youngest: youngest.unwrap_or(Timestamp::MIN),
            left,
        }
    }

    fn takes(&mut self, last: Timestamp) -> bool {
        let takes = last <= self.youngest && self.left > 0;
        self.left -= usize::from(takes);
        takes
    }
}

impl Servers {
    /// The one copy of this name.
    fn shared(&mut self, server: &ServerId) -> ServerId {
        if let Some(known) = self.0.get(server) {
            return known.clone();
        }
        self.0.insert(server.clone());
        server.clone()
    }

    /// Forgets the names that no row has.
    fn drop_unused(&mut self) {
        self.0.retain(ServerId::is_shared);
    }
}

impl Table {
    /// Knows nobody yet, and at most `rows_max` rows.
    #[must_use]
    pub fn new(rows_max: usize) -> Self {
        Self::bounded(rows_max, SERVERS_MAX)
    }

    /// The same, with at most `servers_max` servers among all rows.
    #[must_use]
    pub fn bounded(rows_max: usize, servers_max: usize) -> Self {
        Self {
            nodes: BTreeMap::new(),
            servers: Servers::default(),
            rows: 0,
            rows_max,
            servers_max,
            dropped: 0,
        }
    }

    /// Goes on with what was known before a restart.
    #[must_use]
    pub fn remembering(rows_max: usize, nodes: BTreeMap<Name, Arc<Node>>, now: Timestamp) -> Self {
        let rows = nodes.values().map(|node| node.rows.len()).sum();
        let mut table = Self {
            nodes,
            rows,
            ..Self::new(rows_max)
        };
        table.tend(now);
        table.make_room(0, 0);
        for node in table.nodes.values_mut() {
            let rows = &mut Arc::make_mut(node).rows;
            rows.share_names(|server| table.servers.shared(server));
        }
        table
    }

    /// Counts polls.
    pub fn record(&mut self, identity: &Identity, polled: &Polled) {
        let mut new_left = 1;
        self.record_among(identity, polled, &mut new_left);
    }

    /// Counts polls of a row that is known, or of a new one while there are `new_left`. A stranger
    /// who asks by ever other names would otherwise have rows forgotten all the time, and the rows
    /// of the fleet among them.
    pub fn record_among(&mut self, identity: &Identity, polled: &Polled, new_left: &mut usize) {
        if let Some(node) = self.nodes.get_mut(&identity.node) {
            let node = Arc::make_mut(node);
            node.add(identity, polled);
            let add = |row: &mut Row| row.add(identity.address, polled);
            if node.rows.change(&identity.server, add) {
                return;
            }
        }
        let Some(left) = new_left.checked_sub(1) else {
            self.dropped += polled.polls;
            return;
        };
        *new_left = left;
        let new = !self.nodes.contains_key(&identity.node);
        self.make_room(usize::from(new), 1);
        if !self.servers.0.contains(&identity.server) {
            self.make_room_among_servers();
        }
        let server = self.servers.shared(&identity.server);
        let node = self.nodes.entry(identity.node.clone()).or_default();
        let node = Arc::make_mut(node);
        if node.rows.is_empty() {
            node.add(identity, polled);
        }
        let row = Row::new(identity.address, polled);
        node.rows.put(server, &row);
        self.rows += 1;
    }

    /// Forgets a node; gives the number of its rows, 0 when it is not known.
    pub fn forget(&mut self, node: &str) -> usize {
        let rows = self.nodes.remove(node).map_or(0, |node| node.rows.len());
        self.rows -= rows;
        rows
    }

    /// Forgets the rows that have been silent for [`FORGET_AFTER`]. To be called now and then;
    /// it also corrects times that a clock which has been set back left in the future.
    pub fn tend(&mut self, now: Timestamp) {
        for node in self.nodes.values_mut() {
            Arc::make_mut(node).cut(now);
        }
        self.retain(|row| span(row.last, now) < FORGET_AFTER);
        self.servers.drop_unused();
    }

    /// All nodes with their rows.
    #[must_use]
    pub const fn nodes(&self) -> &BTreeMap<Name, Arc<Node>> {
        &self.nodes
    }

    /// How many rows made room for others since the start.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The longest silent nodes and rows make room for so many more.
    fn make_room(&mut self, nodes: usize, rows: usize) {
        let before = self.rows;
        let lasts = |node: &Arc<Node>| node.polled().map_or(Timestamp::MIN, |(_, last)| last);
        if self.nodes.len() + nodes > NODES_MAX {
            let excess = self.nodes.len() + nodes - NODES_MAX;
            let all = self.nodes.values().map(lasts).collect();
            let mut goes = Eviction::of(all, excess.max(NODES_MAX / EVICTED_PART));
            let rows = &mut self.rows;
            self.nodes.retain(|_, node| {
                let stays = !goes.takes(lasts(node));
                *rows -= if stays { 0 } else { node.rows.len() };
                stays
            });
        }
        if self.rows + rows > self.rows_max {
            let excess = self.rows + rows - self.rows_max;
            self.evict(excess.max(self.rows_max / EVICTED_PART));
        }
        self.dropped += (before - self.rows) as u64;
    }

    /// The longest silent rows make room for one more server.
    fn make_room_among_servers(&mut self) {
        let before = self.rows;
        while self.servers.0.len() >= self.servers_max && self.rows > 0 {
            self.evict((self.rows / EVICTED_PART).max(1));
            self.servers.drop_unused();
        }
        self.dropped += (before - self.rows) as u64;
    }

    fn evict(&mut self, count: usize) {
        let all = self.nodes.values().flat_map(|node| node.rows.values());
        let all = all.map(|row| row.last).collect();
        let mut goes = Eviction::of(all, count);
        self.retain(|row| !goes.takes(row.last));
    }

    fn retain(&mut self, mut stays: impl FnMut(&Row) -> bool) {
        let rows = &mut self.rows;
        self.nodes.retain(|_, node| {
            let before = node.rows.len();
            Arc::make_mut(node).rows.retain(&mut stays);
            *rows -= before - node.rows.len();
            !node.rows.is_empty()
        });
    }
}
