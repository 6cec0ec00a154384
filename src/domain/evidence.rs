//! How far a store's history was ever seen to be: what an older one is recognised by.

use std::collections::BTreeMap;

use super::listing::Listing;
use super::sentinel::Generation;

/// The most keys that are remembered although the listing lacks them. Of more, those changed last
/// are.
pub const GONE_KEYS_MAX: usize = 1_024;

/// The furthest point of the desired state's history that was ever seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The highest generation; epoch 0: nothing was ever seen.
    pub highest: Generation,
    /// The highest index ever seen, of a key, of the prefix or of the whole table.
    pub table_index: u64,
    /// The highest modify index of each key of this epoch, deleted ones included.
    pub modified: BTreeMap<String, u64>,
}

impl Evidence {
    /// What a listing of this generation proves.
    #[must_use]
    pub fn of(listing: &Listing, generation: Generation) -> Self {
        let entries = listing.entries.iter();
        let modified: BTreeMap<_, _> = entries
            .map(|(path, entry)| (path.clone(), entry.modify_index))
            .collect();
        let highest_key = modified.values().max().copied().unwrap_or(0);
        Self {
            highest: generation,
            table_index: listing.index.max(highest_key),
            modified,
        }
    }

    /// Whether anything was ever seen.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.highest.epoch > 0
    }

    /// Takes over what goes further; a higher epoch is another history, of which alone counts.
    /// Returns whether anything did.
    pub fn raise(&mut self, other: &Self) -> bool {
        if other.highest.epoch > self.highest.epoch {
            *self = other.clone();
            return true;
        }
        if other.highest.epoch < self.highest.epoch {
            return false;
        }
        let mut grew = other.highest > self.highest || other.table_index > self.table_index;
        self.highest = self.highest.max(other.highest);
        self.table_index = self.table_index.max(other.table_index);
        for (path, &modified) in &other.modified {
            match self.modified.get_mut(path) {
                Some(known) if *known >= modified => {}
                Some(known) => {
                    *known = modified;
                    grew = true;
                }
                None => {
                    self.modified.insert(path.clone(), modified);
                    grew = true;
                }
            }
        }
        grew
    }

    /// What shows that a listing of this generation is older than what was seen.
    #[must_use]
    pub fn against(&self, listing: &Listing, generation: Generation) -> Option<String> {
        if generation.epoch > self.highest.epoch {
            return None;
        }
        if generation < self.highest {
            return Some(format!("generation {generation}, it was {}", self.highest));
        }
        listing.entries.iter().find_map(|(path, entry)| {
            let (now, seen) = (entry.modify_index, *self.modified.get(path)?);
            let path = path.escape_debug();
            (now < seen).then(|| format!("{path} is of index {now}, it was {seen}"))
        })
    }

    /// Forgets the oldest of too many keys that the listing lacks.
    pub fn bound(&mut self, listing: &Listing) {
        if self.modified.len() <= listing.entries.len() + GONE_KEYS_MAX {
            return;
        }
        let mut gone: Vec<_> = self
            .modified
            .iter()
            .filter(|(path, _)| !listing.entries.contains_key(*path))
            .map(|(path, modified)| (*modified, path.clone()))
            .collect();
        gone.sort();
        let excess = gone.len().saturating_sub(GONE_KEYS_MAX);
        for (_, path) in &gone[..excess] {
            self.modified.remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evidence(highest: (u64, u64), table_index: u64, modified: &[(&str, u64)]) -> Evidence {
        let (epoch, r#gen) = highest;
        let own = |(path, index): &(&str, u64)| ((*path).to_owned(), *index);
        Evidence {
            highest: Generation { epoch, r#gen },
            table_index,
            modified: modified.iter().map(own).collect(),
        }
    }

    fn any() -> impl Strategy<Value = Evidence> {
        let keys = proptest::collection::btree_map("[a-c]", 0_u64..4, 0..3);
        (0_u64..3, 0_u64..3, 0_u64..4, keys).prop_map(|(epoch, r#gen, table_index, modified)| {
            Evidence {
                highest: Generation { epoch, r#gen },
                table_index,
                modified,
            }
        })
    }

    #[test]
    fn a_higher_epoch_is_another_history() {
        let mut known = evidence((1, 9), 90, &[("a", 80)]);
        let new = evidence((2, 1), 5, &[("a", 4)]);
        assert!(known.raise(&new));
        assert_eq!(known, new);
        assert!(!known.raise(&evidence((1, 99), 99, &[("a", 99)])));
        assert_eq!(known, new);
    }

    #[test]
    fn of_many_deleted_keys_the_last_ones_are_remembered() {
        let count = u64::try_from(GONE_KEYS_MAX).unwrap() + 10;
        let mut known = evidence((1, 1), 1, &[("kept", 1)]);
        for index in 0..count {
            known.modified.insert(format!("gone-{index}"), index);
        }
        known.bound(&Listing::of(1, &[("kept", "drain")]));
        assert_eq!(known.modified.len(), GONE_KEYS_MAX + 1);
        assert!(known.modified.contains_key("kept"));
        assert!(!known.modified.contains_key("gone-9"));
        assert!(known.modified.contains_key("gone-10"));
    }

    proptest! {
        #[test]
        fn who_hears_of_what_first_does_not_matter(a in any(), b in any()) {
            let (mut ab, mut ba) = (a.clone(), b.clone());
            ab.raise(&b);
            ba.raise(&a);
            prop_assert_eq!(&ab, &ba);
            prop_assert!(!ab.clone().raise(&a));
            prop_assert!(!ab.clone().raise(&b));
        }
    }
}
