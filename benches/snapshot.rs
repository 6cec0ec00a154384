//! From KV values to a snapshot: what a replica does once per change.

use divan::{Bencher, black_box};
use tidegate::domain::directive::Directive;
use tidegate::domain::listing::Listing;
use tidegate::domain::snapshot::Snapshot;

#[path = "parts/listing.rs"]
mod listing;

fn main() {
    divan::main();
}

#[divan::bench(args = [10, 1_000, 100_000])]
fn build(bencher: Bencher<'_, '_>, directives: usize) {
    let listing = listing::listing(directives);
    bencher.bench(|| Snapshot::build(black_box(&listing)).is_ok());
}

/// After one key has changed: the rest is as it was.
#[divan::bench(args = [10, 1_000, 100_000])]
fn build_after_one_change(bencher: Bencher<'_, '_>, directives: usize) {
    let before = listing::listing(directives);
    let snapshot = Snapshot::build(&before).expect("it has a sentinel");
    let after = changed(&before);
    bencher.bench(|| Snapshot::build_after(black_box(&after), (&before, &snapshot)).is_ok());
}

/// What has changed from one snapshot to the next: one key.
#[divan::bench(args = [10, 1_000, 100_000])]
fn differences(bencher: Bencher<'_, '_>, directives: usize) {
    let before = listing::listing(directives);
    let after = changed(&before);
    let earlier = Snapshot::build(&before).expect("it has a sentinel");
    let later = Snapshot::build_after(&after, (&before, &earlier)).expect("so has this");
    assert_eq!(later.differences(&earlier).len(), 1);
    bencher.bench(|| black_box(&later).differences(black_box(&earlier)).len());
}

/// Comparing contents, which each reading pays, changed or not.
#[divan::bench(args = [10, 1_000, 100_000])]
fn same_contents(bencher: Bencher<'_, '_>, directives: usize) {
    let (one, other) = (listing::listing(directives), listing::listing(directives));
    bencher.bench(|| black_box(&one).same_contents(black_box(&other)));
}

#[divan::bench(args = ["drain", "weight", "ramp", "plan", "bare word"])]
fn parse_directive(bencher: Bencher<'_, '_>, kind: &str) {
    let kinds = ["drain", "weight", "ramp", "plan", "bare word"];
    let at = kinds
        .iter()
        .position(|known| *known == kind)
        .expect("one of the kinds");
    let value = listing::directive(at);
    bencher.bench(|| Directive::parse(black_box(value.as_bytes())).is_ok());
}

/// The same with another value in the middle.
fn changed(listing: &Listing) -> Listing {
    let mut listing = listing.clone();
    listing.index += 1;
    let (index, middle) = (listing.index, listing.entries.len() / 2);
    let entry = listing.entries.values_mut().nth(middle);
    let entry = entry.expect("it holds some");
    entry.value = "40%".into();
    entry.modify_index = index;
    listing
}
