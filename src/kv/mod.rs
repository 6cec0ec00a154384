//! Where desired state is kept: one trait, three stores.
//!
//! - [`consul`]: Consul KV, for a fleet.
//! - [`directory`]: a folder whose files are the keys, the embedded default.
//! - [`memory`]: in the process, for tests.
//!
//! Full keys (`frontend/gprd/canary-state`) go in; a [`Listing`] comes out with paths relative
//! to the prefix that was asked for.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use thiserror::Error;

use crate::domain::key::Prefix;
pub use crate::domain::listing::Outline;
use crate::domain::listing::{Entry, Listing};

pub mod consul;
pub mod directory;
pub mod expiries;
pub mod memory;
pub mod request;
pub mod source;

/// The largest value that every store takes, in bytes. Consul's own limit is the same.
pub const VALUE_BYTES_MAX: usize = 524_288;
/// The most operations of one transaction that every store takes. Consul 1.8 takes 64, newer ones 128.
pub const OPERATIONS_MAX: usize = 64;

/// A key-value store with an index that only grows while the store keeps its history.
///
/// Every read sees all writes acknowledged before it was sent, or fails. No method logs, retries
/// or remembers: following a store is `crate::watch`'s work.
pub trait Kv: Send + Sync + 'static {
    /// What this store can and cannot do.
    fn capabilities(&self) -> Capabilities;

    /// What somebody who runs this store should know, for example that a broken file was set
    /// aside. The list only grows, and is short.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// The store's own clock, as its last answer to a light read showed it; `None`: it has none.
    fn clock(&self) -> Option<ClockReading> {
        None
    }

    /// Reads every entry below the prefix, at once. No entry is an empty listing, never an error.
    /// A folder marker of the prefix itself (Consul's web page makes one) is not below it. The
    /// index is never 0.
    ///
    /// # Errors
    /// See [`KvError`]. A listing known to be filtered by access rights is [`KvError::Denied`].
    fn list(&self, prefix: &Prefix) -> impl Future<Output = Result<Listing, KvError>> + Send;

    /// Blocking read: the same as [`Kv::list`], once the index is above `after`, or after `wait`
    /// (plus up to a sixteenth of it). `after` 0 answers at once. It may return early, late, or
    /// with a lower index: the caller compares contents.
    ///
    /// # Errors
    /// See [`KvError`].
    fn watch(
        &self,
        prefix: &Prefix,
        after: u64,
        wait: Duration,
    ) -> impl Future<Output = Result<Listing, KvError>> + Send;

    /// Light read: the index of the prefix, and each path up to and with its first slash.
    ///
    /// # Errors
    /// See [`KvError`].
    fn confirm(&self, prefix: &Prefix) -> impl Future<Output = Result<Outline, KvError>> + Send;

    /// Reads one key; `None` when it is not there.
    ///
    /// # Errors
    /// See [`KvError`]. With Consul a missing key that may not be read is [`KvError::Denied`].
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Entry>, KvError>> + Send;

    /// The index of the whole table: no write anywhere in the store, however old, is above it.
    /// Lower than once seen means that the store's history went back (a restore, a wipe).
    ///
    /// # Errors
    /// See [`KvError`].
    fn table_index(&self, prefix: &Prefix) -> impl Future<Output = Result<u64, KvError>> + Send;

    /// Applies all operations in one step, or none of them. A value that stands already is no
    /// change: it keeps its index, and nobody is woken.
    ///
    /// # Errors
    /// [`KvError::OutcomeUnknown`] when the write may or may not have happened (read back before
    /// anything else is decided); otherwise nothing was written. [`KvError::BadRequest`] for what
    /// [`request::check_operations`] refuses.
    fn transact(
        &self,
        operations: &[Operation],
    ) -> impl Future<Output = Result<Outcome, KvError>> + Send;
}

/// One look at a store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What it showed, in whole seconds, cut off.
    pub date: Timestamp,
    /// Our wall clock when the request was sent.
    pub sent: Timestamp,
    /// And when the answer came.
    pub received: Timestamp,
}

/// The differences between stores that a caller may have to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one question about a store, with yes or no for an answer"
)]
pub struct Capabilities {
    /// Whether `transact` can succeed at all.
    pub writable: bool,
    /// Whether a key may also be the parent of other keys (`a` beside `a/b`). A folder cannot.
    pub key_beside_children: bool,
    /// Whether keys that begin a segment with a dot (`a/.b`) or end in a slash (`a/`) can be kept.
    /// A folder cannot; `transact` refuses them with [`KvError::BadRequest`]. What
    /// [`request::check_key`] refuses no store takes.
    pub odd_keys: bool,
    /// Whether the store has access rights of its own, so that [`KvError::Denied`] can occur.
    pub access_rights: bool,
    /// Whether one transaction is whole for every reader of the store. In a folder it is whole for
    /// this program's readers alone.
    pub atomic_for_all: bool,
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Writes a value if the expectation holds.
    Set {
        /// Full key.
        key: String,
        /// At most [`VALUE_BYTES_MAX`] bytes.
        value: Bytes,
        /// What must hold.
        expect: Expect,
    },
    /// Deletes a key if the expectation holds.
    Delete {
        /// Full key.
        key: String,
        /// What must hold. [`Expect::Missing`] makes it a mere check.
        expect: Expect,
    },
}

/// What must hold of a key for a transaction to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Anything,
    /// The key is not there.
    Missing,
    /// The key is there, last changed at this index.
    Index(u64),
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Applied; every entry that this changed has this modify index.
    Committed {
        /// The store's index of the change. Where a store does not tell it (Consul, for deletes
        /// alone or one very large value) an index read just after, which is not below it.
        index: u64,
    },
    /// Nothing was applied: an expectation did not hold.
    Conflict {
        /// The key of the first expectation that failed, as far as the store tells.
        key: Option<String>,
    },
}

/// Why a store did not do what was asked. The text is for the person who can mend it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KvError {
    /// The store refuses these rights (Consul: 403, or a listing that it says was filtered).
    #[error("access denied: {0}")]
    Denied(String),
    /// No usable answer: refused, reset, timed out, no leader, any 5xx.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// An answer that is not what the store's protocol promises.
    #[error("not understood: {0}")]
    BadAnswer(String),
    /// The request itself cannot be carried out by this store: a key or size that it cannot hold.
    #[error("{0}")]
    BadRequest(String),
    /// The store cannot be written here.
    #[error("read only: {0}")]
    ReadOnly(String),
    /// A write that may or may not have been applied.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
}

impl Operation {
    /// The full key that this operation is about.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Set { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    /// What must hold of that key.
    #[must_use]
    pub const fn expect(&self) -> Expect {
        match self {
            Self::Set { expect, .. } | Self::Delete { expect, .. } => *expect,
        }
    }
}
