//! Which servers a backend has, seen from each HAProxy node: active or backup, at which weight, and
//! which of them are known to be down.
//!
//! It comes from `settings`, from the nodes' own polls, from HAProxy's files, or from what HAProxy
//! shows of itself; [`Topology::sources`] says which, and as of when.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::acceptance::PolledRow;
use super::answer::Answer;
use super::name::{Name, ServerId};
use super::settings::{NodeSettings, Row, Settings};

/// What the fleet looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    rows: BTreeMap<ServerId, Row>,
    nodes: BTreeMap<Name, Node>,
    /// Rows that no settings name, and what does: they stand only on nodes that say so themselves.
    beyond: BTreeMap<ServerId, SourceKind>,
    sources: Vec<Source>,
}

/// One HAProxy node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The zone that it stands in.
    pub zone: Option<Name>,
    /// What it is for.
    pub role: Option<Name>,
    /// The rows that it has, where its own polls or files say so; `None`: those of its role.
    pub rows: Option<Arc<BTreeMap<ServerId, Placement>>>,
    /// The rows that it polls and that no settings name.
    pub also: Arc<BTreeSet<ServerId>>,
    /// The rows that it sees down.
    pub down: Arc<BTreeSet<ServerId>>,
    /// The rows that do not follow the KV there.
    pub held: Arc<BTreeMap<ServerId, Held>>,
}

/// What a row is that does not follow the KV: as its node shows it, until its socket is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// What it is.
    pub now: Answer,
    /// What it is with the write that is looked at.
    pub next: Answer,
}

/// A row that its node shows, and that does not follow the KV there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfollowed {
    /// The node.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// How it stands there.
    pub placement: Placement,
    /// Its groups, where no settings say them.
    pub groups: Vec<Name>,
    /// What it is now.
    pub now: Answer,
}

/// How a server stands in a backend of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// Whether it is an active server; a backup serves only when no active one can.
    pub active: bool,
    /// Its configured weight, 0 to 256.
    pub weight: u16,
}

/// Where a part of the topology comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What it is.
    pub kind: SourceKind,
    /// As of when; `None` where nobody noted it.
    pub as_of: Option<Timestamp>,
}

/// Kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The key `settings`.
    Settings,
    /// The nodes' agent checks.
    Polls,
    /// The nodes' HAProxy files.
    Files,
    /// What HAProxy shows of itself: a stats socket, or Prometheus.
    Observed,
}

/// What HAProxy shows of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The node that shows it.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// Whether it is down: failing its check, or out of service for a reason that no directive has
    /// given. Of a row that does not follow this program also drained, or in maintenance.
    pub down: bool,
}

/// Nodes that have the same rows, placed the same, and stand in one zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind<'a> {
    /// Their zone.
    pub zone: Option<&'a Name>,
    /// One of them.
    pub node: &'a Node,
    /// Their names; never empty.
    pub nodes: Vec<&'a Name>,
}

impl Topology {
    /// What the settings say, read at `as_of`.
    #[must_use]
    pub fn from_settings(settings: &Settings, as_of: Option<Timestamp>) -> Self {
        let node = |(name, node): (&Name, &NodeSettings)| {
            let facts = Node {
                zone: node.zone.clone(),
                role: node.role.clone(),
                ..Node::default()
            };
            (name.clone(), facts)
        };
        let mut topology = Self {
            rows: settings.rows.clone(),
            nodes: settings.nodes.iter().map(node).collect(),
            beyond: BTreeMap::new(),
            sources: Vec::new(),
        };
        topology.note(SourceKind::Settings, as_of);
        topology
    }

    /// Adds the nodes and rows that are seen polling and stand in no settings. Such a node has the
    /// rows that it polls, placed as the settings say, and stands in the zone that it names. Such a
    /// row can be selected and written, and nobody counts on it: its groups and weight are not known.
    #[must_use]
    pub fn with_polls(mut self, polled: &[PolledRow], as_of: Option<Timestamp>) -> Self {
        for row in polled {
            if !self.rows.contains_key(&row.server) {
                let unknown = Row {
                    weight: Placement::UNKNOWN.weight,
                    ..Row::default()
                };
                self.rows.insert(row.server.clone(), unknown);
                self.beyond.insert(row.server.clone(), SourceKind::Polls);
            }
            let new = || Node {
                zone: row.zone.clone(),
                rows: Some(Arc::default()),
                ..Node::default()
            };
            let node = self.nodes.entry(row.node.clone()).or_insert_with(new);
            let placement = Placement::of(&self.rows[&row.server], node);
            match &mut node.rows {
                Some(rows) => {
                    Arc::make_mut(rows)
                        .entry(row.server.clone())
                        .or_insert(placement);
                }
                None if self.beyond.contains_key(&row.server) => {
                    Arc::make_mut(&mut node.also).insert(row.server.clone());
                }
                None => {}
            }
        }
        self.note(SourceKind::Polls, as_of);
        self
    }

    /// Adds a node with exactly the rows of `node.rows`, or replaces what was known of it: what its
    /// HAProxy files say. `rows` describes those that no settings name; one that neither does is of
    /// no group.
    #[must_use]
    pub fn with_node(
        mut self,
        name: Name,
        node: Node,
        rows: &BTreeMap<ServerId, Row>,
        as_of: Option<Timestamp>,
    ) -> Self {
        for id in node.rows.iter().flat_map(|rows| rows.keys()) {
            let is_polled = self.beyond.get(id) == Some(&SourceKind::Polls);
            if is_polled || !self.rows.contains_key(id) {
                let row = rows.get(id).cloned().unwrap_or_default();
                self.rows.insert(id.clone(), row);
                self.beyond.insert(id.clone(), SourceKind::Files);
            }
        }
        self.nodes.insert(name, node);
        self.note(SourceKind::Files, as_of);
        self
    }

    /// Adds the rows that do not follow the KV, as their nodes show them. Where no settings name the
    /// node or the row, they stand as they are shown.
    #[must_use]
    pub fn with_unfollowed(mut self, rows: &[Unfollowed], as_of: Option<Timestamp>) -> Self {
        for row in rows {
            if !self.describes(&row.server) {
                let described = Row {
                    groups: row.groups.clone(),
                    weight: row.placement.weight,
                    ..Row::default()
                };
                self.rows.insert(row.server.clone(), described);
                self.beyond.insert(row.server.clone(), SourceKind::Observed);
            }
            let new = || Node {
                rows: Some(Arc::default()),
                ..Node::default()
            };
            let node = self.nodes.entry(row.node.clone()).or_insert_with(new);
            match &mut node.rows {
                Some(rows) => {
                    Arc::make_mut(rows).insert(row.server.clone(), row.placement);
                }
                None if self.beyond.contains_key(&row.server) => {
                    Arc::make_mut(&mut node.also).insert(row.server.clone());
                }
                None => {}
            }
            let held = Held {
                now: row.now,
                next: row.now,
            };
            Arc::make_mut(&mut node.held).insert(row.server.clone(), held);
        }
        self.note(SourceKind::Observed, as_of);
        self
    }

    /// The same with such rows written to.
    #[must_use]
    pub fn with_held<'a>(
        &self,
        written: impl IntoIterator<Item = (&'a Name, &'a ServerId, Answer)>,
    ) -> Self {
        let mut after = self.clone();
        for (node, server, next) in written {
            let held = after.nodes.get_mut(node).map(|node| &mut node.held);
            if let Some(held) = held.and_then(|held| Arc::make_mut(held).get_mut(server)) {
                held.next = next;
            }
        }
        after
    }

    /// The rows that are written to where they do not follow the KV.
    pub fn written(&self) -> impl Iterator<Item = &ServerId> {
        let held = self.nodes.values().flat_map(|node| node.held.iter());
        held.filter(|(_, held)| held.now != held.next)
            .map(|(server, _)| server)
    }

    /// Adds what HAProxy shows of itself. Rows and nodes that are not known are not added.
    #[must_use]
    pub fn with_observed(mut self, seen: &[Observation], as_of: Option<Timestamp>) -> Self {
        for observation in seen {
            if let Some(node) = self.nodes.get_mut(&observation.node) {
                let down = Arc::make_mut(&mut node.down);
                if observation.down {
                    down.insert(observation.server.clone());
                } else {
                    down.remove(&observation.server);
                }
            }
        }
        self.note(SourceKind::Observed, as_of);
        self
    }

    /// The same with one made-up node in each of these zones, or one without a zone, when no node
    /// is known: what it sees is better than nothing.
    #[must_use]
    pub fn with_assumed_nodes<'a>(&'a self, zones: impl IntoIterator<Item = &'a Name>) -> Self {
        let mut assumed = self.clone();
        let of_rows = self.rows.values().filter_map(|row| row.zone.as_ref());
        let zones: BTreeSet<_> = zones.into_iter().chain(of_rows).map(Some).collect();
        let zones = if zones.is_empty() {
            BTreeSet::from([None])
        } else {
            zones
        };
        for (i, zone) in zones.into_iter().enumerate() {
            let placed = |(id, row): (&ServerId, &Row)| {
                let placement = Placement {
                    active: row.is_active_in(zone),
                    weight: row.weight,
                };
                (id.clone(), placement)
            };
            let node = Node {
                zone: zone.cloned(),
                rows: Some(Arc::new(self.rows.iter().map(placed).collect())),
                ..Node::default()
            };
            let name = Name::parse(&format!("assumed-{i}")).expect("digits and letters are a name");
            assumed.nodes.insert(name, node);
        }
        assumed
    }

    /// The known rows.
    #[must_use]
    pub const fn rows(&self) -> &BTreeMap<ServerId, Row> {
        &self.rows
    }

    /// Whether a row's weight and groups are known: from more than its polls.
    #[must_use]
    pub fn describes(&self, server: &ServerId) -> bool {
        self.rows.contains_key(server) && self.beyond.get(server) != Some(&SourceKind::Polls)
    }

    /// The known nodes.
    #[must_use]
    pub const fn nodes(&self) -> &BTreeMap<Name, Node> {
        &self.nodes
    }

    /// The zones that nodes stand in.
    #[must_use]
    pub fn zones(&self) -> BTreeSet<&Name> {
        self.nodes
            .values()
            .filter_map(|n| n.zone.as_ref())
            .collect()
    }

    /// Where it comes from, and as of when.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The zone of LB nodes that a text means: its whole name, or the end of it behind a dash when
    /// only one zone ends so (`b` for `us-east1-b`).
    ///
    /// # Errors
    /// Text that names the known zones.
    pub fn zone_named(&self, text: &str) -> Result<Name, String> {
        let zones = self.zones();
        if let Some(zone) = zones.iter().find(|zone| zone.as_str() == text) {
            return Ok((*zone).clone());
        }
        let ends_so = |zone: &&&Name| zone.as_str().rsplit('-').next() == Some(text);
        let mut fitting = zones.iter().filter(ends_so);
        match (fitting.next(), fitting.next()) {
            (Some(zone), None) => Ok((*zone).clone()),
            (Some(one), Some(other)) => Err(format!(
                "zone {text:?} may be {one} or {other}: write its whole name"
            )),
            (None, _) => Err(format!(
                "no LB node stands in a zone {text:?}; {}",
                known(&zones)
            )),
        }
    }

    /// How a row stands on a node; `None`: the node does not have it.
    #[must_use]
    pub fn placement(&self, node: &Node, server: &ServerId) -> Option<Placement> {
        if let Some(rows) = &node.rows {
            return rows.get(server).copied();
        }
        let row = self.rows.get(server)?;
        let here = if self.beyond.contains_key(server) {
            node.also.contains(server)
        } else {
            row.roles.is_empty() || node.role.as_ref().is_some_and(|r| row.roles.contains(r))
        };
        here.then(|| Placement::of(row, node))
    }

    /// The nodes, those together that have the same rows placed the same, and see and hold the
    /// same ones. Thousands of rows on many nodes are a few kinds of nodes.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind<'_>> {
        type Key<'a> = (
            Option<&'a Name>,
            Option<&'a Name>,
            Option<&'a BTreeMap<ServerId, Placement>>,
            [&'a BTreeSet<ServerId>; 2],
            &'a BTreeMap<ServerId, Held>,
        );
        let mut kinds: BTreeMap<Key<'_>, Kind<'_>> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let zone = node.zone.as_ref();
            let key = (
                zone,
                node.role.as_ref(),
                node.rows.as_deref(),
                [&*node.also, &*node.down],
                &*node.held,
            );
            let nodes = Vec::new();
            let kind = kinds.entry(key).or_insert(Kind { zone, node, nodes });
            kind.nodes.push(name);
        }
        kinds.into_values().collect()
    }

    fn note(&mut self, kind: SourceKind, as_of: Option<Timestamp>) {
        match self.sources.iter_mut().find(|source| source.kind == kind) {
            // The oldest part counts.
            Some(source) => source.as_of = source.as_of.min(as_of),
            None => self.sources.push(Source { kind, as_of }),
        }
    }
}

impl Placement {
    fn of(row: &Row, node: &Node) -> Self {
        Self {
            active: row.is_active_in(node.zone.as_ref()),
            weight: row.weight_on(node.role.as_ref()),
        }
    }

    /// Of a row that is polled and that nothing else says anything about: nobody counts on it.
    const UNKNOWN: Self = Self {
        active: true,
        weight: 0,
    };
}

/// The plan's line: `settings, polls as of 2026-11-30T10:00:00Z`.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, source) in self.sources.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", source.kind.as_str())?;
            if let Some(as_of) = source.as_of {
                write!(f, " as of {as_of:.0}")?;
            }
        }
        Ok(())
    }
}

impl SourceKind {
    /// The words for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Polls => "polls",
            Self::Files => "HAProxy files",
            Self::Observed => "HAProxy's own state",
        }
    }
}

/// The names that there are, for an error about one that is not.
pub(super) fn known(names: &BTreeSet<&Name>) -> String {
    if names.is_empty() {
        return "none is known: settings.nodes is empty, and no node polls".to_owned();
    }
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    format!("known are {}", names.join(", "))
}

#[cfg(test)]
mod tests;
