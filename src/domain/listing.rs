//! The raw KV entries of the whole prefix at one index.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::hash::fnv1a;

/// One KV entry as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value; empty for an empty value and for a folder marker (Consul says `null` for both).
    pub value: Bytes,
    /// The store's index at which this entry was last changed.
    pub modify_index: u64,
}

/// All entries below the prefix, by their path relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The store's index of this reading. It may go back without a change of the contents
    /// (tombstones are collected after about 15 minutes), so it never decides alone.
    pub index: u64,
    /// Path relative to the prefix → entry.
    pub entries: BTreeMap<String, Entry>,
}

/// What a light read (`?keys&separator=/`) shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The store's index of the prefix.
    pub index: u64,
    /// Each path below the prefix up to and with its first slash.
    pub names: BTreeSet<String>,
}

impl Listing {
    /// Whether both hold the same entries. The index does not count: Consul hands out other
    /// contents under the same index, and the same contents under another.
    #[must_use]
    pub fn same_contents(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    /// A hash of its contents: of two listings with the same contents it is the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        fnv1a(self.entries.iter().flat_map(|(path, entry)| {
            let lengths = [path.len(), entry.value.len()].map(|length| length as u64);
            let numbers = [lengths[0], lengths[1], entry.modify_index];
            let head = numbers.into_iter().flat_map(u64::to_le_bytes);
            head.chain(path.bytes()).chain(entry.value.iter().copied())
        }))
    }

    /// What a light read of this listing would show.
    #[must_use]
    pub fn outline(&self) -> Outline {
        let names = self
            .entries
            .keys()
            .map(|path| roll_up(path).to_owned())
            .collect();
        Outline {
            index: self.index,
            names,
        }
    }
}

#[cfg(test)]
impl Listing {
    /// A listing of texts, each last changed at index 1, for tests.
    pub(crate) fn of(index: u64, entries: &[(&str, &str)]) -> Self {
        let entry = |(path, value): &(&str, &str)| {
            let value = Bytes::copy_from_slice(value.as_bytes());
            let modify_index = 1;
            let entry = Entry {
                value,
                modify_index,
            };
            ((*path).to_owned(), entry)
        };
        Self {
            index,
            entries: entries.iter().map(entry).collect(),
        }
    }

    /// The same with a good sentinel.
    pub(crate) fn with_sentinel(index: u64, entries: &[(&str, &str)]) -> Self {
        let sentinel = ("_meta", r#"{"schema":1,"epoch":1,"gen":1}"#);
        Self::of(index, &[entries, &[sentinel]].concat())
    }
}

/// A path up to and with its first slash.
#[must_use]
pub fn roll_up(path: &str) -> &str {
    path.find('/').map_or(path, |slash| &path[..=slash])
}
