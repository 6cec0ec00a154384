//! Waiting until the fleet was told: written is not applied.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use crate::cli::ask::{has_terminal, tell_over};
use crate::cli::look::Look;
use crate::cli::{Exit, Failure, print};
use crate::clock;
use crate::domain::fleet::{Merged, Row};
use crate::domain::name::{Name, ServerId};
use crate::domain::rails::PlanRow;
use crate::domain::sentinel::Generation;

/// The pause between two looks: less than a poll takes to come.
const EVERY: Duration = Duration::from_millis(500);
/// How many nodes are named.
const NAMED_MAX: usize = 5;

/// Where the nodes stand that poll an affected row.
#[derive(Debug, Default)]
struct Progress {
    /// Were told by this generation.
    done: Vec<Name>,
    /// Poll, and were not.
    behind: Vec<Name>,
    /// Do not poll any more, and since when.
    silent: BTreeMap<Name, Option<Timestamp>>,
}

/// Waits until every live node that polls an affected row was told by this generation. Without a
/// row that is known to be affected (the settings name no groups), all count.
pub(super) fn converged(
    look: &Look,
    rows: &[PlanRow],
    generation: Generation,
    limit: Duration,
) -> Result<(), Failure> {
    let begin = clock::moment();
    loop {
        let (fleet, missing) = look.context.block_on(look.fleet());
        let now = clock::now();
        let Some(fleet) = fleet else {
            let why: Vec<_> = missing
                .iter()
                .map(|m| format!("{}: {}", m.what, m.why))
                .collect();
            let text = format!(
                "it is written; no replica shows who was told: {}",
                why.join("; ")
            );
            return Err(Failure::new(Exit::NotConverged, text));
        };
        let progress = Progress::of(&fleet, rows, generation, now);
        let line = progress.line(now);
        if progress.behind.is_empty() && (progress.done.len() + progress.silent.len() > 0) {
            return print(&format!("{line}\n"));
        }
        if clock::moment().since(begin) >= limit {
            let unseen = progress.done.is_empty() && progress.behind.is_empty();
            let text = if unseen {
                "it is written; no node polls what it changes".to_owned()
            } else {
                format!("it is written, and not applied everywhere in time: {line}")
            };
            return Err(Failure::new(Exit::NotConverged, text));
        }
        if has_terminal() {
            tell_over(&line);
        }
        look.wait(EVERY);
    }
}

impl Progress {
    fn of(fleet: &Merged, affected: &[PlanRow], generation: Generation, now: Timestamp) -> Self {
        let judge = fleet.judge(now);
        let mut progress = Self::default();
        for (name, node) in &fleet.nodes {
            let is_affected = |server: &ServerId| {
                let row = |row: &PlanRow| row.server == *server && row.nodes.contains(name);
                affected.is_empty() || affected.iter().any(row)
            };
            let rows = node.rows.iter().filter(|(server, _)| is_affected(server));
            let rows: Vec<Row> = rows.map(|(_, row)| row).collect();
            if rows.is_empty() {
                continue;
            }
            let told = |row: &Row| {
                let version = row.told.as_ref().map(|told| told.version);
                version.is_some_and(|version| version.generation >= generation)
            };
            if rows.iter().all(|row| judge.silent(row)) {
                let last = rows.iter().map(|row| row.last).max();
                progress.silent.insert(name.clone(), last);
            } else if rows.iter().filter(|row| !judge.silent(row)).all(told) {
                progress.done.push(name.clone());
            } else {
                progress.behind.push(name.clone());
            }
        }
        progress
    }

    /// `applied by 79 of 80 nodes, silent: lb-3 (last poll 41 s ago)`.
    fn line(&self, now: Timestamp) -> String {
        let polling = self.done.len() + self.behind.len();
        let mut line = format!(
            "applied by {} of {} nodes",
            self.done.len(),
            polling + self.silent.len()
        );
        if !self.behind.is_empty() {
            let _ = write!(
                line,
                ", not yet: {}",
                named(self.behind.iter().map(ToString::to_string))
            );
        }
        if !self.silent.is_empty() {
            let each = self.silent.iter().map(|(name, last)| {
                let ago = last.map_or(0, |last| now.duration_since(last).as_secs().max(0));
                format!("{name} (last poll {ago} s ago)")
            });
            let _ = write!(line, ", silent: {}", named(each));
        }
        line
    }
}

fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let mut text = names.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}
