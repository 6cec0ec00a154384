//! From a change in the store to the moment at which every answer has changed, with the real
//! programs: Consul or a folder, the service, and polls as HAProxy sends them.
//!
//! Prints a table. `TIDEGATE_WAKE_WRITES` sets the writes per line (200 unless set).

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::time::{Duration, Instant};

#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[path = "parts/listing.rs"]
mod listing;

use harness::consul::Consul;
use harness::state_folder::{META, StateFolder};
use harness::tidegate::Tidegate;
use harness::wait::{PATIENCE, let_pass};
use tidegate::domain::listing::Listing;

const KEYS: [usize; 3] = [10, 1_000, 10_000];
const WRITES: usize = 200;
/// Identities that are asked after each write: over `SO_REUSEPORT` they reach every worker.
const IDENTITIES: usize = 16;
/// The service reads at most once per 100 ms. Operators do not write faster than that, so each
/// write finds a service at rest; the odd length moves it against every timer.
const PAUSE: Duration = Duration::from_millis(137);
/// What a single write may take before this program gives up.
const WAKE_MAX: Duration = Duration::from_secs(20);
const PREFIX: &str = "frontend/gprd";

/// Where desired state is written.
enum Store {
    Consul(Box<Consul>),
    Folder(StateFolder),
}

fn main() {
    // `cargo bench` and `cargo test --benches` pass flags of their own.
    let writes = std::env::var("TIDEGATE_WAKE_WRITES").map_or(WRITES, |text| {
        let count = text.parse().ok().filter(|count| *count > 0);
        count.unwrap_or_else(|| panic!("TIDEGATE_WAKE_WRITES={text}: a number above 0 expected"))
    });
    println!("write sent -> all of {IDENTITIES} identities answered anew, {writes} writes each\n");
    println!("| store | keys | median | p99 | max |");
    println!("|---|---|---|---|---|");
    for keys in KEYS {
        measure(
            "Consul",
            &Store::Consul(Box::new(Consul::dev())),
            keys,
            writes,
        );
    }
    for keys in KEYS {
        measure("folder", &Store::Folder(StateFolder::new()), keys, writes);
    }
}

fn measure(name: &str, store: &Store, keys: usize, writes: usize) {
    store.fill(&listing::listing(keys - 1));
    let tidegate = store.serve();
    tidegate.await_answer("bench/row-0 canary", "up drain", PATIENCE);
    let mut spans: Vec<Duration> = (0..writes)
        .map(|at| {
            let_pass(PAUSE);
            let weight = 1 + at % 99;
            let begin = Instant::now();
            store.put("canary-state", format!("{weight}%"));
            await_all(&tidegate, weight, begin);
            begin.elapsed()
        })
        .collect();
    spans.sort_unstable();
    let at = |hundredth: usize| spans[(spans.len() - 1) * hundredth / 100].as_secs_f64() * 1e3;
    println!(
        "| {name} | {keys} | {:.1} ms | {:.1} ms | {:.1} ms |",
        at(50),
        at(99),
        at(100)
    );
}

/// Asks each identity until it has the new answer.
fn await_all(tidegate: &Tidegate, weight: usize, begin: Instant) {
    let expected = format!("up ready {weight}%");
    for row in 0..IDENTITIES {
        let line = format!("bench/row-{row} canary");
        while tidegate.ask_line(&line) != expected {
            assert!(
                begin.elapsed() < WAKE_MAX,
                "{line}: not {expected:?} within {WAKE_MAX:?}"
            );
        }
    }
}

impl Store {
    fn fill(&self, listing: &Listing) {
        self.put("_meta", META);
        for (path, entry) in listing.entries.iter().filter(|(path, _)| *path != "_meta") {
            self.put(path, &entry.value);
        }
        self.put("canary-state", "drain");
    }

    fn put(&self, path: &str, value: impl AsRef<[u8]>) {
        match self {
            Self::Folder(folder) => folder.put(path, value),
            Self::Consul(consul) => consul.kv_put(&format!("{PREFIX}/{path}"), value),
        }
    }

    fn serve(&self) -> Tidegate {
        match self {
            Self::Folder(folder) => Tidegate::start(&["--kv", &folder.kv()]),
            Self::Consul(consul) => Tidegate::start_on(consul),
        }
    }
}
