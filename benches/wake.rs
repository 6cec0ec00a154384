//! From a change in the store to the moment at which every answer has changed, with the real
//! programs: Consul or a folder, the service, and polls as HAProxy sends them.
//!
//! Prints a table. Of three replicas over three Consul servers it shows the first new answer, and
//! when all three give it, beside three readers that read as replicas do and look at nothing: what
//! the store itself takes. `TIDEGATE_WAKE_WRITES` sets the writes per line (200 unless set).

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::thread;
use std::time::{Duration, Instant};

#[path = "../tests/it/harness/mod.rs"]
mod harness;
#[path = "parts/listing.rs"]
mod listing;

use harness::consul::Consul;
use harness::consul_cluster::ConsulCluster;
use harness::http;
use harness::replicas::Replicas;
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
/// Between two looks for the new answer: who asks without a pause takes a core from those who are
/// measured.
const LOOK: Duration = Duration::from_micros(500);
/// What a single write may take before this program gives up.
const WAKE_MAX: Duration = Duration::from_secs(20);
const PREFIX: &str = "frontend/gprd";

/// Where desired state is written.
enum Store {
    /// Three servers and a client; three replicas that know each other.
    Cluster(Box<ConsulCluster>),
    Consul(Box<Consul>),
    Folder(StateFolder),
}

/// What runs on it.
enum Service {
    One(Box<Tidegate>),
    Three(Replicas),
}

impl Service {
    fn replicas(&self) -> &[Tidegate] {
        match self {
            Self::One(one) => std::slice::from_ref(&**one),
            Self::Three(three) => &three.all,
        }
    }
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
    let cluster = Store::Cluster(Box::new(ConsulCluster::start()));
    measure(
        "three Consul servers, three replicas",
        &cluster,
        KEYS[1],
        writes,
    );
    // It is filled, and nobody else reads it any more.
    if let Store::Cluster(consul) = &cluster {
        read_bare(&cluster, consul, writes);
    }
    drop(cluster);
    for keys in KEYS {
        let consul = Store::Consul(Box::new(Consul::dev()));
        measure("Consul", &consul, keys, writes);
    }
    for keys in KEYS {
        measure("folder", &Store::Folder(StateFolder::new()), keys, writes);
    }
}

fn measure(name: &str, store: &Store, keys: usize, writes: usize) {
    store.fill(&listing::listing(keys - 1));
    let service = store.serve();
    for replica in service.replicas() {
        replica.await_answer("bench/row-0 canary", "up drain", PATIENCE);
    }
    let mut firsts = Vec::new();
    let mut spans = Vec::new();
    for at in 0..writes {
        let_pass(PAUSE);
        let weight = 1 + at % 99;
        let begin = Instant::now();
        store.put("canary-state", format!("{weight}%"));
        firsts.push(await_first(service.replicas(), weight, begin));
        for replica in service.replicas() {
            await_all(replica, weight, begin);
        }
        spans.push(begin.elapsed());
    }
    if service.replicas().len() > 1 {
        row(&format!("{name}: the first answer"), keys, firsts);
    }
    row(name, keys, spans);
}

/// Three that have the whole prefix told as soon as it changes, and do nothing with it.
fn read_bare(store: &Store, cluster: &ConsulCluster, writes: usize) {
    let address = cluster.client().http();
    let read = |index: &str| {
        let path = format!("/v1/kv/{PREFIX}/?recurse&consistent&wait=20s&index={index}");
        let response = http::get(address, &path).expect("Consul answers");
        assert_eq!(response.status, 200);
        let index = response.header("x-consul-index").expect("it has one");
        (index.to_owned(), Instant::now())
    };
    let mut index = read("0").0;
    let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
    for at in 0..writes {
        let (begin, heard) = thread::scope(|scope| {
            let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| read(&index))).collect();
            let_pass(PAUSE);
            let begin = Instant::now();
            store.put("canary-state", format!("{}%", 1 + at % 99));
            let heard = readers
                .into_iter()
                .map(|reader| reader.join().expect("no panic"));
            (begin, heard.collect::<Vec<_>>())
        });
        let spans = heard.iter().map(|(_, heard)| heard.duration_since(begin));
        firsts.extend(spans.clone().min());
        lasts.extend(spans.max());
        index.clone_from(&heard[0].0);
    }
    row(
        "three Consul servers, three bare readers: the first",
        KEYS[1],
        firsts,
    );
    row("three Consul servers, three bare readers", KEYS[1], lasts);
}

fn row(name: &str, keys: usize, mut spans: Vec<Duration>) {
    spans.sort_unstable();
    let at = |hundredth: usize| spans[(spans.len() - 1) * hundredth / 100].as_secs_f64() * 1e3;
    println!(
        "| {name} | {keys} | {:.1} ms | {:.1} ms | {:.1} ms |",
        at(50),
        at(99),
        at(100)
    );
}

/// Asks the replicas by turns until one has the new answer; gives how long that took.
fn await_first(replicas: &[Tidegate], weight: usize, begin: Instant) -> Duration {
    let expected = format!("up ready {weight}%");
    let mut turns = replicas.iter().cycle();
    while let Some(replica) = turns.next()
        && replica.ask_line("bench/row-0 canary") != expected
    {
        let_pass(LOOK);
        assert!(begin.elapsed() < WAKE_MAX, "no answer within {WAKE_MAX:?}");
    }
    begin.elapsed()
}

/// Asks each identity until it has the new answer.
fn await_all(tidegate: &Tidegate, weight: usize, begin: Instant) {
    let expected = format!("up ready {weight}%");
    for row in 0..IDENTITIES {
        let line = format!("bench/row-{row} canary");
        while tidegate.ask_line(&line) != expected {
            let_pass(LOOK);
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
            Self::Cluster(cluster) => cluster.client().kv_put(&format!("{PREFIX}/{path}"), value),
        }
    }

    fn serve(&self) -> Service {
        match self {
            Self::Folder(folder) => Service::One(Tidegate::start(&["--kv", &folder.kv()]).into()),
            Self::Consul(consul) => Service::One(Tidegate::start_on(consul).into()),
            Self::Cluster(cluster) => {
                let address = ("CONSUL_HTTP_ADDR".to_owned(), cluster.client().url());
                Service::Three(Replicas::start(3, &["--kv", "consul"], &[address]))
            }
        }
    }
}
