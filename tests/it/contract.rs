//! What every store promises: one suite, run over each of them.
//!
//! A new store is one test: `contract(|prefix| Arc::new(MyStore::new(...)))`.

#![allow(clippy::unwrap_used, reason = "checks fail by panicking, as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::{Entry, Listing, roll_up};
use tidegate::kv::memory::MemoryKv;
use tidegate::kv::{
    Expect, Kv, KvError, OPERATIONS_MAX, Operation, Outcome, Outline, VALUE_BYTES_MAX,
};
use tokio::time::timeout;

use crate::harness::consul::Consul;

mod reading;
mod writing;

/// Longer than any wake-up takes; a watch that lasts as long was not woken.
const WAIT_LONG: Duration = Duration::from_secs(20);
/// Short beside the test, long beside the time that one answer takes.
const WAIT_SHORT: Duration = Duration::from_millis(400);
/// A watch that has not answered for so long is blocked.
const QUIET: Duration = Duration::from_millis(50);

#[test]
fn the_store_in_memory_keeps_the_contract() {
    let kv = Arc::new(MemoryKv::new());
    contract(|_| kv.clone());
}

#[test]
fn a_real_consul_keeps_the_contract() {
    let consul = Consul::dev();
    let kv = Arc::new(crate::consul_store::connect(&consul, &[]));
    contract(|_| kv.clone());
}

/// Runs every check, each below a prefix of its own, and fails with the names of those that fail.
pub(crate) fn contract<K: Kv>(store_for: impl Fn(&Prefix) -> Arc<K>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut failed = Vec::new();
    macro_rules! run {
        ($($check:path),+ $(,)?) => {$(
            let name = stringify!($check).rsplit("::").next().unwrap().trim();
            let prefix = Prefix::new("contract", &name.replace('_', "-")).unwrap();
            let store = Store { kv: store_for(&prefix), prefix };
            // In a task of its own, so that one failure does not hide the next.
            if runtime.block_on(runtime.spawn($check(store))).is_err() {
                failed.push(name);
            }
        )+};
    }
    run!(
        reading::an_empty_prefix_is_an_empty_listing,
        reading::the_first_key_wakes_a_watcher,
        reading::the_deletion_of_the_last_key_wakes_a_watcher,
        reading::the_index_grows_with_every_change,
        reading::a_watch_ends_with_its_wait,
        reading::a_watch_after_zero_answers_at_once,
        reading::a_write_outside_the_prefix_does_not_show,
        reading::one_key_is_read_or_is_not_there,
        reading::an_outline_shows_each_path_up_to_its_first_slash,
        reading::the_table_index_is_above_all_writes,
        reading::ten_thousand_keys_are_listed,
        writing::a_set_keeps_to_its_expectation,
        writing::a_delete_keeps_to_its_expectation,
        writing::a_transaction_is_applied_whole_or_not_at_all,
        writing::a_watcher_sees_a_transaction_whole,
        writing::the_same_value_again_changes_nothing,
        writing::sixty_four_operations_are_possible_and_no_more,
        writing::the_largest_value_is_kept_and_no_larger,
        writing::values_come_back_byte_for_byte,
        writing::keys_come_back_under_their_own_name,
        writing::keys_that_mean_another_key_are_refused,
        writing::a_key_may_stand_beside_its_children_where_the_store_can,
        writing::senseless_transactions_are_refused,
        writing::exactly_one_of_the_writers_of_a_round_wins,
        writing::no_increment_is_lost,
    );
    assert!(failed.is_empty(), "these checks failed: {failed:#?}");
}

/// A store, and a prefix that nothing else uses.
pub(crate) struct Store<K> {
    kv: Arc<K>,
    prefix: Prefix,
}

impl<K: Kv> Store<K> {
    fn key(&self, path: &str) -> String {
        self.prefix.key(path)
    }

    fn set(&self, path: &str, value: impl Into<Bytes>, expect: Expect) -> Operation {
        Operation::Set {
            key: self.key(path),
            value: value.into(),
            expect,
        }
    }

    fn delete(&self, path: &str, expect: Expect) -> Operation {
        Operation::Delete {
            key: self.key(path),
            expect,
        }
    }

    async fn list(&self) -> Listing {
        self.kv.list(&self.prefix).await.unwrap()
    }

    async fn get(&self, path: &str) -> Option<Entry> {
        self.kv.get(&self.key(path)).await.unwrap()
    }

    /// Applies the operations, which must succeed, and gives the index.
    async fn commit(&self, operations: &[Operation]) -> u64 {
        match self.kv.transact(operations).await {
            Ok(Outcome::Committed { index }) => index,
            other => panic!("{operations:?}: {other:?}"),
        }
    }

    async fn put(&self, path: &str, value: impl Into<Bytes>) -> u64 {
        self.commit(&[self.set(path, value, Expect::Anything)])
            .await
    }

    /// Watches from `before` on, acts once the watch is blocked, and gives the first listing with
    /// other contents. A watch may return early with what was known; it must not sleep over the
    /// change.
    async fn woken_by(&self, before: Listing, act: impl Future<Output = ()>) -> Listing {
        let begin = Instant::now();
        let mut after = before.index;
        let mut act = Some(act);
        loop {
            let mut watch = pin!(self.kv.watch(&self.prefix, after, WAIT_LONG));
            let listing = if let Ok(early) = timeout(QUIET, &mut watch).await {
                early.unwrap()
            } else {
                if let Some(act) = act.take() {
                    act.await;
                }
                watch.await.unwrap()
            };
            assert!(begin.elapsed() < WAIT_LONG, "not woken: {listing:?}");
            if !listing.same_contents(&before) {
                return listing;
            }
            after = listing.index;
        }
    }
}

/// The values of a listing by path.
fn values(listing: &Listing) -> BTreeMap<&str, &[u8]> {
    let entries = listing.entries.iter();
    entries
        .map(|(path, entry)| (path.as_str(), entry.value.as_ref()))
        .collect()
}
