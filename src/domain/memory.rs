//! What a replica remembers over a restart, as bytes: JSON, sealed so that a torn file is known as
//! such.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::evidence::Evidence;
use super::key::Prefix;
use super::listing::{Entry, Listing};
use super::sealed::{SealError, open, seal};
use super::sentinel::Generation;

const HEAD: &str = "tidegate-memory 1";

/// What a replica remembers over a restart, and tells its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The last listing that was believed; `None` when only others have told of the history.
    pub listing: Option<Arc<Listing>>,
    /// How far the history was ever seen to be.
    pub evidence: Evidence,
    /// The epoch whose history went back, with what showed it.
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

/// A memory as JSON. Other fields are let pass: it is a part of what replicas tell each other, and
/// a later version that adds one would be out of their sight as long as a rollout takes. What
/// changes the meaning of the others takes another [`HEAD`] and another schema.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wire {
    prefix: String,
    at: Timestamp,
    epoch: u64,
    r#gen: u64,
    table_index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<(u64, String)>,
    /// Absent: there is no listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    entries: BTreeMap<String, WireEntry>,
    /// Modify indexes that differ from those of the entries: mostly of deleted keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    modified: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireEntry {
    modify_index: u64,
    /// Base64: a value may be any bytes.
    value: String,
}

impl Memory {
    /// Whether this says all that the other one says, whenever they were written.
    #[must_use]
    pub fn knows(&self, other: &Self) -> bool {
        self.listing == other.listing
            && self.evidence == other.evidence
            && self.broken == other.broken
    }

    /// The bytes to keep.
    #[must_use]
    pub fn to_bytes(&self, prefix: &Prefix) -> Vec<u8> {
        let wire = self.to_wire(prefix);
        let json = serde_json::to_string(&wire).expect("strings and numbers always serialise");
        seal(HEAD, json + "\n")
    }

    /// Reads what was kept for a prefix.
    ///
    /// # Errors
    /// See [`MemoryError`]. Nothing of such bytes is used.
    pub fn parse(bytes: &[u8], prefix: &Prefix) -> Result<Self, MemoryError> {
        let body = open(HEAD, bytes).map_err(|error| match error {
            SealError::Foreign(_) => MemoryError::Foreign,
            SealError::Torn => MemoryError::Torn,
        })?;
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| MemoryError::Unreadable(error.to_string()))?;
        Self::from_wire(wire, prefix)
    }

    pub(super) fn to_wire(&self, prefix: &Prefix) -> Wire {
        let entry = |(path, entry): (&String, &Entry)| {
            let value = STANDARD.encode(&entry.value);
            let modify_index = entry.modify_index;
            let wire = WireEntry {
                modify_index,
                value,
            };
            (path.clone(), wire)
        };
        let listing = self.listing.as_deref();
        let listed = |path: &str| listing?.entries.get(path).map(|entry| entry.modify_index);
        let modified = self.evidence.modified.iter();
        Wire {
            prefix: prefix.as_str().to_owned(),
            at: self.at,
            epoch: self.evidence.highest.epoch,
            r#gen: self.evidence.highest.r#gen,
            table_index: self.evidence.table_index,
            broken: self.broken.clone(),
            index: listing.map(|listing| listing.index),
            entries: listing
                .into_iter()
                .flat_map(|listing| listing.entries.iter().map(entry))
                .collect(),
            modified: modified
                .filter(|(path, index)| listed(path) != Some(**index))
                .map(|(path, index)| (path.clone(), *index))
                .collect(),
        }
    }

    pub(super) fn from_wire(wire: Wire, prefix: &Prefix) -> Result<Self, MemoryError> {
        if wire.prefix != prefix.as_str() {
            return Err(MemoryError::Elsewhere(wire.prefix));
        }
        let (mut entries, mut modified) = (BTreeMap::new(), BTreeMap::new());
        for (
            path,
            WireEntry {
                modify_index,
                value,
            },
        ) in wire.entries
        {
            let value = STANDARD
                .decode(&value)
                .map_err(|error| MemoryError::Unreadable(error.to_string()))?
                .into();
            modified.insert(path.clone(), modify_index);
            let entry = Entry {
                value,
                modify_index,
            };
            entries.insert(path, entry);
        }
        modified.extend(wire.modified);
        let listing = |index| Arc::new(Listing { index, entries });
        Ok(Self {
            listing: wire.index.map(listing),
            evidence: Evidence {
                highest: Generation {
                    epoch: wire.epoch,
                    r#gen: wire.r#gen,
                },
                table_index: wire.table_index,
                modified,
            },
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
        let entries: BTreeMap<_, _> = entries.into_iter().map(entry).collect();
        let listed = entries.keys().map(|path| (path.clone(), 7));
        let modified = listed.chain([("deleted".to_owned(), 5)]).collect();
        Memory {
            listing: Some(Arc::new(Listing { index: 9, entries })),
            evidence: Evidence {
                highest: Generation { epoch: 3, r#gen: 4 },
                table_index: 11,
                modified,
            },
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
            prop_assert_eq!(Memory::parse(&memory.to_bytes(&prefix()), &prefix()), Ok(memory.clone()));
            let memory = Memory { listing: None, ..memory };
            prop_assert_eq!(Memory::parse(&memory.to_bytes(&prefix()), &prefix()), Ok(memory));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Memory::parse(&bytes, &prefix());
            let _ = Memory::parse(&[HEAD.as_bytes(), &bytes].concat(), &prefix());
        }
    }
}
