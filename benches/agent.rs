//! Polls as HAProxy makes them, answered by the real service and, in the same run, by the smallest
//! responder that is right. One core asks, one answers.
//!
//! Prints a table of medians and their ratios to plain epoll, and from them the sizes of fleets.
//! Environment: `TIDEGATE_BENCH_ROUNDS` (5), `TIDEGATE_BENCH_SECONDS` per measurement (2). With
//! `TIDEGATE_BENCH_TARGET` polls only go there, of `TIDEGATE_BENCH_NODES` (100) nodes with
//! `TIDEGATE_BENCH_SERVERS` (60) servers each.

#![allow(
    clippy::print_stdout,
    reason = "the tables are what this program is for"
)]

use std::net::SocketAddr;
use std::time::Duration;

#[path = "parts/generator.rs"]
mod generator;
#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[path = "parts/measure.rs"]
mod measure;
#[path = "parts/sizes.rs"]
mod sizes;
#[path = "parts/yardstick.rs"]
mod yardstick;

use generator::{Generator, Outcome, Pace, lines};
use harness::state_folder::StateFolder;
use harness::tidegate::Tidegate;
use measure::{middle, number, pin};
use yardstick::{Manner, Running};

/// 6,000 identities.
const NODES: usize = 100;
const SERVERS: usize = 60;
const UNDER_WAY: usize = 64;
/// A second; a core does some 40,000.
const RATE: u32 = 5_000;
/// Where polls go when nothing is to be compared: for tools that look at a service.
const TARGET: &str = "TIDEGATE_BENCH_TARGET";

/// Who answers.
struct Contender {
    name: &'static str,
    address: SocketAddr,
    process: u32,
    closed: Vec<Measured>,
    open: Vec<Measured>,
}

struct Measured {
    rate: f64,
    /// Microseconds of the responder's processor time.
    cost: f64,
    p50: f64,
    p99: f64,
}

fn main() {
    yardstick::serve_if_asked(|| lines(NODES, SERVERS));
    let rounds = number("TIDEGATE_BENCH_ROUNDS", 5);
    let span = Duration::from_secs(number("TIDEGATE_BENCH_SECONDS", 2));
    if let Ok(target) = std::env::var(TARGET) {
        let target = target.parse().expect("an address and port");
        let pace = Pace::Closed(UNDER_WAY);
        let nodes = number("TIDEGATE_BENCH_NODES", NODES);
        let lines = lines(nodes, number("TIDEGATE_BENCH_SERVERS", SERVERS));
        let outcome = Generator::new(target, lines).run(pace, span);
        return println!("{} polls, {} wrong", outcome.polls, outcome.wrong);
    }
    let state = StateFolder::new();
    let mut service = Tidegate::start(&["--kv", &state.kv(), "--agent-workers", "1"]);
    let (address, process) = (service.agent(), service.process().id());
    let mut contenders = vec![Contender::new("tidegate", address, process)];
    let mut running = Vec::new();
    for manner in [Manner::Plain, Manner::Lazy] {
        let (yardstick, address) = Running::start(manner);
        contenders.push(Contender::new(manner.name(), address, yardstick.process()));
        running.push(yardstick);
    }
    pin(None, 0);
    for contender in &contenders {
        pin(Some(contender.process), 1);
    }
    println!(
        "{} identities, {rounds} rounds of {span:?}\n",
        NODES * SERVERS
    );
    for _ in 0..rounds {
        for contender in &mut contenders {
            let closed = contender.measure(Pace::Closed(UNDER_WAY), span);
            contender.closed.push(closed);
            let open = contender.measure(Pace::Open(RATE), span);
            contender.open.push(open);
        }
    }
    let plain = contenders.iter().find(|it| it.name == Manner::Plain.name());
    let plain = plain.expect("it is there");
    let heads = [
        "polls/s", "ratio", "µs/poll", "ratio", "p50 µs", "p99 µs", "ratio",
    ];
    println!("| {UNDER_WAY} under way | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    for contender in &contenders {
        contender.row(&contender.closed, &plain.closed);
    }
    println!("\n| {RATE} polls/s | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    for contender in &contenders {
        contender.row(&contender.open, &plain.open);
    }
    println!();
    sizes::print(median(&contenders[0].closed, |it| it.cost));
}

impl Contender {
    fn new(name: &'static str, address: SocketAddr, process: u32) -> Self {
        Self {
            name,
            address,
            process,
            closed: Vec::new(),
            open: Vec::new(),
        }
    }

    fn measure(&self, pace: Pace, span: Duration) -> Measured {
        let before = processor_time(self.process);
        let outcome: Outcome = Generator::new(self.address, lines(NODES, SERVERS)).run(pace, span);
        let spent = processor_time(self.process).saturating_sub(before);
        assert_eq!(outcome.wrong, 0, "{}: {} polls", self.name, outcome.polls);
        let micros = |span: Duration| span.as_secs_f64() * 1e6;
        Measured {
            rate: outcome.rate(),
            cost: micros(spent) / (outcome.rate() * outcome.took.as_secs_f64()),
            p50: micros(outcome.percentile(500)),
            p99: micros(outcome.percentile(990)),
        }
    }

    fn row(&self, own: &[Measured], plain: &[Measured]) {
        let of = |field: fn(&Measured) -> f64| (median(own, field), ratio(own, plain, field));
        let (rate, rates) = of(|it| it.rate);
        let (cost, costs) = of(|it| it.cost);
        let (p99, p99s) = of(|it| it.p99);
        let p50 = median(own, |it| it.p50);
        println!(
            "| {} | {rate:.0} | {rates:.2} | {cost:.1} | {costs:.2} | {p50:.0} | {p99:.0} | {p99s:.2} |",
            self.name
        );
    }
}

/// The median of the rounds' own ratios: a round's measurements stand side by side.
fn ratio(own: &[Measured], other: &[Measured], field: fn(&Measured) -> f64) -> f64 {
    let ratios = own.iter().zip(other);
    middle(
        ratios
            .map(|(own, other)| field(own) / field(other))
            .collect(),
    )
}

fn median(measured: &[Measured], field: fn(&Measured) -> f64) -> f64 {
    middle(measured.iter().map(field).collect())
}

/// Processor time of all threads of a process, in user and system mode.
fn processor_time(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of = |task: std::io::Result<std::fs::DirEntry>| -> u64 {
        let path = task.expect("it can be read").path().join("schedstat");
        // A thread may have ended meanwhile.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.split(' ').next().unwrap_or_default();
        first.parse().unwrap_or(0)
    };
    Duration::from_nanos(tasks.map(of).sum())
}
