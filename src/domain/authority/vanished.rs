//! Keys that are gone from a listing, and which of them the source is asked for by name.

use std::collections::BTreeSet;

use crate::domain::listing::Listing;

/// The most vanished keys that are asked for by name before a smaller listing is applied. Above
/// it, one per parent path and as many again are asked.
pub const VANISHED_ASKED_MAX: usize = 64;

/// Paths of `before` that `after` lacks.
pub(super) fn vanished<'a>(before: &'a Listing, after: &Listing) -> Vec<&'a str> {
    let gone = before
        .entries
        .keys()
        .filter(|path| !after.entries.contains_key(*path));
    gone.map(String::as_str).collect()
}

/// All vanished paths up to the limit; above it one per parent path, and as many again.
pub(super) fn to_ask(vanished: &[&str]) -> Vec<String> {
    if vanished.len() <= VANISHED_ASKED_MAX {
        return vanished.iter().map(|path| (*path).to_owned()).collect();
    }
    let mut parents = BTreeSet::new();
    let parent = |path: &str| {
        path.rsplit_once('/')
            .map_or("", |(parent, _)| parent)
            .to_owned()
    };
    let (first, others): (Vec<&str>, Vec<&str>) = vanished
        .iter()
        .partition(|path| parents.insert(parent(path)));
    first
        .into_iter()
        .chain(others.into_iter().take(VANISHED_ASKED_MAX))
        .map(str::to_owned)
        .collect()
}
