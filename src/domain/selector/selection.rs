//! What a selector selects among the known rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use thiserror::Error;

use super::{CandidateNode, Matcher, Selector, Tag};
use crate::domain::key::{DirectiveKey, Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::Row;
use crate::domain::topology::{Node, Topology, known};

/// The selected rows; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// In the order of their names.
    pub rows: Vec<SelectedRow>,
    /// How many of what.
    pub counts: Counts,
}

/// A selected server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedRow {
    /// The server.
    pub server: ServerId,
    /// The selected LB nodes that have it; empty where no nodes are known.
    pub nodes: Vec<Name>,
    /// Where its directive is written. All its nodes: one key for the fleet. Some zones: one for
    /// each. Anything else: one for each node.
    pub scopes: Vec<Scope>,
}

/// How many rows are selected. A row is a server on one LB node here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Servers.
    pub servers: usize,
    /// LB nodes.
    pub nodes: usize,
    /// Servers of each backend.
    pub backends: BTreeMap<String, usize>,
    /// Servers of each group.
    pub groups: BTreeMap<Name, usize>,
    /// Rows on the LB nodes of each zone.
    pub zones: BTreeMap<Name, usize>,
}

/// Why nothing is selected. Nothing may be written then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// No row is known at all.
    #[error("no row is known: settings.rows names none, and no node polls")]
    NothingKnown,
    /// No server fits.
    #[error(
        "no server matches {selector:?}; known are {servers} servers of the backends {backends}"
    )]
    NoServer {
        /// What was asked for.
        selector: String,
        /// How many there are.
        servers: usize,
        /// Their backends.
        backends: String,
    },
    /// No LB node fits that has one of the servers.
    #[error("no LB node that has one of the servers matches {selector:?}; zones: {zones}")]
    NoNode {
        /// What was asked for.
        selector: String,
        /// The zones of the nodes.
        zones: String,
    },
    /// The last part of a zone's name that several have.
    #[error("zone={pattern} may be {one} or {other}: write the whole name")]
    ZoneOfSeveral {
        /// What was asked for.
        pattern: String,
        /// One of them.
        one: Name,
        /// Another.
        other: Name,
    },
}

impl SelectionError {
    /// None of these servers is selected.
    pub(in crate::domain) fn no_server<'a>(
        selector: &Selector,
        known: impl ExactSizeIterator<Item = &'a ServerId>,
    ) -> Self {
        let servers = known.len();
        if servers == 0 {
            return Self::NothingKnown;
        }
        let backends: BTreeSet<_> = known.map(|id| id.parts().0).collect();
        let backends: Vec<_> = backends.into_iter().collect();
        Self::NoServer {
            selector: selector.to_string(),
            servers,
            backends: backends.join(", "),
        }
    }

    /// Servers are, and no node that has them.
    pub(in crate::domain) fn no_node(selector: &Selector, zones: &BTreeSet<&Name>) -> Self {
        // Why there is none differs: what is looked at may be the settings, or who polls.
        let zones = if zones.is_empty() {
            "none is known, since no node is".to_owned()
        } else {
            known(zones)
        };
        Self::NoNode {
            selector: selector.to_string(),
            zones,
        }
    }
}

impl Selection {
    /// Looks for the rows that a selector selects.
    ///
    /// # Errors
    /// See [`SelectionError`]: an empty match is one, and never means everything.
    pub fn new(selector: &Selector, topology: &Topology) -> Result<Self, SelectionError> {
        if topology.rows().is_empty() {
            return Err(SelectionError::NothingKnown);
        }
        let (rows, zones) = (topology.rows(), topology.zones());
        let matcher = Matcher::new(selector, &zones, |word| rows.contains_key(word))?;
        let nodes = selector.is_about_nodes().then(|| {
            let nodes = topology.nodes().iter();
            let fitting = nodes.filter(|(name, node)| {
                matcher.matches_node(&CandidateNode {
                    name,
                    zone: node.zone.as_ref(),
                    role: node.role.as_ref(),
                })
            });
            fitting.map(|(name, _)| name).collect()
        });
        let fits = |(id, row): &(&ServerId, &Row)| matcher.matches_server(id, &row.groups);
        let servers: Vec<_> = rows.iter().filter(fits).map(|(id, _)| id).collect();
        if servers.is_empty() {
            return Err(SelectionError::no_server(selector, topology.rows().keys()));
        }
        let search = Search {
            selector,
            topology,
            nodes,
        };
        let rows: Vec<_> = servers
            .into_iter()
            .filter_map(|id| search.row(id))
            .collect();
        if rows.is_empty() {
            return Err(SelectionError::no_node(selector, &zones));
        }
        let counts = Counts::of(&rows, topology);
        Ok(Self { rows, counts })
    }

    /// The keys of the directives to write, each once.
    #[must_use]
    pub fn keys(&self) -> Vec<DirectiveKey> {
        let of = |row: &SelectedRow| {
            let target = Target::Server(row.server.clone());
            let key = move |scope: &Scope| DirectiveKey {
                scope: scope.clone(),
                target: target.clone(),
            };
            row.scopes.iter().map(key).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of).collect()
    }
}

impl Counts {
    fn of(rows: &[SelectedRow], topology: &Topology) -> Self {
        let mut counts = Self {
            servers: rows.len(),
            ..Self::default()
        };
        let mut nodes = BTreeSet::new();
        for row in rows {
            let (backend, _) = row.server.parts();
            *counts.backends.entry(backend.to_owned()).or_default() += 1;
            for group in topology
                .rows()
                .get(&row.server)
                .iter()
                .flat_map(|r| &r.groups)
            {
                *counts.groups.entry(group.clone()).or_default() += 1;
            }
            for name in &row.nodes {
                nodes.insert(name);
                if let Some(zone) = topology.nodes().get(name).and_then(|n| n.zone.clone()) {
                    *counts.zones.entry(zone).or_default() += 1;
                }
            }
        }
        counts.nodes = nodes.len();
        counts
    }
}

/// The line under the list: `4 servers on 20 nodes; backends: api 2, web 2; groups: canary 1; zones
/// of the nodes: us-east1-b 80`.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<K: fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
            let each: Vec<_> = counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
            each.join(", ")
        }
        write!(f, "{}", counted(self.servers, "server"))?;
        if self.nodes > 0 {
            write!(f, " on {}", counted(self.nodes, "node"))?;
        }
        write!(f, "; backends: {}", list(&self.backends))?;
        if !self.groups.is_empty() {
            write!(f, "; groups: {}", list(&self.groups))?;
        }
        if !self.zones.is_empty() {
            write!(f, "; zones of the nodes: {}", list(&self.zones))?;
        }
        Ok(())
    }
}

struct Search<'a> {
    selector: &'a Selector,
    topology: &'a Topology,
    /// Those that fit; `None`: the selector says nothing about nodes.
    nodes: Option<BTreeSet<&'a Name>>,
}

impl Search<'_> {
    fn row(&self, server: &ServerId) -> Option<SelectedRow> {
        let all = self.topology.nodes().iter();
        let having: Vec<(&Name, &Node)> = all
            .filter(|(_, node)| self.topology.placement(node, server).is_some())
            .collect();
        let Some(fitting) = &self.nodes else {
            return Some(SelectedRow {
                server: server.clone(),
                nodes: having.into_iter().map(|(name, _)| name.clone()).collect(),
                scopes: vec![Scope::Fleet],
            });
        };
        let is_fitting = |(name, _): &&(&Name, &Node)| fitting.contains(name);
        let chosen: Vec<_> = having.iter().filter(is_fitting).collect();
        if chosen.is_empty() {
            return None;
        }
        let uses = |tag: Tag| self.selector.terms.iter().any(|term| term.tag == tag);
        let scopes = if uses(Tag::Node) || (uses(Tag::Zone) && uses(Tag::Role)) {
            nodes_of(&chosen)
        } else if uses(Tag::Zone) {
            let zones: BTreeSet<_> = chosen.iter().filter_map(|(_, n)| n.zone.clone()).collect();
            zones.into_iter().map(Scope::Zone).collect()
        } else if chosen.len() == having.len() {
            vec![Scope::Fleet]
        } else {
            nodes_of(&chosen)
        };
        Some(SelectedRow {
            server: server.clone(),
            nodes: chosen.iter().map(|(name, _)| (*name).clone()).collect(),
            scopes,
        })
    }
}

fn nodes_of(chosen: &[&(&Name, &Node)]) -> Vec<Scope> {
    let scope = |(name, _): &&(&Name, &Node)| Scope::Node((*name).clone());
    chosen.iter().map(scope).collect()
}

/// `1 server`, `2 servers`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
