//! One view of the fleet: what is desired, what was served, and what `HAProxy` has.
//!
//! Each of the three may be missing, and is named then: a row never shows one of them in the place
//! of another. Tables, JSON, the block for chat, the precheck and the gate are made from this one
//! value.

pub use self::changes::changes;
pub use self::chatops::chatops;
pub use self::compare::{Compare, Verdict};
pub use self::differences::Differences;
pub use self::gate::Gate;
pub use self::precheck::{Precheck, Stage};
pub use self::row::{Desired, Groups, Row, Served, UNKNOWN};
pub use self::table::{ServerState, ago, span, time_of_day};

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::fleet::{Judge, Merged};
use super::key::CANARY;
use super::name::{Name, ServerId};
use super::observed::{Missing, Observation};
use super::selector::{CandidateNode, Matcher, SelectionError, Selector};
use super::settings::Settings;
use super::snapshot::Snapshot;

/// What the name of every canary server holds.
const CANARY_MARK: &str = "-cny-";

/// What a view is made of.
#[derive(Clone)]
pub struct Parts<'a> {
    /// The listing of the store, compiled; `None` when it could not be read.
    pub snapshot: Option<&'a Snapshot>,
    /// What the replicas were asked; `None` when none of them told.
    pub fleet: Option<&'a Merged>,
    /// What `HAProxy` says.
    pub observation: Observation,
    /// What else could not be had.
    pub missing: Vec<Missing>,
    /// The moment.
    pub now: Timestamp,
}

/// The fleet at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// The moment.
    pub at: Timestamp,
    /// The store's index of the listing.
    pub index: Option<u64>,
    /// Whom `HAProxy`'s own word comes from; empty: nobody was asked.
    pub observed_from: Vec<String>,
    /// What could not be had.
    pub missing: Vec<Missing>,
    /// Sources of `HAProxy`'s word that did not give it; they are in `missing` too.
    #[serde(skip)]
    pub unseen: usize,
    /// What is wrong with keys of the store.
    pub problems: Vec<Problem>,
    /// Nodes of which no row polls.
    pub silent: Vec<Silent>,
    /// Servers that have two states, by node.
    pub splits: Vec<Split>,
    /// Known servers that no node has.
    pub nowhere: Vec<ServerId>,
    /// The groups of every server, as far as they are known: what selectors look at.
    #[serde(skip)]
    pub groups: BTreeMap<ServerId, Vec<Name>>,
    /// Backends as `HAProxy` has them.
    pub backends: Vec<Backend>,
    /// One server of one node each, by server.
    pub rows: Vec<Row>,
}

/// Something wrong with a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What kind.
    pub kind: &'static str,
    /// The path below the prefix.
    pub path: String,
    /// What is wrong.
    pub text: String,
}

/// A node that does not poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Silent {
    /// The node.
    pub node: Name,
    /// When it polled last.
    pub last_poll: Option<Timestamp>,
}

/// A server with two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Split {
    /// The server.
    pub server: ServerId,
    /// The nodes by the state that it has there.
    pub states: BTreeMap<String, Vec<Name>>,
}

/// One backend of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// The node.
    pub node: Name,
    /// Its name.
    pub backend: Name,
    /// Whether it is a canary one: called `canary_...`, or all its servers are canary ones.
    pub canary: bool,
    /// Whether a server of it can serve.
    pub up: bool,
    /// As of when.
    pub at: Timestamp,
}

impl View {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts<'_>) -> Self {
        let fleet_nodes = parts.fleet.into_iter().flat_map(|fleet| fleet.nodes.keys());
        let observation = parts.observation.clone().with_names_of(fleet_nodes);
        let joiner = row::Joiner::new(&parts, &observation);
        let rows = joiner.rows();
        let backends = backends(&observation, &rows);
        let settings = parts.snapshot.map(|snapshot| &snapshot.settings);
        let listed = settings
            .into_iter()
            .flat_map(|settings| settings.rows.keys());
        let known: BTreeSet<_> = rows.iter().map(|row| &row.server).collect();
        let all = known.iter().copied().chain(listed.clone());
        let groups = all.map(|id| (id.clone(), groups(id, settings))).collect();
        let nowhere = listed.filter(|id| !known.contains(id)).cloned().collect();
        let silent = silent(parts.fleet, parts.now);
        let gone = gone(&observation, &silent);
        let unseen = observation.missing.len() + gone.len();
        let mut missing = parts.missing;
        missing.extend(observation.missing.into_iter().chain(gone));
        Self {
            at: parts.now,
            index: parts.snapshot.map(|snapshot| snapshot.index),
            observed_from: observation.sources,
            missing,
            unseen,
            problems: problems(parts.snapshot, parts.now),
            silent,
            splits: splits(&rows),
            nowhere,
            groups,
            backends,
            rows,
        }
    }

    /// Keeps to the rows that a selector selects; what is not about rows stays.
    ///
    /// # Errors
    /// See [`SelectionError`]. No row is left when none is selected.
    pub fn select(&mut self, selector: &Selector) -> Result<(), SelectionError> {
        let zones: BTreeSet<_> = self.rows.iter().filter_map(|r| r.zone.clone()).collect();
        let zones: BTreeSet<_> = zones.iter().collect();
        let is_known = |word: &str| self.groups.contains_key(word);
        let matcher = Matcher::new(selector, &zones, is_known)?;
        let fits = |id: &ServerId| {
            let groups = self.groups.get(id).map_or(&[][..], Vec::as_slice);
            matcher.matches_server(id, groups)
        };
        let servers = self.groups.keys().filter(|id| fits(id)).count();
        self.rows.retain(|row| {
            let node = CandidateNode {
                name: &row.node,
                zone: row.zone.as_ref(),
                role: row.role.as_ref(),
            };
            fits(&row.server) && matcher.matches_node(&node)
        });
        // Where they are is not known.
        self.nowhere
            .retain(|id| !selector.is_about_nodes() && fits(id));
        self.splits = splits(&self.rows);
        if !self.rows.is_empty() {
            return Ok(());
        }
        Err(if servers == 0 {
            SelectionError::no_server(selector, self.groups.keys())
        } else {
            SelectionError::no_node(selector, &zones)
        })
    }

    /// The nodes of its rows.
    pub fn nodes(&self) -> impl Iterator<Item = &Name> {
        let nodes: BTreeSet<_> = self.rows.iter().map(|row| &row.node).collect();
        nodes.into_iter()
    }
}

/// Whether a server is a canary one: by its name, or by its groups where the settings say them.
#[must_use]
pub fn is_canary(id: &ServerId, settings: Option<&Settings>) -> bool {
    let row = settings.and_then(|settings| settings.rows.get(id));
    id.server().contains(CANARY_MARK) || row.is_some_and(|row| row.is_of(CANARY))
}

/// As the settings say them; otherwise a server that is a canary one by its name is of the canary.
fn groups(id: &ServerId, settings: Option<&Settings>) -> Vec<Name> {
    if let Some(row) = settings.and_then(|settings| settings.rows.get(id)) {
        return row.groups.clone();
    }
    let canary = || Name::parse(CANARY).expect("the canary's name is a name");
    is_canary(id, None).then(canary).into_iter().collect()
}

fn problems(snapshot: Option<&Snapshot>, now: Timestamp) -> Vec<Problem> {
    let problems = snapshot.map(|snapshot| snapshot.problems_at(now));
    let problem = |problem: super::snapshot::Problem| Problem {
        kind: problem.kind.as_str(),
        path: problem.path,
        text: problem.text,
    };
    problems
        .unwrap_or_default()
        .into_iter()
        .map(problem)
        .collect()
}

fn silent(fleet: Option<&Merged>, now: Timestamp) -> Vec<Silent> {
    let Some(fleet) = fleet else {
        return Vec::new();
    };
    let judge: Judge = fleet.judge(now);
    let silent = fleet.nodes.iter();
    let silent = silent.filter(|(_, node)| judge.silent_node(node));
    let shown = silent.map(|(name, node)| Silent {
        node: name.clone(),
        last_poll: node.polled().map(|(_, last)| last),
    });
    shown.collect()
}

/// Nodes that nobody sees any more. One that polls no longer either is down, and shown as silent; of
/// any other its `HAProxy` may go on unseen.
fn gone(observation: &Observation, silent: &[Silent]) -> Vec<Missing> {
    let is_silent = |name: &Name| silent.iter().any(|silent| silent.node == *name);
    let gone = observation.gone.iter();
    let gone = gone.filter(|name| !observation.nodes.contains_key(*name) && !is_silent(name));
    let missing = gone.map(|name| Missing {
        what: format!("node {name}"),
        why: "was seen a short while ago, and is not now".to_owned(),
    });
    missing.collect()
}

fn splits(rows: &[Row]) -> Vec<Split> {
    let by_server = rows.chunk_by(|one, other| one.server == other.server);
    let split = by_server.filter_map(|rows| {
        let mut states = BTreeMap::<_, Vec<_>>::new();
        for row in rows.iter().filter(|row| row.state != UNKNOWN) {
            let nodes = states.entry(row.state.to_string()).or_default();
            nodes.push(row.node.clone());
        }
        let server = rows.first()?.server.clone();
        (states.len() > 1).then_some(Split { server, states })
    });
    split.collect()
}

fn backends(observation: &Observation, rows: &[Row]) -> Vec<Backend> {
    let mut canary = BTreeMap::new();
    for row in rows {
        let all = canary.entry(row.server.backend()).or_insert(true);
        *all &= row.canary;
    }
    let is_canary = |name: &Name| {
        let all = canary.get(name.as_str()).copied();
        name.as_str().starts_with(CANARY_BACKEND) || all.unwrap_or(false)
    };
    let mut shown = Vec::new();
    for (node, seen) in &observation.nodes {
        shown.extend(seen.backends.iter().map(|(backend, state)| Backend {
            node: node.clone(),
            backend: backend.clone(),
            canary: is_canary(backend),
            up: state.up,
            at: state.at,
        }));
    }
    shown
}

/// How the names of backends begin that are the canary's own.
const CANARY_BACKEND: &str = "canary_";

mod changes;
mod chatops;
mod compare;
mod differences;
mod gate;
mod precheck;
mod row;
mod table;
#[cfg(test)]
mod tests;
