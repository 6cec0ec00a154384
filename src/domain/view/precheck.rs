//! May a deploy go on? By `HAProxy`'s own word, row by row.
//!
//! | what a row has | |
//! |---|---|
//! | up (`UP`, `UP 1/2`, `no check`, nothing), `MAINT` | passes |
//! | `DRAIN`: traffic is being moved | blocks |
//! | `DOWN`, anything else | blocks |
//! | a word that is too old, or none although its node polls | blocks |
//! | no word of a node that polls no longer | passes, and is named |
//!
//! Canary rows are looked at in the stage `cny` only; that stage looks at all rows. A weight of 0
//! does not block, and is named: HAProxy calls such a server `UP`, and gives it no traffic.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::View;
use super::row::Row;
use super::table::{ago, names, why};
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{Class, Exactness, Observed};

/// What is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The main stage: canary rows are not looked at.
    Main,
    /// The canary stage: all rows are.
    Cny,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Precheck {
    /// Whether nothing blocks.
    pub passes: bool,
    /// The stage.
    pub stage: Stage,
    /// How many rows were to be looked at.
    pub rows: usize,
    /// Of how many `HAProxy`'s word is known.
    pub known: usize,
    /// What blocks as a whole.
    pub reasons: Vec<String>,
    /// The rows that block.
    pub blocking: Vec<Found>,
    /// The rows that do not block, and are worth a word.
    pub notes: Vec<Found>,
}

/// A row, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The node.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// What it has, or what is not known.
    pub what: String,
    /// Whose doing that is: key, state, author, since, reason.
    pub why: Option<String>,
}

/// What one row is to a deploy.
enum Outcome {
    Passes,
    Note(String),
    Blocks(String),
}

impl Precheck {
    /// Looks at a view.
    #[must_use]
    pub fn new(view: &View, stage: Stage, max_age: Duration) -> Self {
        let looked_at = |row: &&Row| stage == Stage::Cny || !row.canary;
        let rows: Vec<_> = view.rows.iter().filter(looked_at).collect();
        let known = rows.iter().filter(|row| row.observed.is_some()).count();
        let mut found = Self {
            passes: false,
            stage,
            rows: rows.len(),
            known,
            reasons: reasons(view, known, rows.len()),
            blocking: Vec::new(),
            notes: Vec::new(),
        };
        for row in rows {
            let list = match outcome(row, view.at, max_age) {
                Outcome::Passes => continue,
                Outcome::Note(what) => (&mut found.notes, what),
                Outcome::Blocks(what) => (&mut found.blocking, what),
            };
            list.0.push(Found {
                node: row.node.clone(),
                server: row.server.clone(),
                what: list.1,
                why: row.desired.as_deref().and_then(why),
            });
        }
        found.passes = found.reasons.is_empty() && found.blocking.is_empty();
        found
    }
}

fn reasons(view: &View, known: usize, rows: usize) -> Vec<String> {
    let mut reasons = Vec::new();
    if view.observed_from.is_empty() {
        let text = "nobody was asked what HAProxy has: give --prometheus or --stats";
        reasons.push(text.to_owned());
    }
    if known == 0 {
        reasons.push(format!("0 of {rows} rows are known"));
    }
    if view.unseen > 0 {
        let missing = &view.missing[view.missing.len() - view.unseen..];
        let text = |missing: &super::Missing| format!("{}: {}", missing.what, missing.why);
        reasons.extend(missing.iter().map(text));
    }
    if !view.nowhere.is_empty() {
        let servers = names(view.nowhere.iter().map(ServerId::as_str));
        reasons.push(format!("no node is known to have {servers}"));
    }
    reasons
}

fn outcome(row: &Row, now: Timestamp, max_age: Duration) -> Outcome {
    let Some(observed) = &row.observed else {
        return unseen(row, now);
    };
    let age = Duration::try_from(now.duration_since(observed.at)).unwrap_or(Duration::ZERO);
    if age > max_age {
        let (status, age) = (&observed.status, ago(observed.at, now));
        return Outcome::Blocks(format!("was {status} {age}, which is too old to know"));
    }
    if observed.exactness == Exactness::UpOrNot {
        return inexact(row, observed);
    }
    let status = shown(observed);
    match observed.class {
        Class::Drain | Class::Down | Class::Other => Outcome::Blocks(format!("is {status}")),
        Class::Up | Class::NoCheck | Class::Blank if observed.weight == Some(0) => {
            Outcome::Note(format!("is {status} at weight 0: it gets no traffic"))
        }
        Class::Up | Class::NoCheck | Class::Blank | Class::Maint => Outcome::Passes,
    }
}

/// Nobody has seen it.
fn unseen(row: &Row, now: Timestamp) -> Outcome {
    match &row.served {
        Some(served) if served.silent => {
            let last = ago(served.last_poll, now);
            Outcome::Note(format!("is not known; its node last polled {last}"))
        }
        Some(_) | None => Outcome::Blocks("is not known".to_owned()),
    }
}

/// Of 1 it is not known whether it drains, of 0 whether it is in maintenance: what is desired must
/// say that it does not drain.
fn inexact(row: &Row, observed: &Observed) -> Outcome {
    let desired = row.desired.as_ref().map(|desired| desired.answer.as_str());
    let ready = desired.is_some_and(|answer| answer.starts_with("ready "));
    let series = "there is no haproxy_server_status of it";
    if !observed.class.is_up() {
        return Outcome::Blocks(format!("is down or in maintenance: {series}"));
    }
    if ready {
        return Outcome::Passes;
    }
    Outcome::Blocks(format!("may be draining: {series}"))
}

fn shown(observed: &Observed) -> &str {
    if observed.class == Class::Blank {
        observed.class.as_str()
    } else {
        &observed.status
    }
}

impl fmt::Display for Precheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, list) in [("note    ", &self.notes), ("blocks  ", &self.blocking)] {
            // A server that is the same on many nodes is one line.
            let mut lines = BTreeMap::<_, Vec<&str>>::new();
            for found in list {
                let nodes = lines.entry((&found.server, &found.what, &found.why));
                nodes.or_default().push(found.node.as_str());
            }
            for ((server, what, why), nodes) in lines {
                write!(f, "{word}{server} {what}, on {}", names(nodes.into_iter()))?;
                match why {
                    Some(why) => writeln!(f, "; {why}")?,
                    None => writeln!(f)?,
                }
            }
        }
        for reason in &self.reasons {
            writeln!(f, "blocks  {reason}")?;
        }
        let (stage, known, rows) = (self.stage.as_str(), self.known, self.rows);
        let verdict = if self.passes { "passes" } else { "blocked" };
        writeln!(f, "{verdict}: stage {stage}, {known} of {rows} rows known")
    }
}

impl Stage {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Cny => "cny",
        }
    }
}
