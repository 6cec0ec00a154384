//! Servers by the zones that the nodes stand in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{SERVERS_MAX, ZONES_MAX};
use crate::domain::answer::{Answer, State};
use crate::domain::name::{Name, ServerId};
use crate::domain::view::{Row, View};

/// How many answers one cell tells apart.
const ANSWERS_MAX: usize = 4;

/// What each server was told, by zone of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The zones that have a column; `None`: nodes that do not say theirs, or the rest of the zones.
    pub zones: Vec<Option<Name>>,
    /// The servers: first those that stand out, then the rest.
    pub servers: Vec<Server>,
    /// How many more there are, and of how many of them every row is ready.
    pub more: (usize, usize),
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub id: ServerId,
    /// Whether it is a canary server.
    pub canary: bool,
    /// What is asked for, where all nodes are asked the same.
    pub desired: Option<String>,
    /// One for each zone.
    pub cells: Vec<Cell>,
}

/// What the nodes of a zone were told about a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// Answers with the number of nodes, the most frequent first.
    pub answers: Vec<(Kind, String, usize)>,
    /// Nodes that have yet to be told, or to follow.
    pub waiting: usize,
    /// Nodes that do not poll.
    pub silent: usize,
}

/// What an answer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The server takes traffic.
    Ready,
    /// It finishes what it has.
    Drain,
    /// It is out of service.
    Maint,
    /// Only shown to `HAProxy`.
    Shadow,
    /// `HAProxy` keeps its state.
    Frozen,
    /// No poll was ever answered.
    Nothing,
}

impl Matrix {
    pub(super) fn new(view: &View) -> Self {
        let zones = zones(view);
        let mut servers = Vec::new();
        for rows in view.rows.chunk_by(|one, other| one.server == other.server) {
            servers.extend(Server::new(rows, &zones));
        }
        servers.sort_by_key(|server: &Server| (!server.stands_out(), server.is_plain()));
        let rest = servers.split_off(servers.len().min(SERVERS_MAX));
        let plain = rest.iter().filter(|server| server.is_plain()).count();
        Self {
            zones,
            servers,
            more: (rest.len(), plain),
        }
    }
}

impl Server {
    fn new(rows: &[Row], zones: &[Option<Name>]) -> Option<Self> {
        let first = rows.first()?;
        let asked: BTreeSet<_> = rows
            .iter()
            .filter_map(|row| row.desired.as_ref())
            .map(|desired| desired.answer.as_str())
            .collect();
        let desired = match asked.into_iter().collect::<Vec<_>>()[..] {
            [one] => Some(one.to_owned()),
            _ => None,
        };
        let column = |row: &Row| {
            let own = zones.iter().position(|zone| *zone == row.zone);
            own.unwrap_or(zones.len().saturating_sub(1))
        };
        let mut counted = vec![BTreeMap::new(); zones.len()];
        let mut cells = vec![Cell::default(); zones.len()];
        for row in rows {
            let at = column(row);
            let Some(served) = &row.served else { continue };
            *counted[at]
                .entry(told(served.answer.as_deref()))
                .or_insert(0) += 1;
            cells[at].silent += usize::from(served.silent);
            let waits = row.not_converged.is_some() && !served.silent;
            cells[at].waiting += usize::from(waits);
        }
        for (cell, counted) in cells.iter_mut().zip(counted) {
            let answers = counted.into_iter();
            cell.answers = answers.map(|((kind, text), n)| (kind, text, n)).collect();
            cell.answers.sort_by_key(|(_, _, count)| Reverse(*count));
            cell.answers.truncate(ANSWERS_MAX);
        }
        Some(Self {
            id: first.server.clone(),
            canary: first.canary,
            desired,
            cells,
        })
    }

    /// Whether a person looks for it: a canary server, or one that is not ready everywhere.
    #[must_use]
    pub fn stands_out(&self) -> bool {
        self.canary || !self.is_plain()
    }

    /// Whether it takes full traffic everywhere, and nobody waits for anything. A silent node is
    /// silent for all its servers: that is said of the node.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.cells.iter().all(|cell| {
            let plain = |(_, text, _): &(Kind, String, usize)| text == "ready 100%";
            cell.waiting == 0 && cell.answers.iter().all(plain)
        })
    }
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Drain => "drain",
            Self::Maint => "maint",
            Self::Shadow => "shadow",
            Self::Frozen => "frozen",
            Self::Nothing => "nothing",
        }
    }

    /// What these words of an answer do.
    #[must_use]
    pub fn of_words(words: &str) -> Self {
        match Answer::from_words(words) {
            Some(Answer::State(State::Ready(_))) => Self::Ready,
            Some(Answer::State(State::Drain)) => Self::Drain,
            Some(Answer::State(State::Maint)) => Self::Maint,
            Some(Answer::Shadow(_)) => Self::Shadow,
            Some(Answer::UnknownGroup | Answer::UnknownDirective | Answer::UnknownRequest) => {
                Self::Frozen
            }
            None => Self::Nothing,
        }
    }
}

fn told(answer: Option<&str>) -> (Kind, String) {
    match answer {
        Some(words) => (Kind::of_words(words), words.to_owned()),
        None => (Kind::Nothing, "never answered".to_owned()),
    }
}

/// The zones in their order; beyond the limit, and for nodes without one, a last column.
fn zones(view: &View) -> Vec<Option<Name>> {
    let all: BTreeSet<_> = view.rows.iter().map(|row| row.zone.as_ref()).collect();
    let unnamed = all.contains(&None);
    let named: Vec<_> = all.into_iter().flatten().cloned().map(Some).collect();
    let rest = unnamed || named.len() > ZONES_MAX;
    let mut zones: Vec<_> = named.into_iter().take(ZONES_MAX).collect();
    zones.extend(rest.then_some(None));
    zones
}
