//! `tidegate undo`.

use clap::Args;

use super::history::Records;
use super::look::LookArgs;
use super::write::{Manner, Proposal, WriteArgs};
use super::{Exit, Failure};
use crate::config::Flags;
use crate::domain::change::Edit;
use crate::domain::history::{Changed, Record};
use crate::domain::key::DirectiveKey;
use crate::domain::listing::Listing;

/// Put back what stood before a change. Refused when somebody has changed the same keys since.
#[derive(Debug, Args)]
pub(super) struct Undo {
    /// The change's id, as the command that made it and `tidegate history` show it.
    #[arg(value_name = "ID")]
    change: String,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    look: LookArgs,
}

impl Undo {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let look = self.look.open(flags)?;
        let records = Records::of(&look.context)?;
        let parts = records.of_change(&self.change)?;
        check_first(&parts)?;
        let manner = Manner { asks: true };
        self.write.apply(&look, manner, |standing| {
            let edits = undone(&standing.listing, &parts)?;
            let changed = parts.iter().flat_map(|part| &part.changed);
            Ok(Proposal {
                edits,
                keys: changed
                    .filter_map(|changed| DirectiveKey::parse(&changed.path))
                    .collect(),
                undone: parts.iter().flat_map(|part| part.sockets.clone()).collect(),
                ..Proposal::default()
            })
        })
    }
}

/// Parts that were taken away as old cannot be put back, and half a change is none.
fn check_first(parts: &[&Record]) -> Result<(), Failure> {
    let missing = parts.iter().zip(1..).find(|(record, number)| {
        let part = record.part.map_or(1, |part| part.number);
        part != *number
    });
    let Some((_, number)) = missing else {
        return Ok(());
    };
    let text = format!(
        "part {number} of this change is not in the history any more: write what you want; nothing \
         was written"
    );
    Err(Failure::new(Exit::Refused, text))
}

/// The edits that put back what stood before, unless something else stands there now.
fn undone(listing: &Listing, parts: &[&Record]) -> Result<Vec<Edit>, Failure> {
    let changed: Vec<&Changed> = parts.iter().flat_map(|part| &part.changed).collect();
    let stands = |changed: &&&Changed| {
        let now = listing.entries.get(&changed.path).map(|entry| &entry.value);
        now == changed.after.as_ref().map(|value| &value.0)
    };
    let back = |changed: &&&Changed| {
        let now = listing.entries.get(&changed.path).map(|entry| &entry.value);
        now == changed.before.as_ref().map(|value| &value.0)
    };
    let others: Vec<_> = changed
        .iter()
        .filter(|changed| !stands(changed) && !back(changed))
        .map(|changed| changed.path.as_str())
        .collect();
    if !others.is_empty() {
        let text = format!(
            "somebody has changed {} since: look at `tidegate history`, and write what you want; \
             nothing was written",
            others.join(", ")
        );
        return Err(Failure::new(Exit::Conflict, text));
    }
    let edit = |changed: &&Changed| {
        let before = changed.before.as_ref().map(|value| value.0.clone());
        Edit::of(listing, changed.path.as_str(), before)
    };
    Ok(changed.iter().filter_map(edit).collect())
}
