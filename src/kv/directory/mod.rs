//! A folder whose files are the keys: the embedded default, and what a Kubernetes `ConfigMap`
//! volume looks like.
//!
//! The file `<PATH>/frontend/gprd/canary-state` is the key `frontend/gprd/canary-state`. Files may
//! be edited by hand at any time; the next reading gives what changed a new index. What a folder
//! cannot say by itself stands in `<PATH>/.tidegate/`: the lock, the indexes, and the journal of a
//! transaction under way. Where that cannot be written, the indexes live in memory.
//!
//! Names that begin with `.` or `#` or end in `~` are no keys (the kubelet's and editors' own).
//! Symbolic links are followed. A file that cannot be read, is larger than a value may be, or has
//! a name that is not UTF-8 makes the reading fail and is named: a listing is never smaller than
//! what is there. Linux only: changes are seen through inotify.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use self::events::Events;
use self::folder::{Folder, Reading};
use self::path::{Scope, check_key};
use super::{Capabilities, Kv, KvError, Operation, Outcome, Outline, request};
use crate::domain::key::Prefix;
use crate::domain::listing::{Entry, Listing};

mod events;
mod fault;
mod files;
mod folder;
mod journal;
mod lock;
mod path;
mod scan;
mod state;
mod transact;

/// How long after a file event the folder is read: who writes a file in two steps is mostly
/// through by then. Well below the 200 ms in which a change must be seen.
const SETTLE: Duration = Duration::from_millis(10);
/// How often the folder is read while file events are not to be had.
const WITHOUT_EVENTS: Duration = Duration::from_secs(1);

/// A folder as a store. Cheap to clone; clones share what they remember.
#[derive(Debug, Clone)]
pub struct DirectoryKv {
    folder: Arc<Folder>,
}

impl DirectoryKv {
    /// Opens a folder, which must exist. Whether it can be written is found out by trying.
    ///
    /// `now` gives the index at which a folder without a state starts.
    ///
    /// # Errors
    /// [`KvError::Unreachable`] when there is no such folder.
    pub fn open(path: impl AsRef<Path>, now: fn() -> Timestamp) -> Result<Self, KvError> {
        Self::open_as(path.as_ref(), false, now)
    }

    /// Opens a folder and never writes in it, not even beside the keys.
    ///
    /// # Errors
    /// [`KvError::Unreachable`] when there is no such folder.
    pub fn open_read_only(path: impl AsRef<Path>, now: fn() -> Timestamp) -> Result<Self, KvError> {
        Self::open_as(path.as_ref(), true, now)
    }

    fn open_as(path: &Path, never_write: bool, now: fn() -> Timestamp) -> Result<Self, KvError> {
        let root: PathBuf = std::path::absolute(path).map_err(fault::unreachable_by(path))?;
        scan::folder_metadata(&root)?;
        Ok(Self {
            folder: Arc::new(Folder::new(root, never_write, now)),
        })
    }

    /// File work blocks, so it is done where that harms nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, KvError> + Send + 'static,
        ended: fn(String) -> KvError,
    ) -> Result<T, KvError> {
        let folder = Arc::clone(&self.folder);
        tokio::task::spawn_blocking(move || work(&folder))
            .await
            .unwrap_or_else(|error| Err(ended(format!("the file work ended early: {error}"))))
    }

    async fn read(&self, prefix: &Prefix, events: Option<Arc<Events>>) -> Result<Listing, KvError> {
        let prefix = prefix.clone();
        let read = move |folder: &Folder| {
            let scope = Scope::Below(prefix.as_str());
            let reading = folder.read(scope, events.as_deref())?;
            Ok(listing(prefix.as_str(), reading))
        };
        self.blocking(read, KvError::Unreachable).await
    }

    /// File events, or the reason why there are none among the notices.
    fn events(&self) -> Option<Arc<Events>> {
        let events = Events::new();
        if let Err(error) = &events {
            self.without_events(error);
        }
        events.ok().map(Arc::new)
    }

    fn without_events(&self, why: &dyn std::fmt::Display) {
        self.folder.notice(format!(
            "{}: no file events ({why}); reading once a second instead",
            self.folder.root.display()
        ));
    }

    /// Waits until there is a reason to read again, at most until `end`.
    async fn wait(&self, events: Option<&Events>, end: Instant) {
        let events = events.filter(|events| {
            if !events.complete() {
                self.without_events(&"a watch was refused; see fs.inotify.max_user_watches");
            }
            events.complete()
        });
        let Some(events) = events else {
            return tokio::time::sleep_until(end.min(Instant::now() + WITHOUT_EVENTS)).await;
        };
        let changed = tokio::time::timeout_at(end, events.changed()).await;
        if let Ok(result) = changed {
            if let Err(error) = result {
                self.without_events(&error);
                tokio::time::sleep_until(end.min(Instant::now() + WITHOUT_EVENTS)).await;
            }
            tokio::time::sleep(SETTLE).await;
        }
    }
}

impl Kv for DirectoryKv {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: self.folder.writable().is_ok(),
            key_beside_children: false,
            odd_keys: false,
            access_rights: false,
            atomic_for_all: false,
        }
    }

    fn notices(&self) -> Vec<String> {
        self.folder.notices()
    }

    async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        self.read(prefix, None).await
    }

    async fn watch(&self, prefix: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        if after == 0 {
            return self.list(prefix).await;
        }
        let end = Instant::now() + wait;
        let events = self.events();
        loop {
            // Read at the end of the wait too: events are a hint, never a proof.
            let last = Instant::now() >= end;
            let listing = self.read(prefix, events.clone()).await?;
            if last || listing.index != after {
                return Ok(listing);
            }
            self.wait(events.as_deref(), end).await;
        }
    }

    async fn confirm(&self, prefix: &Prefix) -> Result<Outline, KvError> {
        let listing = self.list(prefix).await?;
        Ok(listing.outline())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        request::check_key(key)?;
        // What no file can stand for is not there.
        if check_key(key).is_err() {
            return Ok(None);
        }
        let key = key.to_owned();
        let read = move |folder: &Folder| {
            let mut reading = folder.read(Scope::Key(&key), None)?;
            let value = reading.values.remove(&key);
            Ok(value.map(|value| entry(&reading, &key, value)))
        };
        self.blocking(read, KvError::Unreachable).await
    }

    async fn table_index(&self, prefix: &Prefix) -> Result<u64, KvError> {
        let prefix = prefix.clone();
        let read = move |folder: &Folder| {
            let reading = folder.read(Scope::Below(prefix.as_str()), None)?;
            Ok(reading.state.index)
        };
        self.blocking(read, KvError::Unreachable).await
    }

    async fn transact(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        let operations = operations.to_vec();
        let write = move |folder: &Folder| transact::transact(folder, &operations);
        self.blocking(write, KvError::OutcomeUnknown).await
    }
}

fn listing(prefix: &str, mut reading: Reading) -> Listing {
    let values = std::mem::take(&mut reading.values);
    let entries = values.into_iter().map(|(key, value)| {
        let entry = entry(&reading, &key, value);
        (key[prefix.len()..].to_owned(), entry)
    });
    Listing {
        entries: entries.collect(),
        index: reading.state.prefix_index(prefix),
    }
}

fn entry(reading: &Reading, key: &str, value: bytes::Bytes) -> Entry {
    Entry {
        value,
        modify_index: reading
            .state
            .modify_index(key)
            .expect("every value that was read has been reconciled with the state"),
    }
}
