//! Which of two listings is further in the history.

use std::cmp::Ordering;

use crate::domain::hash::fnv1a;
use crate::domain::listing::Listing;
use crate::domain::sentinel::Generation;

/// Compares by (epoch, gen, index, number of keys, digest), never by age: who was confirmed last may
/// have been confirmed by a store that went back. A token that lost rights hides keys and adds none:
/// of two listings of one place the one with fewer keys is the part.
pub(super) fn order(
    (a, of_a): (&Listing, Generation),
    (b, of_b): (&Listing, Generation),
) -> Ordering {
    let place = |listing: &Listing, of| (of, listing.index, listing.entries.len());
    place(a, of_a).cmp(&place(b, of_b)).then_with(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_place_the_whole_is_greater_than_any_part_of_it() {
        let of = Generation { epoch: 1, r#gen: 5 };
        for extra in ["b", "c", "group-states/a", "nodes/n/canary-state"] {
            let part = Listing::of(20, &[("a", "drain")]);
            let whole = Listing::of(20, &[("a", "drain"), (extra, "drain")]);
            assert_eq!(order((&part, of), (&whole, of)), Ordering::Less, "{extra}");
            assert_eq!(
                order((&whole, of), (&part, of)),
                Ordering::Greater,
                "{extra}"
            );
            // A later index is later, whatever it holds.
            let later = Listing::of(21, &[]);
            assert_eq!(order((&later, of), (&whole, of)), Ordering::Greater);
        }
    }
}
