//! What is shown before anything is asked.

use std::fmt;

use serde::Serialize;

use super::replicas::Belief;
use crate::domain::acceptance::{Effect, KeyChange, RowChange};
use crate::domain::sentinel::Generation;

/// The most keys, and the most rows, that are shown; of more the number is.
const SHOWN_MAX: usize = 50;

/// What accepting changes.
#[derive(Debug, Serialize)]
pub(super) struct View {
    prefix: String,
    /// The store's index.
    index: u64,
    /// How many keys it holds.
    keys_stored: usize,
    /// The epoch and generation that are written.
    epoch: u64,
    r#gen: u64,
    replicas: Vec<ReplicaView>,
    warnings: Vec<String>,
    keys: Vec<KeyChange>,
    keys_left_out: usize,
    rows: Vec<RowChange>,
    rows_left_out: usize,
}

#[derive(Debug, Serialize)]
struct ReplicaView {
    replica: String,
    url: String,
    authority: String,
    reason: String,
}

/// What the view is about.
pub(super) struct About {
    pub(super) prefix: String,
    pub(super) index: u64,
    pub(super) keys_stored: usize,
    pub(super) next: Generation,
}

impl View {
    pub(super) fn new(
        about: About,
        beliefs: &[Belief],
        warnings: Vec<String>,
        effect: Effect,
    ) -> Self {
        let Effect { mut keys, mut rows } = effect;
        let (keys_left_out, rows_left_out) = (
            keys.len().saturating_sub(SHOWN_MAX),
            rows.len().saturating_sub(SHOWN_MAX),
        );
        keys.truncate(SHOWN_MAX);
        rows.truncate(SHOWN_MAX);
        Self {
            prefix: about.prefix,
            index: about.index,
            keys_stored: about.keys_stored,
            epoch: about.next.epoch,
            r#gen: about.next.r#gen,
            replicas: beliefs.iter().map(ReplicaView::new).collect(),
            warnings,
            keys,
            keys_left_out,
            rows,
            rows_left_out,
        }
    }
}

impl ReplicaView {
    fn new(belief: &Belief) -> Self {
        Self {
            replica: belief.replica.clone(),
            url: belief.url.clone(),
            authority: belief.authority.clone(),
            reason: belief.reason.clone(),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, index, keys) = (&self.prefix, self.index, self.keys_stored);
        writeln!(f, "{prefix} holds {keys} keys at index {index}")?;
        for replica in &self.replicas {
            let ReplicaView {
                replica,
                url,
                authority,
                reason,
            } = replica;
            writeln!(f, "{replica} ({url}) is {authority}: {reason}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "WARNING: {warning}")?;
        }
        if self.keys.is_empty() {
            writeln!(f, "keys: what is believed stands there")?;
        } else {
            writeln!(f, "keys: what is believed -> what stands there now")?;
        }
        let nothing = "(nothing)";
        for change in &self.keys {
            let before = change.believed.as_deref().unwrap_or(nothing);
            let after = change.stored.as_deref().unwrap_or(nothing);
            writeln!(f, "  {}: {before} -> {after}", change.path)?;
        }
        more(f, self.keys_left_out)?;
        if self.rows.is_empty() {
            writeln!(f, "rows: no answer changes, of the rows that are known")?;
        } else {
            writeln!(f, "rows: last answer -> answer from then on")?;
        }
        for change in &self.rows {
            let node = change.node.as_deref().unwrap_or("no node seen so far");
            let before = change.before.as_deref().unwrap_or("(not known)");
            writeln!(
                f,
                "  {} on {node}: {before} -> {}",
                change.server, change.after
            )?;
        }
        more(f, self.rows_left_out)
    }
}

fn more(f: &mut fmt::Formatter<'_>, left_out: usize) -> fmt::Result {
    if left_out == 0 {
        return Ok(());
    }
    writeln!(f, "  ... and {left_out} more")
}
