//! From KV values to a snapshot: what a replica does once per change.

use divan::{Bencher, black_box};
use tidegate::domain::directive::Directive;
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
