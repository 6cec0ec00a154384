//! The sentinel `_meta`: proof that a listing is the environment's, and how far its history is.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::key::META;
use super::listing::Listing;
use super::trace_parent::TraceParent;

/// The schema of the KV that this version reads and writes.
pub const SCHEMA: u64 = 1;

/// How far the history of the desired state is. Ordered: a higher epoch beats every generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation {
    /// Set by `init`, in Unix seconds: above 0. A higher one starts a new history.
    pub epoch: u64,
    /// One more in every transaction that this program writes.
    pub r#gen: u64,
}

/// Why a listing has no usable sentinel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SentinelError {
    /// No key at all under the prefix.
    #[error(
        "no key under the prefix: deleted, never set up (`tidegate init`), or the rights to list it are missing"
    )]
    Empty,
    /// Keys, but no sentinel.
    #[error(
        "{META} is missing beside {0} other keys: deleted (`tidegate accept` writes one, after showing what that changes), never set up (`tidegate init`), or not readable"
    )]
    Missing(usize),
    /// A sentinel that cannot be read.
    #[error("{META} cannot be read: {0}")]
    Unreadable(String),
    /// A schema of another version.
    #[error(
        "{META} has schema {0}, this version reads {SCHEMA}: update this program before the writers"
    )]
    Schema(u64),
}

/// Other fields are let pass: a later version may add one, and every reader of this one would
/// fall silent.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Wire {
    schema: u64,
    epoch: u64,
    r#gen: u64,
}

/// The part that nothing is decided by: of any type, it is let pass.
#[derive(Deserialize)]
struct Traced {
    trace: String,
}

#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    epoch: u64,
    r#gen: u64,
    at: String,
    by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
}

impl Generation {
    /// Reads the sentinel of a listing.
    ///
    /// # Errors
    /// See [`SentinelError`].
    pub fn read(listing: &Listing) -> Result<Self, SentinelError> {
        match listing.entries.get(META) {
            Some(entry) => Self::parse(&entry.value),
            None if listing.entries.is_empty() => Err(SentinelError::Empty),
            None => Err(SentinelError::Missing(listing.entries.len())),
        }
    }

    /// Reads the sentinel's value.
    ///
    /// # Errors
    /// [`SentinelError::Unreadable`] and [`SentinelError::Schema`].
    pub fn parse(value: &[u8]) -> Result<Self, SentinelError> {
        let wire: Wire = serde_json::from_slice(value)
            .map_err(|error| SentinelError::Unreadable(error.to_string()))?;
        if wire.schema != SCHEMA {
            return Err(SentinelError::Schema(wire.schema));
        }
        // It stands for "nothing was ever seen": a history of it could go back unnoticed.
        if wire.epoch == 0 {
            let text = "epoch 0: an epoch is above 0, and written in Unix seconds";
            return Err(SentinelError::Unreadable(text.to_owned()));
        }
        Ok(Self {
            epoch: wire.epoch,
            r#gen: wire.r#gen,
        })
    }

    /// The generation of the next transaction.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            epoch: self.epoch,
            r#gen: self.r#gen.saturating_add(1),
        }
    }

    /// The sentinel's value, as written by `by` at `at`, with the traceparent of that command: a key
    /// that is taken away has no place for it.
    #[must_use]
    pub fn to_json(self, at: jiff::Timestamp, by: &str, trace: Option<&str>) -> String {
        let Self { epoch, r#gen } = self;
        let written = Written {
            schema: SCHEMA,
            epoch,
            r#gen,
            at: at.to_string(),
            by,
            trace,
        };
        serde_json::to_string(&written).expect("strings and numbers always serialise")
    }
}

/// The span of the command that wrote this sentinel, where it says so.
#[must_use]
pub fn trace_of(value: &[u8]) -> Option<TraceParent> {
    let traced: Traced = serde_json::from_slice(value).ok()?;
    TraceParent::parse(&traced.trace)
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.r#gen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_listing_without_a_good_sentinel_says_why() {
        for (entries, text) in [
            (&[][..], "no key under the prefix"),
            (
                &[("canary-state", "ready"), ("settings", "{}")],
                "missing beside 2 other keys",
            ),
            (&[("_meta", "")], "cannot be read: EOF"),
            (
                &[("_meta", r#"{"schema":1,"epoch":1}"#)],
                "missing field `gen`",
            ),
            (
                &[("_meta", r#"{"schema":2,"epoch":1,"gen":1}"#)],
                "schema 2, this version reads 1",
            ),
            (
                &[("_meta", r#"{"schema":1,"epoch":0,"gen":1}"#)],
                "cannot be read: epoch 0",
            ),
        ] {
            let error = Generation::read(&Listing::of(1, entries))
                .unwrap_err()
                .to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_later_version_may_add_fields() {
        let value = r#"{"schema":1,"epoch":5,"gen":7,"at":"x","by":"y","new":[]}"#;
        assert_eq!(
            Generation::parse(value.as_bytes()),
            Ok(Generation { epoch: 5, r#gen: 7 })
        );
    }

    #[test]
    fn a_higher_epoch_beats_every_generation() {
        let generation = |epoch, r#gen| Generation { epoch, r#gen };
        assert!(generation(2, 1) > generation(1, 99));
        assert!(generation(1, 2) > generation(1, 1));
        assert_eq!(generation(1, u64::MAX).next(), generation(1, u64::MAX));
    }

    proptest! {
        #[test]
        fn a_written_sentinel_reads_back(epoch in 1..=u64::MAX, r#gen: u64, by in ".{0,10}") {
            let generation = Generation { epoch, r#gen };
            let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
            for trace in [None, Some(trace)] {
                let json = generation.to_json(jiff::Timestamp::UNIX_EPOCH, &by, trace);
                prop_assert_eq!(Generation::parse(json.as_bytes()), Ok(generation));
                let read = trace_of(json.as_bytes()).map(|trace| trace.to_string());
                prop_assert_eq!(read.as_deref(), trace);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Generation::parse(&bytes);
        }
    }
}
