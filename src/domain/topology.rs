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
use super::name::{Name, ServerId};
use super::settings::{NodeSettings, Row, Settings};

/// What the fleet looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    rows: BTreeMap<ServerId, Row>,
    nodes: BTreeMap<Name, Node>,
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
    /// The rows that it sees down.
    pub down: Arc<BTreeSet<ServerId>>,
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
            sources: Vec::new(),
        };
        topology.note(SourceKind::Settings, as_of);
        topology
    }

    /// Adds the nodes that are seen polling and stand in no settings. Such a node has the rows that
    /// it polls, placed as the settings say, and is taken to stand in the zone that it names.
    #[must_use]
    pub fn with_polls(mut self, polled: &[PolledRow], as_of: Option<Timestamp>) -> Self {
        let mut found: BTreeMap<&Name, (Option<&Name>, BTreeSet<&ServerId>)> = BTreeMap::new();
        for row in polled.iter().filter(|r| !self.nodes.contains_key(&r.node)) {
            let (zone, rows) = found.entry(&row.node).or_default();
            *zone = zone.or(row.zone.as_ref());
            rows.insert(&row.server);
        }
        let found: Vec<_> = found.into_iter().collect();
        for (name, (zone, servers)) in found {
            let placed = servers.into_iter().map(|id| {
                let placement = self
                    .rows
                    .get(id)
                    .map_or(Placement::UNKNOWN, |row| Placement {
                        active: row.is_active_in(zone),
                        weight: row.weight,
                    });
                (id.clone(), placement)
            });
            let node = Node {
                zone: zone.cloned(),
                rows: Some(Arc::new(placed.collect())),
                ..Node::default()
            };
            self.nodes.insert(name.clone(), node);
        }
        self.note(SourceKind::Polls, as_of);
        self
    }

    /// Adds a node with exactly these rows, or replaces what was known of it: what its HAProxy
    /// files say. `node.rows` and `node.down` of other sources are kept where these are empty.
    #[must_use]
    pub fn with_node(mut self, name: Name, node: Node, as_of: Option<Timestamp>) -> Self {
        for id in node.rows.iter().flat_map(|rows| rows.keys()) {
            self.rows.entry(id.clone()).or_default();
        }
        self.nodes.insert(name, node);
        self.note(SourceKind::Files, as_of);
        self
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
        let here =
            row.roles.is_empty() || node.role.as_ref().is_some_and(|r| row.roles.contains(r));
        here.then(|| Placement {
            active: row.is_active_in(node.zone.as_ref()),
            weight: row.weight_on(node.role.as_ref()),
        })
    }

    /// The nodes, those together that have the same rows placed the same and see the same ones
    /// down. Thousands of rows on many nodes are a few kinds of nodes.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind<'_>> {
        type Key<'a> = (
            Option<&'a Name>,
            Option<&'a Name>,
            Option<&'a BTreeMap<ServerId, Placement>>,
            &'a BTreeSet<ServerId>,
        );
        let mut kinds: BTreeMap<Key<'_>, Kind<'_>> = BTreeMap::new();
        for (name, node) in &self.nodes {
            let zone = node.zone.as_ref();
            let key = (zone, node.role.as_ref(), node.rows.as_deref(), &*node.down);
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
                write!(f, " as of {as_of}")?;
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
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{"rows":[
        {"server":"web/b","zone":"us-east1-b"},{"server":"web/c","zone":"us-east1-c"},
        {"server":"web/cny","groups":["canary"],"weight":5,"role_weights":{"ci":0}},
        {"server":"ssh/b","zone":"us-east1-b","roles":["main"]}],
        "nodes":[{"name":"main-1","zone":"us-east1-b","role":"main"},
                 {"name":"main-2","zone":"us-east1-b","role":"main"},
                 {"name":"main-3","zone":"us-east1-c","role":"main"},
                 {"name":"ci-1","zone":"us-east1-b","role":"ci"},
                 {"name":"far-1","zone":"us-west1-c"}]}"#;

    fn topology() -> Topology {
        let (settings, _) = Settings::parse(SETTINGS.as_bytes()).unwrap();
        Topology::from_settings(&settings, None)
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn id(text: &str) -> ServerId {
        ServerId::parse(text).unwrap()
    }

    #[test]
    fn a_row_is_active_on_the_nodes_of_its_zone_and_a_backup_elsewhere() {
        let topology = topology();
        for (node, server, placement) in [
            ("main-1", "web/b", Some((true, 100))),
            ("main-3", "web/b", Some((false, 100))),
            ("main-3", "web/cny", Some((true, 5))),
            ("ci-1", "web/cny", Some((true, 0))),
            ("ci-1", "ssh/b", None),
            ("far-1", "ssh/b", None),
            ("far-1", "web/c", Some((false, 100))),
        ] {
            let placed = topology.placement(&topology.nodes()[node], &id(server));
            let placed = placed.map(|p| (p.active, p.weight));
            assert_eq!(placed, placement, "{server} on {node}");
        }
    }

    #[test]
    fn nodes_that_look_the_same_are_one_kind() {
        let count = |topology: &Topology| topology.kinds().len();
        assert_eq!(count(&topology()), 4);
        let seen = |down| Observation {
            node: name("main-1"),
            server: id("web/b"),
            down,
        };
        let down = topology().with_observed(&[seen(true)], None);
        assert_eq!(count(&down), 5);
        assert_eq!(count(&down.with_observed(&[seen(false)], None)), 4);
    }

    #[test]
    fn a_node_that_only_polls_has_the_rows_that_it_polls() {
        let row = |node: &str, server: &str| PolledRow {
            server: id(server),
            node: name(node),
            zone: Some(name("us-east1-c")),
            told: None,
        };
        let polled = [
            row("new-1", "web/c"),
            row("new-1", "web/odd"),
            row("main-1", "ssh/b"),
        ];
        let topology = topology().with_polls(&polled, Some(Timestamp::UNIX_EPOCH));
        let placed = |server| {
            let node = &topology.nodes()["new-1"];
            topology
                .placement(node, &id(server))
                .map(|p| (p.active, p.weight))
        };
        assert_eq!(placed("web/c"), Some((true, 100)));
        assert_eq!(placed("web/odd"), Some((true, 0)), "nobody counts on it");
        assert_eq!(placed("web/b"), None);
        assert_eq!(topology.nodes()["main-1"].rows, None, "settings say more");
        assert_eq!(
            topology.to_string(),
            "settings, polls as of 1970-01-01T00:00:00Z"
        );
        let later = Timestamp::from_second(9).unwrap();
        let again = topology.with_polls(&[], Some(later));
        assert_eq!(
            again.sources()[1].as_of,
            Some(Timestamp::UNIX_EPOCH),
            "the oldest part counts"
        );
    }

    #[test]
    fn a_zone_is_found_by_its_name_or_a_single_end() {
        let check = |text: &str, expected: Result<&str, &str>| match (
            topology().zone_named(text),
            expected,
        ) {
            (Ok(zone), Ok(expected)) => assert_eq!(zone.as_str(), expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
        check("us-east1-c", Ok("us-east1-c"));
        check("b", Ok("us-east1-b"));
        check("c", Err("may be us-east1-c or us-west1-c"));
        check("e", Err("known are us-east1-b, us-east1-c, us-west1-c"));
        check("east1-b", Err("known are"));
        check("", Err("known are"));
        let nothing = Topology::default().zone_named("b").unwrap_err();
        assert!(nothing.contains("settings.nodes is empty"), "{nothing}");
    }
}
