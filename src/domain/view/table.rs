//! The view for a person.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::row::{Desired, Row};
use super::{Split, View};
use crate::domain::columns::aligned;
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::Part;

/// How many names a line repeats.
const NAMES_SHOWN_MAX: usize = 8;
/// How much of a text that somebody wrote is shown, in characters.
const TEXT_CHARS_MAX: usize = 80;
const HEAD: [&str; 6] = ["NODES", "SERVER", "DESIRED", "SERVED", "HAPROXY", "WHY"];

/// A state of a server, and on how many nodes of a role it has it. A server with two of them has a
/// split state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ServerState<'a> {
    /// How many nodes.
    pub nodes: usize,
    /// What they are for; `None` when nobody says.
    pub role: Option<&'a Name>,
    /// The server.
    pub server: &'a ServerId,
    /// The state.
    pub state: &'a str,
}

impl View {
    /// How many nodes of a role have a server in a state: the lines of `get-server-state`.
    #[must_use]
    pub fn server_states(&self) -> Vec<ServerState<'_>> {
        let mut counts = BTreeMap::<_, usize>::new();
        for row in &self.rows {
            let key = (&row.server, row.role.as_ref(), &*row.state);
            *counts.entry(key).or_default() += 1;
        }
        let states = counts.into_iter();
        let states = states.map(|((server, role, state), nodes)| ServerState {
            nodes,
            role,
            server,
            state,
        });
        states.collect()
    }

    fn findings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let missing = self.missing.iter();
        lines.extend(missing.map(|m| format!("missing  {}: {}", m.what, m.why)));
        let problems = self.problems.iter();
        lines.extend(problems.map(|p| {
            let path = p.path.escape_debug();
            format!("problem  {path}: {}", plain(&p.text))
        }));
        for silent in &self.silent {
            let last = silent.last_poll.map(|last| ago(last, self.at));
            let last = last.unwrap_or_else(|| "never".to_owned());
            lines.push(format!("silent   {}, last poll {last}", silent.node));
        }
        lines.extend(self.splits.iter().map(|split| format!("split    {split}")));
        let nowhere = self.nowhere.iter();
        lines.extend(nowhere.map(|id| format!("nowhere  {id}: no node is known to have it")));
        let mut waiting = BTreeMap::<_, Vec<&str>>::new();
        for row in &self.rows {
            if let Some(why) = &row.not_converged {
                let nodes = waiting.entry((&row.server, why)).or_default();
                nodes.push(row.node.as_str());
            }
        }
        for ((server, why), nodes) in waiting {
            let nodes = names(nodes.into_iter());
            lines.push(format!("differs  {server} on {nodes}: {why}"));
        }
        lines
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index.map_or("?".to_owned(), |index| index.to_string());
        let (rows, nodes) = (self.rows.len(), self.nodes().count());
        let from = if self.observed_from.is_empty() {
            "nobody (give --prometheus or --stats)".to_owned()
        } else {
            names(self.observed_from.iter().map(String::as_str))
        };
        writeln!(
            f,
            "at {}, index {index}: {rows} rows on {nodes} nodes",
            self.at
        )?;
        writeln!(f, "HAProxy's own word: {from}")?;
        for finding in self.findings() {
            writeln!(f, "{finding}")?;
        }
        let mut lines = BTreeMap::<[String; 5], usize>::new();
        for row in &self.rows {
            *lines.entry(cells(row)).or_default() += 1;
        }
        let body = lines.into_iter().map(|(line, count)| {
            let [id, desired, served, observed, why] = line;
            [count.to_string(), id, desired, served, observed, why]
        });
        f.write_str(&aligned(HEAD, &body.collect::<Vec<_>>()))
    }
}

impl fmt::Display for ServerState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.map_or("-", Name::as_str);
        write!(f, "{} {role} {}: {}", self.nodes, self.server, self.state)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = self
            .states
            .iter()
            .map(|(state, nodes)| format!("{state} on {}", names(nodes.iter().map(Name::as_str))));
        write!(
            f,
            "{}: {}",
            self.server,
            sides.collect::<Vec<_>>().join("; ")
        )
    }
}

/// What rows are counted by.
pub(super) fn cells(row: &Row) -> [String; 5] {
    let none = || "-".to_owned();
    let desired = row.desired.as_ref();
    let served = row.served.as_ref().map(|served| {
        let answer = served.answer.as_deref().unwrap_or("nothing");
        if served.silent {
            format!("{answer}, silent")
        } else {
            answer.to_owned()
        }
    });
    let observed = row.observed.as_ref().map(|observed| {
        let status = match observed.status.as_str() {
            "" => observed.class.as_str(),
            status => status,
        };
        let weight = observed.weight.map(|weight| format!(" w{weight}"));
        let backup = match observed.part {
            Some(Part::Backup) => " backup",
            Some(Part::Active) | None => "",
        };
        format!("{}{}{backup}", plain(status), weight.unwrap_or_default())
    });
    [
        row.server.to_string(),
        desired.map_or_else(none, |desired| desired.answer.clone()),
        served.unwrap_or_else(none),
        observed.unwrap_or_else(none),
        desired.and_then(|desired| why(desired)).unwrap_or_default(),
    ]
}

/// Whose doing a row's desired state is: `canary-state is drain by alice since ...: reason`. `None`
/// when no key decides.
pub(super) fn why(desired: &Desired) -> Option<String> {
    let path = desired.path.as_deref()?;
    let mut text = format!("{path} is {}", desired.answer);
    if let Some(by) = &desired.by {
        text += &format!(" by {}", plain(by));
    }
    if let Some(since) = desired.since {
        text += &format!(" since {since}");
    }
    let reason = desired.reason.as_ref().or(desired.error.as_ref());
    if let Some(reason) = reason {
        text += &format!(": {}", plain(reason));
    }
    Some(text)
}

/// Names, the first few of them.
pub(super) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.len() <= NAMES_SHOWN_MAX {
        return names.join(", ");
    }
    let more = names.len() - NAMES_SHOWN_MAX;
    format!("{} and {more} more", names[..NAMES_SHOWN_MAX].join(", "))
}

/// How long ago a moment was.
#[must_use]
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(at, now))
}

/// How long it is from one moment to a later one: `41 s`, `3 min`.
#[must_use]
pub fn span(from: Timestamp, to: Timestamp) -> String {
    match to.duration_since(from).as_secs() {
        seconds @ ..=119 => format!("{} s", seconds.max(0)),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds @ 7_200..=172_799 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The time of day of a moment, with its date when that is another day than `now`.
#[must_use]
pub fn time_of_day(at: Timestamp, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%F").to_string();
    if day(at) == day(now) {
        at.strftime("%H:%M:%S UTC").to_string()
    } else {
        at.strftime("%F %H:%M UTC").to_string()
    }
}

/// What somebody wrote, in one line that moves no cursor.
pub(super) fn plain(text: &str) -> String {
    let mut characters = text.chars();
    let shown: String = characters.by_ref().take(TEXT_CHARS_MAX).collect();
    let shown = shown.replace(|c: char| c.is_control(), " ");
    if characters.next().is_some() {
        shown + "..."
    } else {
        shown
    }
}
