//! What is looked at before the rails are: the guard, what stands already, and what counts before.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Change;
use crate::cli::{Exit, Failure, print};
use crate::domain::change::Edit;
use crate::domain::directive::Directive;
use crate::domain::key::DirectiveKey;
use crate::domain::listing::Listing;
use crate::domain::snapshot::{Placed, Snapshot};
use crate::domain::view::ago;

/// What becomes of directives that count before what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overrides {
    /// They are lifted with it.
    Lift,
    /// They stand.
    Keep,
    /// Nobody said.
    Ask,
}

/// Refuses what the guard would: it would freeze what it covers, and nobody would follow it.
pub(super) fn check_guard<'a>(
    snapshot: &Snapshot,
    wanted: impl Iterator<Item = (&'a DirectiveKey, &'a Directive)>,
) -> Result<(), Failure> {
    let refusal = |(key, directive): (&DirectiveKey, &Directive)| {
        let why = snapshot.settings.refusal(key, directive)?;
        Some(format!("{key}: {why}"))
    };
    let refusals: Vec<_> = wanted.filter_map(refusal).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}\nnothing was written; --force with --reason does it knowingly",
        refusals.join("\n")
    );
    Err(Failure::new(Exit::Refused, text))
}

/// The changes that would change something: running a command twice restarts no ramp or plan.
pub(super) fn differing(listing: &Listing, changes: &[Change]) -> Vec<Edit> {
    let differs = |change: &&Change| {
        let standing = listing.entries.get(&change.key.to_string());
        match (standing, &change.directive) {
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
            (Some(entry), Some(wanted)) => Directive::parse(&entry.value)
                .map_or(true, |standing| !standing.asks_the_same(wanted)),
        }
    };
    let edit = |change: &Change| {
        let value = change
            .directive
            .as_ref()
            .map(|directive| directive.to_json().into());
        Edit::of(listing, change.key.to_string(), value)
    };
    changes.iter().filter(differs).filter_map(edit).collect()
}

/// `nodes/lb-1/canary-state counts before it, by ana, 7 days ago: {...}`.
fn outvoting(placed: &Placed, now: Timestamp) -> String {
    let directive = placed.directive.as_ref().ok();
    let by = directive.and_then(|directive| directive.author.by.as_deref());
    let since = directive.and_then(|directive| directive.since);
    format!(
        "{} counts before it, by {}, {}: {}\n",
        placed.path,
        by.unwrap_or("nobody who is named"),
        since.map_or_else(|| "since nobody knows when".to_owned(), |at| ago(at, now)),
        placed.text()
    )
}

/// What stands and counts before a change: without a look at it, a drain looks done that is not.
/// Gives the changes that lift it.
pub(super) fn overrides(
    snapshot: &Snapshot,
    changes: &[Change],
    wanted: Overrides,
    now: Timestamp,
) -> Result<Vec<Change>, Failure> {
    let others = |placed: &&Placed| changes.iter().all(|change| change.key != placed.key);
    let counts = |placed: &&Placed| {
        placed
            .directive
            .as_ref()
            .map_or(true, |d| !d.is_lifted(now))
    };
    let (mut stronger, mut keeps_open) = (Vec::new(), false);
    for change in changes {
        let closes = change.directive.as_ref().is_some_and(Directive::takes_away);
        for placed in snapshot.stronger(&change.key).filter(others).filter(counts) {
            let open = placed.directive.as_ref().map_or(true, |d| !d.takes_away());
            keeps_open |= closes && open;
            stronger.push(placed);
        }
    }
    stronger.sort_by(|a, b| a.path.cmp(&b.path));
    stronger.dedup_by(|a, b| a.path == b.path);
    let lines: BTreeSet<_> = stronger
        .iter()
        .map(|placed| outvoting(placed, now))
        .collect();
    match wanted {
        Overrides::Lift => {
            let lift = |placed: &&Placed| Change {
                key: placed.key.clone(),
                directive: None,
            };
            Ok(stronger.iter().map(lift).collect())
        }
        Overrides::Ask if keeps_open => {
            let lines: String = lines.into_iter().collect();
            let text = format!(
                "{lines}these keep servers open that this takes out: --lift-overrides takes them \
                 away with it, --keep-overrides lets them stand; nothing was written"
            );
            Err(Failure::new(Exit::Refused, text))
        }
        Overrides::Keep | Overrides::Ask => {
            let notes: String = lines.iter().map(|line| format!("note: {line}")).collect();
            print(&notes).map(|()| Vec::new())
        }
    }
}
