//! Which of two listings is further in the history.

use std::cmp::Ordering;

use crate::domain::hash::fnv1a;
use crate::domain::listing::Listing;
use crate::domain::sentinel::Generation;

/// Compares by (epoch, gen, index, digest), never by age: who was confirmed last may have been
/// confirmed by a store that went back.
pub(super) fn order(
    (a, of_a): (&Listing, Generation),
    (b, of_b): (&Listing, Generation),
) -> Ordering {
    (of_a, a.index).cmp(&(of_b, b.index)).then_with(|| {
        if a.same_contents(b) {
            Ordering::Equal
        } else {
            digest(a).cmp(&digest(b)).then(Ordering::Less)
        }
    })
}

fn digest(listing: &Listing) -> u64 {
    fnv1a(listing.entries.iter().flat_map(|(path, entry)| {
        let lengths = [path.len(), entry.value.len()].map(|length| length as u64);
        let numbers = [lengths[0], lengths[1], entry.modify_index];
        let head = numbers.into_iter().flat_map(u64::to_le_bytes);
        head.chain(path.bytes()).chain(entry.value.iter().copied())
    }))
}
