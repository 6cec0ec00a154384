//! The redo journal: a transaction that is written down before the first file moves.
//!
//! The new values stand beside it as `staged-<n>`. From the moment that the journal has its name
//! the transaction counts; whoever takes the lock next completes what its writer could not.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::fault::{naming, unreachable_by};
use super::files;
use super::path::{Scope, check_key};
use super::scan::Values;
use super::state::{State, digest};
use crate::kv::KvError;

const FILE: &str = "journal.json";
const STAGED: &str = "staged-";
const VERSION: u8 = 1;

/// What becomes of each key: a new value, or none.
pub(super) type Plan = BTreeMap<String, Option<Bytes>>;

/// A transaction that counts and may not be complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    version: u8,
    /// The index of the change.
    pub(super) index: u64,
    deletes: Vec<String>,
    sets: Vec<Set>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    key: String,
    /// Which `staged-<n>` holds the value until it is moved.
    staged: usize,
    digest: String,
}

impl Journal {
    /// Writes the new values beside their places. Nothing counts yet.
    pub(super) fn stage(own: &Path, index: u64, plan: &Plan) -> io::Result<Self> {
        clear_staged(own)?;
        let mut journal = Self {
            version: VERSION,
            index,
            deletes: Vec::new(),
            sets: Vec::new(),
        };
        for (staged, (key, value)) in plan.iter().enumerate() {
            let Some(value) = value else {
                journal.deletes.push(key.clone());
                continue;
            };
            files::write_synced(&staged_file(own, staged), value)?;
            journal.sets.push(Set {
                key: key.clone(),
                staged,
                digest: digest(value),
            });
        }
        files::sync_folder(own)?;
        Ok(journal)
    }

    /// From here on the transaction counts.
    pub(super) fn commit(&self, own: &Path) -> io::Result<()> {
        let json = serde_json::to_vec(self).expect("lists of text and numbers are valid JSON");
        files::write_whole(own, FILE, &json)
    }

    /// Whether a transaction is waiting to be completed.
    pub(super) fn is_there(own: &Path) -> bool {
        own.join(FILE).exists()
    }

    /// The transaction that is waiting to be completed.
    ///
    /// A journal that cannot be read is nobody's to guess at: it stays until a person decides.
    pub(super) fn read(own: &Path) -> Result<Option<Self>, KvError> {
        let path = own.join(FILE);
        let Some(bytes) = files::read_if_there(&path).map_err(unreachable_by(&path))? else {
            return Ok(None);
        };
        Self::parse(&bytes).map(Some).map_err(|why| {
            let text = format!(
                "a transaction was interrupted and its journal cannot be read ({why}); see that \
                 the keys are as they should be, then remove this file"
            );
            KvError::BadAnswer(naming(&path, &text))
        })
    }

    /// Moves the values to their places. Doing it again does nothing.
    pub(super) fn apply(&self, root: &Path, own: &Path) -> Result<(), KvError> {
        let mut touched = files::Touched::new();
        // Deletions first: a key may take the place of a folder that they leave empty.
        for key in &self.deletes {
            files::remove(root, key, &mut touched).map_err(unreachable_by(&root.join(key)))?;
        }
        for set in &self.sets {
            let staged = staged_file(own, set.staged);
            files::put(root, &set.key, &staged, &mut touched)
                .map_err(unreachable_by(&root.join(&set.key)))?;
        }
        files::sync_all(&touched).map_err(|(folder, error)| unreachable_by(&folder)(error))
    }

    /// Tells the state of it. Doing it again does nothing.
    pub(super) fn record(&self, state: &mut State) {
        let older =
            |state: &State, key: &str| state.modify_index(key).map(|index| index < self.index);
        for key in &self.deletes {
            if older(state, key) == Some(true) {
                state.removed(key, self.index);
            }
        }
        for set in &self.sets {
            if older(state, &set.key) != Some(false) {
                state.written(&set.key, set.digest.clone(), self.index);
            }
        }
    }

    /// Shows the values as they will be, for a reader who cannot complete it.
    pub(super) fn overlay(
        &self,
        own: &Path,
        scope: Scope<'_>,
        values: &mut Values,
    ) -> Result<(), KvError> {
        for key in &self.deletes {
            values.remove(key);
        }
        for set in self.sets.iter().filter(|set| scope.holds(&set.key)) {
            let path = staged_file(own, set.staged);
            if let Some(value) = files::read_if_there(&path).map_err(unreachable_by(&path))? {
                values.insert(set.key.clone(), value.into());
            }
        }
        Ok(())
    }

    /// The transaction is complete and on the disk.
    pub(super) fn close(own: &Path) -> Result<(), KvError> {
        let path = own.join(FILE);
        fs::remove_file(&path).map_err(unreachable_by(&path))?;
        files::sync_folder(own).map_err(unreachable_by(own))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let journal: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if journal.version != VERSION {
            return Err(format!("version {} is not known here", journal.version));
        }
        let sets = journal.sets.iter().map(|set| &set.key);
        for key in journal.deletes.iter().chain(sets) {
            check_key(key).map_err(|error| error.to_string())?;
        }
        Ok(journal)
    }
}

/// Removes what a writer left who ended before its transaction counted.
fn clear_staged(own: &Path) -> io::Result<()> {
    for entry in fs::read_dir(own)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(STAGED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn staged_file(own: &Path, number: usize) -> PathBuf {
    own.join(format!("{STAGED}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_journal_that_leads_out_of_the_folder_is_refused() {
        let parse = |key: &str| {
            let text = format!(r#"{{"version":1,"index":2,"deletes":[{key:?}],"sets":[]}}"#);
            Journal::parse(text.as_bytes())
        };
        for key in ["../x", "a/../../x", "/x", "a//b", ".tidegate/lock"] {
            let parsed = parse(key);
            assert!(parsed.is_err(), "{key}: {parsed:?}");
        }
        let inside = parse("frontend/gprd/canary-state");
        assert!(inside.is_ok(), "{inside:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Journal::parse(&bytes);
        }
    }
}
