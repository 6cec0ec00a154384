//! A store in the process, for tests: the trait's promises to the letter, and the faults that
//! real stores show, on demand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::request::{check_key, check_operations};
use super::{Capabilities, Expect, Kv, KvError, Operation, Outcome, Outline};
use crate::domain::key::Prefix;
use crate::domain::listing::{Entry, Listing};

/// A store in memory. Clones share one table.
#[derive(Debug, Clone, Default)]
pub struct MemoryKv {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// Sent after each change that blocked readers must look at.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Table {
    index: u64,
    entries: BTreeMap<String, Entry>,
    /// Key → index of its deletion. As in Consul they hold up a prefix's index until collected.
    tombstones: BTreeMap<String, u64>,
    fault: Option<KvError>,
}

impl MemoryKv {
    /// An empty store at index 1; its first write gets index 2. No store is ever at index 0,
    /// which asks a watch to answer at once.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes one entry as another program would: at the next index, without a look at any limit
    /// or at the form of the key. Gives that index.
    pub fn put(&self, key: &str, value: impl Into<bytes::Bytes>) -> u64 {
        let index = self.table().put(key, value.into());
        self.wake();
        index
    }

    /// Deletes one entry as another program would.
    pub fn remove(&self, key: &str) {
        self.table().remove(key);
        self.wake();
    }

    /// Sets one entry with a modify index of the caller's choice and wakes nobody. The index of
    /// the table stays: a zombie write or a restored key is made like this.
    pub fn set_raw(&self, key: &str, entry: Entry) {
        self.table().entries.insert(key.to_owned(), entry);
    }

    /// Replaces the whole table, as the restore of a snapshot does: full keys, their modify
    /// indexes, and the table's index, however low. Blocked readers are not woken: Consul shows
    /// them the restored contents at the end of their wait only.
    pub fn restore(&self, entries: BTreeMap<String, Entry>, index: u64) {
        let mut table = self.table();
        table.entries = entries;
        table.tombstones.clear();
        table.index = index;
    }

    /// The whole table as [`MemoryKv::restore`] takes it.
    #[must_use]
    pub fn save(&self) -> (BTreeMap<String, Entry>, u64) {
        let table = self.table();
        (table.entries.clone(), table.index)
    }

    /// Forgets all deletions, as Consul does after about 15 minutes: the index of a prefix may go
    /// back, its contents stay.
    pub fn collect_tombstones(&self) {
        self.table().tombstones.clear();
    }

    /// From now on every call, the blocked ones included, fails like this; `None` ends it.
    pub fn fail_with(&self, fault: Option<KvError>) {
        self.table().fault = fault;
        self.wake();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A test that panics while it holds the lock must fail by its own message.
        self.shared
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.shared.changes.send_replace(());
    }

    fn read<T>(&self, look: impl FnOnce(&Table) -> T) -> Result<T, KvError> {
        let table = self.table();
        match &table.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(look(&table)),
        }
    }

    fn apply(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        check_operations(operations)?;
        let mut table = self.table();
        if let Some(fault) = &table.fault {
            return Err(fault.clone());
        }
        if let Some(failed) = operations.iter().find(|o| !table.holds(o)) {
            return Ok(Outcome::Conflict {
                key: Some(failed.key().to_owned()),
            });
        }
        table.apply(operations);
        Ok(Outcome::Committed { index: table.index })
    }
}

impl Kv for MemoryKv {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: true,
            key_beside_children: true,
            odd_keys: true,
            access_rights: false,
            atomic_for_all: true,
        }
    }

    async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        self.read(|table| table.list(prefix.as_str()))
    }

    async fn watch(&self, prefix: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        let end = Instant::now() + wait;
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let listing = self.list(prefix).await?;
            if after == 0 || listing.index > after {
                return Ok(listing);
            }
            if timeout_at(end, changes.changed()).await.is_err() {
                return self.list(prefix).await;
            }
        }
    }

    async fn confirm(&self, prefix: &Prefix) -> Result<Outline, KvError> {
        let listing = self.list(prefix).await?;
        Ok(listing.outline())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        check_key(key)?;
        self.read(|table| table.entries.get(key).cloned())
    }

    async fn table_index(&self, _prefix: &Prefix) -> Result<u64, KvError> {
        self.read(|table| table.index)
    }

    async fn transact(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        let outcome = self.apply(operations)?;
        self.wake();
        Ok(outcome)
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            index: 1,
            entries: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            fault: None,
        }
    }
}

impl Table {
    fn list(&self, prefix: &str) -> Listing {
        let entries: BTreeMap<_, _> = below(&self.entries, prefix)
            .map(|(path, entry)| (path.to_owned(), entry.clone()))
            .collect();
        let written = entries.values().map(|entry| entry.modify_index);
        let deleted = below(&self.tombstones, prefix).map(|(_, index)| *index);
        Listing {
            index: written.chain(deleted).max().unwrap_or(self.index),
            entries,
        }
    }

    fn holds(&self, operation: &Operation) -> bool {
        let entry = self.entries.get(operation.key());
        match operation.expect() {
            Expect::Anything => true,
            Expect::Missing => entry.is_none(),
            Expect::Index(index) => entry.is_some_and(|e| e.modify_index == index),
        }
    }

    /// All changes of one transaction get one index; without any change the index stays.
    fn apply(&mut self, operations: &[Operation]) {
        let before = self.index;
        let mut changed = false;
        for operation in operations {
            self.index = before;
            match operation {
                Operation::Set { key, value, .. } => self.put(key, value.clone()),
                Operation::Delete { key, .. } => self.remove(key),
            };
            changed |= self.index > before;
        }
        self.index = before + u64::from(changed);
    }

    fn put(&mut self, key: &str, value: bytes::Bytes) -> u64 {
        if self.entries.get(key).is_some_and(|e| e.value == value) {
            return self.index;
        }
        self.index += 1;
        self.tombstones.remove(key);
        let entry = Entry {
            value,
            modify_index: self.index,
        };
        self.entries.insert(key.to_owned(), entry);
        self.index
    }

    fn remove(&mut self, key: &str) -> u64 {
        if self.entries.remove(key).is_some() {
            self.index += 1;
            self.tombstones.insert(key.to_owned(), self.index);
        }
        self.index
    }
}

/// What stands below a prefix, by path. The folder marker of the prefix itself is not below it.
fn below<'a, T>(
    map: &'a BTreeMap<String, T>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a T)> {
    map.range(prefix.to_owned()..)
        .map_while(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
        .filter(|(path, _)| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> Prefix {
        Prefix::new("frontend", "gprd").unwrap()
    }

    #[tokio::test]
    async fn a_restore_may_go_back_and_wakes_nobody() {
        let kv = MemoryKv::new();
        kv.put("frontend/gprd/a", "1");
        let (saved, index) = kv.save();
        kv.put("frontend/gprd/a", "2");
        kv.put("frontend/gprd/b", "2");

        let watcher = kv.clone();
        let wait = Duration::from_millis(50);
        let blocked = tokio::spawn(async move { watcher.watch(&prefix(), 4, wait).await });
        kv.restore(saved.clone(), index);

        let listing = blocked.await.unwrap().unwrap();
        assert_eq!((listing.index, listing.entries.len()), (2, 1));
        assert_eq!(kv.save(), (saved, 2));
        assert_eq!(kv.table_index(&prefix()).await, Ok(2));
    }

    #[tokio::test]
    async fn collected_tombstones_take_the_index_back_and_leave_the_contents() {
        let kv = MemoryKv::new();
        kv.put("frontend/gprd/a", "1");
        kv.put("frontend/gprd/b", "1");
        kv.remove("frontend/gprd/b");
        let before = kv.list(&prefix()).await.unwrap();
        kv.collect_tombstones();
        let after = kv.list(&prefix()).await.unwrap();
        assert_eq!((before.index, after.index), (4, 2));
        assert!(before.same_contents(&after));
    }

    #[tokio::test]
    async fn a_fault_ends_blocked_reads_and_lasts_until_it_is_lifted() {
        let kv = MemoryKv::new();
        let index = kv.put("frontend/gprd/a", "1");
        let watcher = kv.clone();
        let blocked = tokio::spawn(async move {
            let wait = Duration::from_mins(1);
            watcher.watch(&prefix(), index, wait).await
        });
        let fault = KvError::Denied("no rights".to_owned());
        kv.fail_with(Some(fault.clone()));
        assert_eq!(blocked.await.unwrap(), Err(fault.clone()));
        assert_eq!(kv.get("frontend/gprd/a").await, Err(fault));
        kv.fail_with(None);
        assert!(kv.get("frontend/gprd/a").await.unwrap().is_some());
    }
}
