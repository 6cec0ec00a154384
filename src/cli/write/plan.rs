//! The plan of a write, for people.

use std::fmt::Write as _;

use crate::domain::change::Edit;
use crate::domain::columns::aligned;
use crate::domain::key::Prefix;
use crate::domain::rails::{Capacity, Override, PlanRow, Refusal, Verdict};
use crate::domain::topology::Topology;

/// The most lines of one kind; of more the number is.
const LINES_MAX: usize = 40;

/// The keys as they will stand.
pub(super) fn keys(prefix: &Prefix, edits: &[Edit]) -> String {
    let line = |edit: &Edit| {
        let value = edit
            .after
            .as_ref()
            .map(|value| String::from_utf8_lossy(value));
        let value = value.map_or_else(|| "(deleted)".to_owned(), std::borrow::Cow::into_owned);
        format!("{} = {value}\n", prefix.key(&edit.path))
    };
    limited(edits.iter().map(line))
}

/// The rows that change, and what is left of their backends.
pub(super) fn table(verdict: &Verdict, topology: &Topology) -> String {
    let mut text = String::new();
    if !verdict.rows.is_empty() {
        let rows: Vec<_> = verdict.rows.iter().map(row).collect();
        text += &shown(["ROW", "WHERE", "NOW", "NEXT"], &rows);
        let _ = writeln!(text, "(of the fleet as known from {topology})");
    }
    if !verdict.capacities.is_empty() {
        let capacities: Vec<_> = verdict.capacities.iter().map(capacity).collect();
        text += &shown(
            ["BACKEND", "NODES OF ZONE", "CAN SERVE NOW", "AT LEAST"],
            &capacities,
        );
    }
    for refusal in &verdict.overridden {
        let _ = writeln!(
            text,
            "overridden ({}): {}",
            refusal.rail.as_str(),
            refusal.text
        );
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "note: {warning}");
    }
    text
}

/// Why nothing is written, and what would override it.
pub(super) fn refusals(refusals: &[Refusal]) -> String {
    let line = |refusal: &Refusal| {
        let rows: Vec<_> = refusal
            .rows
            .iter()
            .take(10)
            .map(ToString::to_string)
            .collect();
        let rows = match (
            rows.is_empty(),
            refusal.rows.len().saturating_sub(rows.len()),
        ) {
            (true, _) => String::new(),
            (false, 0) => format!(" [{}]", rows.join(", ")),
            (false, more) => format!(" [{} and {more} more]", rows.join(", ")),
        };
        let how = match &refusal.overridden_by {
            Some(Override::Flag(flag)) => format!("\n  {} overrides it", flag.as_str()),
            // The text says the sentence.
            Some(Override::Sentence(_)) | None => String::new(),
        };
        format!("{}: {}{rows}{how}\n", refusal.rail.as_str(), refusal.text)
    };
    let lines: String = refusals.iter().map(line).collect();
    format!("{lines}nothing was written")
}

fn row(row: &PlanRow) -> [String; 4] {
    let mut next = row.next.words();
    if let Some((at, then)) = &row.then {
        let _ = write!(next, ", {} from {at:.0}", then.words());
    }
    let by = if row.by_socket {
        ", by stats socket"
    } else {
        ""
    };
    [
        row.server.to_string(),
        format!("{}{by}", row.scope),
        row.now.words(),
        next,
    ]
}

fn capacity(capacity: &Capacity) -> [String; 4] {
    let Capacity {
        backend,
        zone,
        now,
        next,
        at: _,
        of,
        floor,
    } = capacity;
    let zone = zone
        .as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string);
    let next = format!("{next} (floor {floor})");
    [backend.to_string(), zone, format!("{now} of {of}"), next]
}

/// The table with its head, and as many lines as are shown.
pub(in crate::cli) fn shown<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let table = aligned(head, rows);
    let (head, body) = table.split_at(table.find('\n').map_or(0, |end| end + 1));
    let lines: Vec<_> = body.lines().map(|line| format!("{line}\n")).collect();
    head.to_owned() + &limited(lines.into_iter())
}

pub(super) fn limited(lines: impl ExactSizeIterator<Item = String>) -> String {
    let left_out = lines.len().saturating_sub(LINES_MAX);
    let mut text: String = lines.take(LINES_MAX).collect();
    if left_out > 0 {
        let _ = writeln!(text, "... and {left_out} more");
    }
    text
}
