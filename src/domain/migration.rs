//! Rows of nodes that are not enrolled yet: nobody tells them anything unless their own stats
//! socket is written to.
//!
//! Whether a row follows the KV is HAProxy's own word wherever its socket answers: a server with a
//! running agent check has its state from the agent again at the next poll, and one without never
//! hears of the KV. So a row is written in one of the two ways, never in both; what neither reaches
//! is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Percent, State};
use super::fleet::Merged;
use super::key::{CANARY, DirectiveKey, Scope, Target};
use super::name::{Name, ServerId};
use super::observed::Observation;
use super::request::Request;
use super::settings::Row;
use super::snapshot::Snapshot;
use super::topology::Topology;

/// The administrative state of a server that a stats socket sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Out of service.
    Maint,
    /// Finishes what it has.
    Drain,
    /// Takes traffic.
    Ready,
}

/// What a stats socket sets of a server. Ordered by how much traffic it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketState {
    /// Its state.
    pub state: Mode,
    /// Its weight, 0 to 256; not in percent, so that it can be put back as it was.
    pub weight: u16,
}

/// A server, as HAProxy's `show servers state` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerState {
    /// What it is now.
    pub now: SocketState,
    /// Its configured weight.
    pub initial: u16,
    /// Whether its agent check runs.
    pub agent: bool,
}

/// A row that is, or was, written by its socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketChange {
    /// The node.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// What it was.
    pub before: SocketState,
    /// What it is set to.
    pub after: SocketState,
}

impl SocketChange {
    /// The key that says the same of a row that follows the KV.
    #[must_use]
    pub fn key(&self) -> DirectiveKey {
        DirectiveKey {
            scope: Scope::Node(self.node.clone()),
            target: Target::Server(self.server.clone()),
        }
    }
}

/// The rows that do not follow the KV.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Old {
    rows: BTreeMap<(Name, ServerId), OldRow>,
    /// The nodes with a socket; the error of one that did not answer.
    nodes: BTreeMap<Name, Result<(), String>>,
    /// The rows that somebody else shows, such as Prometheus.
    shown: BTreeSet<(Name, ServerId)>,
    /// The rows that follow the KV by their polls; `None` when no replica shows them.
    polled: Option<BTreeSet<(Name, ServerId)>>,
}

/// A row that does not follow the KV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldRow {
    /// As its socket shows it.
    pub state: ServerState,
    /// Whether its socket decides; otherwise the answers of an agent that is not this service.
    pub by_socket: bool,
}

/// What a write is about.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The keys that the command names, whether they change or not: a row that was missed the last
    /// time is written when the command is repeated.
    pub keys: &'a [DirectiveKey],
    /// What an undone change has set: it is put back.
    pub undone: &'a [SocketChange],
    /// The snapshot with the write.
    pub after: &'a Snapshot,
    /// Where the rows stand, and of which groups they are.
    pub topology: &'a Topology,
    /// The moment.
    pub now: Timestamp,
    /// Whether sockets are written at all.
    pub writes: bool,
}

/// What is written to sockets, and what is not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In the order of nodes and servers.
    pub writes: Vec<Write>,
    /// What nothing is written to.
    pub left: Vec<Left>,
    /// Whether a row is to change again by itself later, which a socket cannot do.
    pub changes_later: bool,
}

/// One row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What, and what must be there before.
    pub change: SocketChange,
    /// The same as it looked: of a row in shadow mode the agent check runs.
    pub seen: ServerState,
}

/// A row that is not as it is wanted, and that nobody tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The node.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// Why.
    pub why: String,
}

/// Why a row is left that could be written.
pub const SWITCHED_OFF: &str =
    "left as it is: migration.environment does not name this environment";
const OTHER_AGENT: &str = "its agent check runs, and no replica knows its polls: it asks somebody else, or nobody answers";
const NO_WAY: &str = "it does not poll, and observe.stats names no socket of the node";

impl Old {
    /// The rows whose HAProxy does not follow the KV, by what the sockets and the polls say.
    #[must_use]
    pub fn new(
        seen: BTreeMap<Name, Result<BTreeMap<ServerId, ServerState>, String>>,
        fleet: Option<&Merged>,
    ) -> Self {
        let mut old = Self {
            polled: fleet.map(followers),
            ..Self::default()
        };
        for (node, states) in seen {
            let answered = states.map(|states| {
                for (server, state) in states {
                    if let Some(row) = old_row(&node, &server, state, fleet) {
                        old.rows.insert((node.clone(), server), row);
                    }
                }
            });
            old.nodes.insert(node, answered);
        }
        old
    }

    /// The same, with what HAProxy shows elsewhere: nodes without a socket are known by it.
    #[must_use]
    pub fn with_shown(mut self, seen: &Observation) -> Self {
        let rows = seen.nodes.iter().flat_map(|(name, node)| {
            let servers = node.servers.keys();
            servers.map(move |server| (name.clone(), server.clone()))
        });
        self.shown = rows.collect();
        self
    }

    /// The rows, by node and server.
    pub fn rows(&self) -> impl Iterator<Item = (&Name, &ServerId, &OldRow)> {
        let rows = self.rows.iter();
        rows.map(|((node, server), row)| (node, server, row))
    }

    /// A row; `None` when it follows the KV, or is not known.
    #[must_use]
    pub fn row(&self, node: &Name, server: &ServerId) -> Option<&OldRow> {
        self.rows.get(&(node.clone(), server.clone()))
    }

    /// What is written to sockets: each row that the command is about becomes what a poll of it
    /// would be told now.
    #[must_use]
    pub fn plan(&self, wanted: &Wanted<'_>) -> Plan {
        let mut plan = Plan::default();
        for (node, server, row) in self.rows() {
            let next = match wanted.undone(node, server) {
                Some(undone) => undone.put_back(row.state.now),
                None if wanted.covers(node, server) => {
                    let (next, later) = wanted.next(node, server, row.state);
                    plan.changes_later |= later && row.by_socket && wanted.writes;
                    next
                }
                None => Ok(None),
            };
            let left = |why: &str| Left {
                node: node.clone(),
                server: server.clone(),
                why: why.to_owned(),
            };
            match next {
                Ok(Some(after)) if !row.state.now.is_as(after) => {
                    if !row.by_socket {
                        plan.left.push(left(OTHER_AGENT));
                    } else if wanted.writes {
                        plan.writes.push(Write {
                            change: SocketChange {
                                node: node.clone(),
                                server: server.clone(),
                                before: row.state.now,
                                after,
                            },
                            seen: row.state,
                        });
                    } else {
                        plan.left.push(left(SWITCHED_OFF));
                    }
                }
                Ok(Some(_) | None) => {}
                Err(why) => plan.left.push(left(&why)),
            }
        }
        if wanted.writes {
            plan.left.extend(self.unseen(wanted));
        }
        plan
    }

    /// Rows of nodes of which nothing is known: neither polls nor a socket that answers.
    fn unseen(&self, wanted: &Wanted<'_>) -> Vec<Left> {
        let Some(polled) = &self.polled else {
            return Vec::new();
        };
        let known = wanted.topology.nodes().keys();
        let shown: BTreeSet<&Name> = self.shown.iter().map(|(node, _)| node).collect();
        let nodes = known.chain(self.nodes.keys()).chain(shown.iter().copied());
        let nodes: BTreeSet<&Name> = nodes.collect();
        let servers = wanted.topology.rows().keys();
        let undone = wanted.undone.iter().map(|change| &change.server);
        let servers: BTreeSet<&ServerId> = servers.chain(undone).collect();
        let mut left = Vec::new();
        for node in nodes {
            let why = match self.nodes.get(node) {
                Some(Ok(())) => continue,
                Some(Err(why)) => why,
                None => NO_WAY,
            };
            let facts = wanted.topology.nodes().get(node);
            for server in &servers {
                let row = (node.clone(), (*server).clone());
                let has = match facts {
                    Some(facts) => wanted.topology.placement(facts, server).is_some(),
                    None => !shown.contains(node) || self.shown.contains(&row),
                };
                let covered = has && wanted.covers(node, server);
                let about = covered || wanted.undone(node, server).is_some();
                if about && !polled.contains(&row) {
                    let (node, server) = row;
                    let why = why.to_owned();
                    left.push(Left { node, server, why });
                }
            }
        }
        left
    }
}

/// The rows that are told what to do by their polls, the silent ones too: they will be.
fn followers(fleet: &Merged) -> BTreeSet<(Name, ServerId)> {
    let rows = fleet.nodes.iter().flat_map(|(name, node)| {
        let of_node = node.rows.iter().filter(|(_, row)| !is_shadow(row));
        of_node.map(|(server, _)| (name.clone(), server.clone()))
    });
    rows.collect()
}

fn is_shadow(row: &super::fleet::Row) -> bool {
    let told = row.told.map(|told| told.answer);
    matches!(told, Some(Answer::Shadow(_)))
}

/// `None`: it follows the KV.
fn old_row(
    node: &Name,
    server: &ServerId,
    state: ServerState,
    fleet: Option<&Merged>,
) -> Option<OldRow> {
    let row = |by_socket| Some(OldRow { state, by_socket });
    if !state.agent {
        return row(true);
    }
    // Without any replica nobody can say whom it asks: it is taken to be ours, and not written to.
    let polls = fleet?
        .nodes
        .get(node)
        .and_then(|node| node.rows.get(server));
    match polls {
        Some(polls) if is_shadow(&polls) => row(true),
        Some(_) => None,
        None => row(false),
    }
}

impl<'a> Wanted<'a> {
    fn undone(&self, node: &Name, server: &ServerId) -> Option<&'a SocketChange> {
        let same = |change: &&SocketChange| change.node == *node && change.server == *server;
        self.undone.iter().find(same)
    }

    fn row(&self, server: &ServerId) -> Option<&'a Row> {
        self.topology.rows().get(server)
    }

    fn zone(&self, node: &Name) -> Option<&'a Name> {
        self.topology.nodes().get(node)?.zone.as_ref()
    }

    fn covers(&self, node: &Name, server: &ServerId) -> bool {
        let covers = |key: &DirectiveKey| {
            let here = match &key.scope {
                Scope::Fleet => true,
                Scope::Zone(zone) => self.zone(node) == Some(zone),
                Scope::Node(name) => name == node,
            };
            here && match &key.target {
                Target::Server(id) => id == server,
                Target::Group(group) => self.row(server).is_some_and(|r| r.is_of(group.as_str())),
            }
        };
        self.keys.iter().any(covers)
    }

    /// What a poll of this row would be told, and whether that changes by itself later.
    fn next(
        &self,
        node: &Name,
        server: &ServerId,
        state: ServerState,
    ) -> (Result<Option<SocketState>, String>, bool) {
        let groups = self.row(server).map_or(&[][..], |row| &row.groups);
        let groups = groups.iter().map(Name::as_str);
        let base = (state.initial > 0).then_some(state.initial);
        let request = Request::of(server, groups, self.zone(node).map(Name::as_str), base);
        let decision = self.after.decide(&request, node.as_str(), self.now);
        let next = state.told(decision.answer).map(Some).ok_or_else(|| {
            let words = decision.answer.words();
            format!("left as it is: a poll would be told {words}")
        });
        (next, decision.until.is_some())
    }
}

impl SocketChange {
    /// What puts it back; an error when somebody has changed it since.
    fn put_back(&self, now: SocketState) -> Result<Option<SocketState>, String> {
        if now.is_as(self.after) || now.is_as(self.before) {
            return Ok(Some(self.before));
        }
        Err(format!(
            "somebody has changed it since: it is {now}, and was set to {}",
            self.after
        ))
    }

    /// Whether it takes traffic away: such rows of a node are written first.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.after < self.before
    }
}

impl ServerState {
    /// What this row becomes at an answer; `None` where HAProxy would keep its state.
    fn told(self, answer: Answer) -> Option<SocketState> {
        let weight = self.now.weight;
        match answer {
            Answer::State(state) | Answer::Shadow(state) => Some(match state {
                State::Ready(percent) => SocketState {
                    state: Mode::Ready,
                    // As HAProxy counts a percentage.
                    weight: self.initial * u16::from(percent.get()) / 100,
                },
                State::Drain => SocketState {
                    state: Mode::Drain,
                    weight,
                },
                State::Maint => SocketState {
                    state: Mode::Maint,
                    weight,
                },
            }),
            Answer::UnknownGroup | Answer::UnknownDirective | Answer::UnknownRequest => None,
        }
    }

    /// What one of its states is in the words of an answer, for the rails.
    #[must_use]
    pub fn answer(self, state: SocketState) -> Answer {
        let percent = (u64::from(state.weight) * 100).div_ceil(u64::from(self.initial.max(1)));
        Answer::State(match state.state {
            Mode::Maint => State::Maint,
            Mode::Drain => State::Drain,
            // Weight 0 gets nothing new.
            Mode::Ready => Percent::new(percent.min(100)).map_or(State::Drain, State::Ready),
        })
    }
}

impl SocketState {
    /// Whether there is nothing to do: the weight of a server without traffic does not matter, and
    /// is written when it comes back.
    #[must_use]
    pub fn is_as(self, wanted: Self) -> bool {
        self.state == wanted.state && (self.weight == wanted.weight || self.state != Mode::Ready)
    }
}

impl Mode {
    /// As a stats socket takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Maint => "maint",
            Self::Drain => "drain",
            Self::Ready => "ready",
        }
    }
}

impl fmt::Display for SocketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state.as_str())?;
        match self.state {
            Mode::Ready => write!(f, " at weight {}", self.weight),
            Mode::Drain | Mode::Maint => Ok(()),
        }
    }
}

/// The groups of a server that no settings name: a canary one is known by its name.
#[must_use]
pub fn groups_by_name(server: &ServerId) -> Vec<Name> {
    let canary = super::view::is_canary(server, None);
    let name = canary.then(|| Name::parse(CANARY).expect("the canary's name is a name"));
    name.into_iter().collect()
}

#[cfg(test)]
mod tests;
