//! What a replica remembers over a restart, as bytes.
//!
//! ```text
//! tidegate-memory 1 <length of the rest in bytes> <FNV-1a of the rest, 16 hex digits>\n
//! <JSON>\n
//! ```
//! The head makes a torn file known as such, whatever JSON is left of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::hash::fnv1a;
use super::key::Prefix;
use super::listing::{Entry, Listing};
use super::sentinel::Generation;

const HEAD: &str = "tidegate-memory 1";

/// What a replica remembers over a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The last listing that was believed.
    pub listing: Arc<Listing>,
    /// The highest generation ever seen.
    pub highest: Generation,
    /// The highest index ever seen.
    pub table_index: u64,
    /// The epoch whose history went back, with the evidence.
    pub broken: Option<(u64, String)>,
    /// When this was written, by the wall clock.
    pub at: Timestamp,
}

/// Why bytes are no memory of this environment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Another program's, or another version's.
    #[error("it does not begin with {HEAD:?}: of another program or version")]
    Foreign,
    /// Cut short, or changed.
    #[error("it is torn: its length or its checksum is wrong")]
    Torn,
    /// Whole, and not understood.
    #[error("it cannot be understood: {0}")]
    Unreadable(String),
    /// Whole, and of another environment.
    #[error("it is of {0}")]
    Elsewhere(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    prefix: String,
    at: Timestamp,
    epoch: u64,
    r#gen: u64,
    table_index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<(u64, String)>,
    index: u64,
    entries: BTreeMap<String, WireEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEntry {
    modify_index: u64,
    /// Base64: a value may be any bytes.
    value: String,
}

impl Memory {
    /// Whether this says all that the other one says, whenever they were written.
    #[must_use]
    pub fn knows(&self, other: &Self) -> bool {
        let at = self.at;
        *self
            == Self {
                at,
                ..other.clone()
            }
    }

    /// The bytes to keep.
    #[must_use]
    pub fn to_bytes(&self, prefix: &Prefix) -> Vec<u8> {
        let entry = |(path, entry): (&String, &Entry)| {
            let value = STANDARD.encode(&entry.value);
            let modify_index = entry.modify_index;
            (
                path.clone(),
                WireEntry {
                    modify_index,
                    value,
                },
            )
        };
        let wire = Wire {
            prefix: prefix.as_str().to_owned(),
            at: self.at,
            epoch: self.highest.epoch,
            r#gen: self.highest.r#gen,
            table_index: self.table_index,
            broken: self.broken.clone(),
            index: self.listing.index,
            entries: self.listing.entries.iter().map(entry).collect(),
        };
        let json = serde_json::to_string(&wire).expect("strings and numbers always serialise");
        let body = json + "\n";
        let (length, sum) = (body.len(), fnv1a(body.bytes()));
        format!("{HEAD} {length} {sum:016x}\n{body}").into_bytes()
    }

    /// Reads what was kept for a prefix.
    ///
    /// # Errors
    /// See [`MemoryError`]. Nothing of such bytes is used.
    pub fn parse(bytes: &[u8], prefix: &Prefix) -> Result<Self, MemoryError> {
        let rest = bytes
            .strip_prefix(HEAD.as_bytes())
            .ok_or(MemoryError::Foreign)?;
        let line = rest
            .iter()
            .position(|&b| b == b'\n')
            .ok_or(MemoryError::Torn)?;
        let (numbers, body) = (&rest[..line], &rest[line + 1..]);
        let expected = format!(" {} {:016x}", body.len(), fnv1a(body.iter().copied()));
        if numbers != expected.as_bytes() {
            return Err(MemoryError::Torn);
        }
        let unreadable = |error: &dyn std::fmt::Display| MemoryError::Unreadable(error.to_string());
        let wire: Wire = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
        if wire.prefix != prefix.as_str() {
            return Err(MemoryError::Elsewhere(wire.prefix));
        }
        let mut entries = BTreeMap::new();
        for (path, entry) in wire.entries {
            let value = STANDARD
                .decode(&entry.value)
                .map_err(|error| unreadable(&error))?;
            let (value, modify_index) = (value.into(), entry.modify_index);
            entries.insert(
                path,
                Entry {
                    value,
                    modify_index,
                },
            );
        }
        let index = wire.index;
        Ok(Self {
            listing: Arc::new(Listing { index, entries }),
            highest: Generation {
                epoch: wire.epoch,
                r#gen: wire.r#gen,
            },
            table_index: wire.table_index,
            broken: wire.broken,
            at: wire.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> Prefix {
        Prefix::new("frontend", "gprd").unwrap()
    }

    fn memory(entries: BTreeMap<String, Vec<u8>>) -> Memory {
        let entry = |(path, value): (String, Vec<u8>)| {
            let value = value.into();
            (
                path,
                Entry {
                    value,
                    modify_index: 7,
                },
            )
        };
        Memory {
            listing: Arc::new(Listing {
                index: 9,
                entries: entries.into_iter().map(entry).collect(),
            }),
            highest: Generation { epoch: 3, r#gen: 4 },
            table_index: 11,
            broken: Some((2, "older".to_owned())),
            at: "2026-11-30T10:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn what_is_not_whole_or_not_ours_is_refused() {
        let bytes =
            memory([("canary-state".to_owned(), b"drain".to_vec())].into()).to_bytes(&prefix());
        let other = Prefix::new("frontend", "gstg").unwrap();
        assert_eq!(
            Memory::parse(&bytes, &other),
            Err(MemoryError::Elsewhere("frontend/gprd/".to_owned()))
        );
        assert_eq!(Memory::parse(b"", &prefix()), Err(MemoryError::Foreign));
        assert_eq!(
            Memory::parse(b"tidegate-memory 2 0 0\n", &prefix()),
            Err(MemoryError::Foreign)
        );
        for length in HEAD.len()..bytes.len() {
            assert_eq!(
                Memory::parse(&bytes[..length], &prefix()),
                Err(MemoryError::Torn),
                "{length}"
            );
        }
        let mut changed = bytes;
        let last = changed.len() - 3;
        changed[last] ^= 1;
        assert_eq!(Memory::parse(&changed, &prefix()), Err(MemoryError::Torn));
    }

    proptest! {
        #[test]
        fn what_was_kept_reads_back(entries in proptest::collection::btree_map(".{0,9}", proptest::collection::vec(any::<u8>(), 0..20), 0..5)) {
            let memory = memory(entries);
            prop_assert_eq!(Memory::parse(&memory.to_bytes(&prefix()), &prefix()), Ok(memory));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Memory::parse(&bytes, &prefix());
            let _ = Memory::parse(&[HEAD.as_bytes(), &bytes].concat(), &prefix());
        }
    }
}
