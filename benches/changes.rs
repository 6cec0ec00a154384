//! Polls while the KV changes a hundred times a second: whether whoever answers is held up by what
//! is read, compiled and published beside it.
//!
//! A real Consul with 1,000 keys, the real service on it, 5,000 polls a second as HAProxy makes
//! them; and beside it, under the same changes, a responder that does not look at the KV: what the
//! machine itself loses by them. Prints medians of alternating rounds.
//! Environment: `TIDEGATE_BENCH_ROUNDS` (5), `TIDEGATE_BENCH_SECONDS` per measurement (3).

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[allow(
    dead_code,
    reason = "polls come at their times here, never one after the other"
)]
#[path = "parts/generator.rs"]
mod generator;
#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[path = "parts/listing.rs"]
mod listing;
#[path = "parts/measure.rs"]
mod measure;
#[path = "parts/yardstick.rs"]
mod yardstick;

use generator::{Generator, Pace, lines};
use harness::consul::Consul;
use harness::state_folder::META;
use harness::tidegate::Tidegate;
use harness::wait::let_pass;
use measure::{middle, number, pin};
use yardstick::{Manner, Running};

const KEYS: usize = 1_000;
const NODES: usize = 100;
const SERVERS: usize = 60;
const RATE: u32 = 5_000;
/// A hundred a second.
const CHANGE_EVERY: Duration = Duration::from_millis(10);
const PREFIX: &str = "frontend/gprd";

fn main() {
    yardstick::serve_if_asked(|| lines(NODES, SERVERS));
    let rounds = number("TIDEGATE_BENCH_ROUNDS", 5);
    let span = Duration::from_secs(number("TIDEGATE_BENCH_SECONDS", 3));
    let consul = Consul::dev();
    fill(&consul);
    let mut service = Tidegate::start_on(&consul);
    let (running, plain) = Running::start(Manner::Plain);
    pin(None, 0);
    pin(Some(service.process().id()), 1);
    pin(Some(running.process()), 1);
    let contenders = [("tidegate", service.agent()), (Manner::Plain.name(), plain)];
    let mut p99s = [[(); 2].map(|()| Vec::new()), [(); 2].map(|()| Vec::new())];
    let mut written = 0;
    for _ in 0..rounds {
        for (at, (_, address)) in contenders.iter().enumerate() {
            p99s[at][0].push(p99(*address, span));
            p99s[at][1].push(changing(&consul, &mut written, || p99(*address, span)));
        }
    }
    println!(
        "{RATE} polls a second, {KEYS} keys; {written} changes while {rounds} rounds of {span:?}\n"
    );
    println!("| p99 of a poll | quiet | under changes | ratio |");
    println!("|---|---|---|---|");
    for ((name, _), [quiet, changed]) in contenders.iter().zip(p99s) {
        let ratios = quiet
            .iter()
            .zip(&changed)
            .map(|(quiet, changed)| changed / quiet);
        let ratio = middle(ratios.collect());
        let [quiet, under] = [middle(quiet), middle(changed)];
        println!("| {name} | {quiet:.0} µs | {under:.0} µs | {ratio:.2} |");
    }
}

fn fill(consul: &Consul) {
    consul.kv_put(&format!("{PREFIX}/_meta"), META);
    for (path, entry) in listing::listing(KEYS).entries {
        if path != "_meta" && path != "canary-state" {
            consul.kv_put(&format!("{PREFIX}/{path}"), &entry.value);
        }
    }
    consul.kv_put(&format!("{PREFIX}/canary-state"), "drain");
}

/// Microseconds.
fn p99(target: SocketAddr, span: Duration) -> f64 {
    let outcome = Generator::new(target, lines(NODES, SERVERS)).run(Pace::Open(RATE), span);
    assert_eq!(outcome.wrong, 0, "of {} polls", outcome.polls);
    outcome.percentile(990).as_secs_f64() * 1e6
}

/// Measures while the KV changes; counts the changes.
fn changing(consul: &Consul, changes: &mut u64, measure: impl FnOnce() -> f64) -> f64 {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (begin, mut written) = (Instant::now(), 0_u32);
            while !ended.load(Ordering::Relaxed) {
                let weight = 1 + written % 99;
                consul.kv_put(&format!("{PREFIX}/canary-state"), format!("{weight}%"));
                written += 1;
                let due = begin + CHANGE_EVERY * written;
                let_pass(due.saturating_duration_since(Instant::now()));
            }
            u64::from(written)
        });
        let measured = measure();
        ended.store(true, Ordering::Relaxed);
        *changes += writer.join().expect("it writes until told");
        measured
    })
}
