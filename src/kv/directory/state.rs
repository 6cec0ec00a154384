//! What a folder cannot say by itself: the index of the table, and at which index each key was
//! last changed.
//!
//! Kept in `.tidegate/state.json`. It holds a digest of each value, so that an edit by hand, which
//! tells nobody, gets a new index from whoever reads the folder next.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::path::Scope;
use super::scan::Values;

/// The layout of the file.
const VERSION: u8 = 1;
/// For how many folders the last deletion is known. Beyond it the oldest are merged into one
/// index that holds for all folders.
const REMOVALS_MAX: usize = 1_024;

/// The indexes of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    version: u8,
    /// Nothing in the folder was changed above it.
    pub(super) index: u64,
    keys: BTreeMap<String, Known>,
    /// Folder (with its closing slash) → the index of the last deletion in it. Without it the
    /// index of a prefix would fall when its newest key is deleted.
    removals: BTreeMap<String, u64>,
    /// No deletion that is missing from `removals` was above it.
    removals_floor: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    modify_index: u64,
    digest: String,
}

impl State {
    /// The state of a folder that nobody has looked at yet.
    pub(super) const fn starting_at(index: u64) -> Self {
        Self {
            version: VERSION,
            index,
            keys: BTreeMap::new(),
            removals: BTreeMap::new(),
            removals_floor: 0,
        }
    }

    /// Reads the file; the text says what is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let state: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if state.version != VERSION {
            return Err(format!("version {} is not known here", state.version));
        }
        let indexes = state.keys.values().map(|known| known.modify_index);
        let above = indexes
            .chain(state.removals.values().copied())
            .chain([state.removals_floor])
            .any(|index| index > state.index);
        if above || state.index == u64::MAX {
            return Err("an index is above the index of the table".to_owned());
        }
        Ok(state)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps of text and numbers can be written as JSON")
    }

    /// At which index a key was last changed.
    pub(super) fn modify_index(&self, key: &str) -> Option<u64> {
        self.keys.get(key).map(|known| known.modify_index)
    }

    /// The index of a prefix: that of the last change below it, or of the table when nothing below
    /// it was ever changed. So does Consul.
    pub(super) fn prefix_index(&self, prefix: &str) -> u64 {
        let keys = below(&self.keys, prefix).map(|(_, known)| known.modify_index);
        let removals = below(&self.removals, prefix).map(|(_, index)| *index);
        keys.chain(removals)
            .max()
            .map_or(self.index, |index| index.max(self.removals_floor))
    }

    /// The keys of the scope that were there before and are not now.
    pub(super) fn gone(&self, scope: Scope<'_>, values: &Values) -> Vec<String> {
        let from = match scope {
            Scope::Below(text) | Scope::Key(text) => text,
        };
        below(&self.keys, from)
            .map(|(key, _)| key.clone())
            .filter(|key| scope.holds(key) && !values.contains_key(key))
            .collect()
    }

    /// Takes over what is really there. Whatever differs was changed by hand and gets a new
    /// index. Returns whether anything did.
    pub(super) fn reconcile(&mut self, scope: Scope<'_>, values: &Values) -> bool {
        let next = self.index + 1;
        let gone = self.gone(scope, values);
        for key in &gone {
            self.removed(key, next);
        }
        let mut changed = !gone.is_empty();
        for (key, value) in values {
            let digest = digest(value);
            if self
                .keys
                .get(key)
                .is_none_or(|known| known.digest != digest)
            {
                self.written(key, digest, next);
                changed = true;
            }
        }
        changed
    }

    /// A key has a new value.
    pub(super) fn written(&mut self, key: &str, digest: String, index: u64) {
        self.index = self.index.max(index);
        let known = Known {
            modify_index: index,
            digest,
        };
        self.keys.insert(key.to_owned(), known);
    }

    /// A key is no longer there.
    pub(super) fn removed(&mut self, key: &str, index: u64) {
        self.index = self.index.max(index);
        self.keys.remove(key);
        let folder = key.rfind('/').map_or("", |slash| &key[..=slash]);
        self.removals.insert(folder.to_owned(), index);
        while self.removals.len() > REMOVALS_MAX {
            let oldest = self.removals.iter().min_by_key(|(_, index)| **index);
            let Some((folder, index)) = oldest.map(|(folder, index)| (folder.clone(), *index))
            else {
                return;
            };
            self.removals.remove(&folder);
            self.removals_floor = self.removals_floor.max(index);
        }
    }

    /// Continues from what this process remembers while the folder cannot be written: no index
    /// that was seen is ever undercut.
    pub(super) fn never_below(&mut self, memory: &Self) {
        self.index = self.index.max(memory.index);
        for (key, known) in &mut self.keys {
            let remembered = memory.keys.get(key);
            if let Some(remembered) = remembered.filter(|other| other.digest == known.digest) {
                known.modify_index = known.modify_index.max(remembered.modify_index);
            }
        }
        for (folder, index) in &memory.removals {
            let removal = self.removals.entry(folder.clone()).or_insert(*index);
            *removal = (*removal).max(*index);
        }
        self.removals_floor = self.removals_floor.max(memory.removals_floor);
    }
}

/// A digest of a value: FNV-1a over 128 bits, and the length. It tells edits apart; it guards
/// against nobody, since whoever can write the folder needs no collision.
pub(super) fn digest(value: &[u8]) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = value.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    });
    let mut text = String::with_capacity(40);
    write!(text, "{hash:032x}-{}", value.len()).expect("writing to a String cannot fail");
    text
}

fn below<'a, T>(
    map: &'a BTreeMap<String, T>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    map.range(prefix.to_owned()..)
        .take_while(move |(key, _)| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn values(entries: &[(&str, &str)]) -> Values {
        entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Bytes::copy_from_slice(value.as_bytes())))
            .collect()
    }

    #[test]
    fn an_edit_gets_a_new_index_and_leaves_the_others_theirs() {
        let mut state = State::starting_at(100);
        assert!(state.reconcile(Scope::Below("a/"), &values(&[("a/x", "1"), ("a/y", "1")])));
        assert_eq!(state.prefix_index("a/"), 101);
        assert!(!state.reconcile(Scope::Below("a/"), &values(&[("a/x", "1"), ("a/y", "1")])));
        assert!(state.reconcile(Scope::Key("a/x"), &values(&[("a/x", "2")])));
        assert_eq!(state.modify_index("a/x"), Some(102));
        assert_eq!(state.modify_index("a/y"), Some(101));
        assert_eq!(State::parse(&state.to_json()), Ok(state));
    }

    #[test]
    fn the_index_of_a_prefix_does_not_fall_with_a_deletion_and_ignores_other_prefixes() {
        let mut state = State::starting_at(100);
        state.reconcile(Scope::Below("a/"), &values(&[("a/x", "1"), ("a/y", "1")]));
        state.reconcile(Scope::Below("a/"), &values(&[("a/y", "1")]));
        assert_eq!(state.prefix_index("a/"), 102);
        state.reconcile(Scope::Below("b/"), &values(&[("b/x", "1")]));
        assert_eq!(state.prefix_index("a/"), 102);
        assert_eq!(state.index, 103);
        assert_eq!(state.prefix_index("c/"), 103);
    }

    #[test]
    fn many_deletions_stay_bounded_and_lower_no_index() {
        let mut state = State::starting_at(0);
        for n in 0..REMOVALS_MAX as u64 + 10 {
            state.removed(&format!("f{n}/x"), n + 1);
        }
        assert_eq!(state.removals.len(), REMOVALS_MAX);
        assert_eq!(state.removals_floor, 10);
    }

    #[test]
    fn a_state_that_contradicts_itself_is_refused() {
        for bad in [
            &b""[..],
            b"{}",
            b"\xff\xfe",
            br#"{"version":2,"index":1,"keys":{},"removals":{},"removals_floor":0}"#,
            br#"{"version":1,"index":1,"keys":{},"removals":{"a/":2},"removals_floor":0}"#,
            br#"{"version":1,"index":18446744073709551615,"keys":{},"removals":{},"removals_floor":0}"#,
        ] {
            assert!(State::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back(keys in proptest::collection::btree_map("[a-z/]{1,8}", ".{0,6}", 0..6), index in 1u64..1_000) {
            let pairs: Vec<_> = keys.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let mut state = State::starting_at(index);
            state.reconcile(Scope::Below(""), &values(&pairs));
            prop_assert_eq!(State::parse(&state.to_json()), Ok(state));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = State::parse(&bytes);
        }
    }
}
