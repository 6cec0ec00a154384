//! Which of two listings is further in the history.

use std::cmp::Ordering;

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
            a.digest().cmp(&b.digest()).then(Ordering::Less)
        }
    })
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
