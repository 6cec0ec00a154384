//! What is told of a change to an index of events, or to a chat.
//!
//! One document for each change, bounded whatever was changed: whoever wants every byte looks at
//! the history.

use jiff::Timestamp;
use serde::Serialize;

use super::history::{Changed, Value};
use super::migration::SocketChange;
use super::rails::PlanRow;

mod text;

/// The version of the document.
const VERSION: u8 = 1;
/// The most keys, and the most rows, of one announcement; of more the number is.
pub const LISTED_MAX: usize = 100;
/// The longest value or text, in characters.
const TEXT_CHARS_MAX: usize = 2_048;

/// Who made a change, and why.
#[derive(Debug, Clone, Copy)]
pub struct Made<'a> {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: &'a str,
    /// Why.
    pub reason: Option<&'a str>,
    /// The environment.
    pub environment: &'a str,
    /// The command line.
    pub command: &'a str,
    /// The change's id in the history; `None` where none is kept of it.
    pub change: Option<&'a str>,
    /// W3C traceparent of the command.
    pub trace: Option<&'a str>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is written.
    Written,
    /// Its first parts are written, and the rest is not.
    Partly,
    /// The store did not say. Its last part may be written, and may still be later.
    Unknown,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Announcement {
    v: u8,
    /// `Canary set to drain`.
    text: String,
    outcome: Outcome,
    at: Timestamp,
    environment: String,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// The command that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    keys: Vec<KeyChange>,
    keys_left_out: usize,
    rows: Vec<RowChange>,
    rows_left_out: usize,
}

/// A key that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct KeyChange {
    path: String,
    /// `null`: nothing stood there.
    before: Option<String>,
    /// `null`: nothing stands there.
    after: Option<String>,
}

/// A row that changed, on nodes where it changed alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RowChange {
    server: String,
    /// `all 60 nodes`, `zone us-east1-b (20 nodes)`.
    nodes: String,
    /// In the words of an answer.
    before: String,
    after: String,
    /// Written to the stats sockets of nodes that do not follow the KV.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_socket: bool,
}

#[derive(Serialize)]
struct Chat {
    text: String,
}

/// The line of a change that writes stats sockets alone: what the keys say stood already. `None`
/// where the keys say it.
#[must_use]
pub fn by_sockets(changed: &[Changed], sockets: &[SocketChange]) -> Option<String> {
    changed.is_empty().then(|| text::by_sockets(sockets))
}

impl Announcement {
    /// What is told of these keys and rows. `text` says it in one line where the keys alone do not.
    #[must_use]
    pub fn new(
        made: &Made<'_>,
        changed: &[Changed],
        rows: &[PlanRow],
        text: Option<String>,
    ) -> Self {
        let text = text.unwrap_or_else(|| text::of(changed));
        let text = match made.outcome {
            Outcome::Written => text,
            Outcome::Partly => format!("{text} (the rest of the change was not written)"),
            Outcome::Unknown => format!("Not known whether written: {text}"),
        };
        let undo = made.change.filter(|_| made.outcome != Outcome::Unknown);
        let undo = undo.map(|id| format!("tidegate undo {id} --env {}", made.environment));
        Self {
            v: VERSION,
            text: short(&text),
            outcome: made.outcome,
            at: made.at,
            environment: made.environment.to_owned(),
            by: short(made.by),
            reason: made.reason.map(short),
            command: short(made.command),
            change: made.change.map(str::to_owned),
            trace: made.trace.map(str::to_owned),
            undo,
            keys: changed.iter().take(LISTED_MAX).map(key).collect(),
            keys_left_out: changed.len().saturating_sub(LISTED_MAX),
            rows: rows.iter().take(LISTED_MAX).map(row).collect(),
            rows_left_out: rows.len().saturating_sub(LISTED_MAX),
        }
    }

    /// The whole document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }

    /// `{"text": ...}`, one line. The three characters that the markup of chats begins with are
    /// escaped: a reason shall not call everybody.
    #[must_use]
    pub fn to_chat(&self) -> String {
        let mut text = format!("{}: {}, by {}", self.environment, self.text, self.by);
        if let Some(reason) = &self.reason {
            text += &format!(": {reason}");
        }
        if let Some(undo) = &self.undo {
            text += &format!(" (to take it back: {undo})");
        }
        let text = text.replace('&', "&amp;");
        let text = text.replace('<', "&lt;").replace('>', "&gt;");
        serde_json::to_string(&Chat { text }).expect("a string always serialises")
    }
}

fn key(changed: &Changed) -> KeyChange {
    let value = |value: &Option<Value>| value.as_ref().map(|value| short(&value.shown()));
    KeyChange {
        path: changed.path.clone(),
        before: value(&changed.before),
        after: value(&changed.after),
    }
}

fn row(row: &PlanRow) -> RowChange {
    RowChange {
        server: row.server.to_string(),
        nodes: row.scope.clone(),
        before: row.now.words(),
        after: row.next.words(),
        by_socket: row.by_socket,
    }
}

/// One line of bounded length.
fn short(text: &str) -> String {
    let mut characters = text.chars();
    let shown: String = characters.by_ref().take(TEXT_CHARS_MAX).collect();
    let shown = shown.replace(char::is_control, " ");
    if characters.next().is_some() {
        shown + "..."
    } else {
        shown
    }
}

#[cfg(test)]
mod tests;
