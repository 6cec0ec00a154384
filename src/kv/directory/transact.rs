//! A transaction over several files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::fault::{naming, unreachable_by};
use super::folder::{Folder, may_write};
use super::journal::{Journal, Plan};
use super::lock::{self, Mode};
use super::path::{Scope, check_key, file_of, parents};
use super::scan::{Values, folder_metadata};
use super::state::State;
use crate::kv::{Expect, KvError, Operation, Outcome, request};

/// Applies all operations, or none.
pub(super) fn transact(folder: &Folder, operations: &[Operation]) -> Result<Outcome, KvError> {
    check_operations(operations)?;
    folder_metadata(&folder.root)?;
    folder.writable().map_err(KvError::ReadOnly)?;
    let _guard = lock::take(&folder.lock_file(), Mode::Exclusive)?;
    if let Some(journal) = Journal::read(&folder.own)? {
        let state = folder.current()?;
        folder
            .complete(&journal, state)
            .map_err(KvError::Unreachable)?;
    }
    let (state, values) = read_keys(folder, operations)?;
    let plan = match plan(operations, &state, &values) {
        Ok(plan) => plan,
        Err(key) => return Ok(Outcome::Conflict { key: Some(key) }),
    };
    if plan.is_empty() {
        return Ok(Outcome::Committed { index: state.index });
    }
    check_layout(folder, &plan)?;
    write(folder, state, &plan)
}

fn write(folder: &Folder, state: State, plan: &Plan) -> Result<Outcome, KvError> {
    let not_written = |error: std::io::Error| {
        KvError::Unreachable(naming(
            &folder.own,
            &format!("nothing was written: {error}"),
        ))
    };
    let index = state.index + 1;
    let journal = Journal::stage(&folder.own, index, plan).map_err(not_written)?;
    if let Err(error) = journal.commit(&folder.own) {
        // The name may be there although the disk did not confirm it.
        return Err(if Journal::is_there(&folder.own) {
            KvError::OutcomeUnknown(naming(&folder.own, &error.to_string()))
        } else {
            not_written(error)
        });
    }
    folder
        .complete(&journal, state)
        .map_err(KvError::OutcomeUnknown)?;
    Ok(Outcome::Committed { index })
}

/// Reads the keys that the operations are about, and writes down what was changed by hand, so
/// that the next one to ask sees the same indexes.
fn read_keys(folder: &Folder, operations: &[Operation]) -> Result<(State, Values), KvError> {
    let mut state = folder.current()?;
    let mut changed = false;
    let mut values = Values::new();
    let keys: BTreeSet<&str> = operations.iter().map(Operation::key).collect();
    for key in keys {
        let scope = Scope::Key(key);
        let found = folder.scan(scope, None, &state)?;
        changed |= state.reconcile(scope, &found);
        values.extend(found);
    }
    if changed {
        folder.save(&state).map_err(KvError::Unreachable)?;
    }
    Ok((state, values))
}

/// What becomes of each key; the key of the first expectation that does not hold otherwise. No key
/// stands twice in a transaction.
fn plan(operations: &[Operation], state: &State, values: &Values) -> Result<Plan, String> {
    let mut plan = Plan::new();
    for operation in operations {
        let key = operation.key();
        let found = values.get(key);
        let index = found.and_then(|_| state.modify_index(key));
        let holds = match operation.expect() {
            Expect::Anything => true,
            Expect::Missing => index.is_none(),
            Expect::Index(expected) => index == Some(expected),
        };
        if !holds {
            return Err(key.to_owned());
        }
        let wanted = match operation {
            Operation::Set { value, .. } => Some(value),
            Operation::Delete { .. } => None,
        };
        // What is there already keeps its index, as in Consul.
        if wanted != found {
            plan.insert(key.to_owned(), wanted.cloned());
        }
    }
    Ok(plan)
}

fn check_operations(operations: &[Operation]) -> Result<(), KvError> {
    request::check_operations(operations)?;
    operations
        .iter()
        .map(Operation::key)
        .try_for_each(check_key)
}

/// Refuses what a folder cannot hold, before anything counts: afterwards nobody could complete it.
fn check_layout(folder: &Folder, plan: &Plan) -> Result<(), KvError> {
    let device = fs::metadata(&folder.own)
        .map_err(unreachable_by(&folder.own))?
        .dev();
    for (key, value) in plan {
        let place = nearest_folder(&folder.root, key)?;
        may_write(&place).map_err(KvError::ReadOnly)?;
        if value.is_none() {
            continue;
        }
        let found = fs::metadata(&place).map_err(unreachable_by(&place))?;
        if found.dev() != device {
            let text = "stands on another file system than the folder's root";
            return Err(KvError::ReadOnly(naming(&place, text)));
        }
        check_parents(&folder.root, key, plan)?;
        check_folder(&folder.root, key, plan)?;
    }
    Ok(())
}

/// No key that stays may be on the way to this one.
fn check_parents(root: &Path, key: &str, plan: &Plan) -> Result<(), KvError> {
    for parent in parents(key) {
        let stays = match plan.get(parent) {
            Some(planned) => planned.is_some(),
            None => file_of(root, parent).is_file(),
        };
        if stays {
            return Err(KvError::BadRequest(format!(
                "{key:?} cannot be written: {parent:?} is a key, and a folder cannot be both"
            )));
        }
    }
    Ok(())
}

/// Nothing that stays may be below this key.
fn check_folder(root: &Path, key: &str, plan: &Plan) -> Result<(), KvError> {
    let path = file_of(root, key);
    if !path.is_dir() {
        return Ok(());
    }
    let refuse = |inside: &Path| {
        Err(KvError::BadRequest(format!(
            "{key:?} cannot be written: it is a folder that holds {}",
            inside.display()
        )))
    };
    if path.is_symlink() {
        return refuse(Path::new("whatever its link leads to"));
    }
    let mut folders = vec![path];
    while let Some(next) = folders.pop() {
        let entries: Vec<_> = fs::read_dir(&next)
            .and_then(Iterator::collect)
            .map_err(unreachable_by(&next))?;
        // Removing an empty folder inside would need more than the journal knows.
        if entries.is_empty() && next != file_of(root, key) {
            return refuse(&next);
        }
        for entry in entries {
            let inside = entry.path();
            if entry.file_type().map_err(unreachable_by(&inside))?.is_dir() {
                folders.push(inside);
            } else if !is_deleted(root, &inside, plan) {
                return refuse(&inside);
            }
        }
    }
    Ok(())
}

fn is_deleted(root: &Path, path: &Path, plan: &Plan) -> bool {
    path.strip_prefix(root)
        .ok()
        .and_then(Path::to_str)
        .is_some_and(|key| plan.get(key) == Some(&None))
}

/// The folder in which the first new name of a key would be made.
fn nearest_folder(root: &Path, key: &str) -> Result<PathBuf, KvError> {
    let mut nearest = root.to_path_buf();
    for parent in parents(key) {
        let path = file_of(root, parent);
        if !path.is_dir() {
            break;
        }
        nearest = path;
    }
    folder_metadata(&nearest)?;
    Ok(nearest)
}
