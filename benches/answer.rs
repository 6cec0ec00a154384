//! From the bytes of a request to the bytes of its answer: the rules alone, and over a socket.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use jiff::Timestamp;
use tidegate::agent::{Agent, Close, Settings};
use tidegate::clock;
use tidegate::domain::answer::{ANSWER_BYTES_MAX, Origin};
use tidegate::domain::authority::{Authority, Judgement, Times};
use tidegate::domain::explain::Explanation;
use tidegate::domain::fleet::{Asker, Polled};
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::Listing;
use tidegate::domain::name::Name;
use tidegate::domain::network::Networks;
use tidegate::domain::request::Request;
use tidegate::domain::snapshot::Snapshot;
use tidegate::fleet::{self, Fleet, Spot, Tallies};
use tidegate::progress::Progress;
use tidegate::store::{Published, Store};
use tokio_util::sync::CancellationToken;

#[path = "parts/listing.rs"]
mod listing;

/// A request and the path of the key that decides it.
struct Case {
    name: &'static str,
    line: &'static [u8],
    winner: Option<&'static str>,
}

static CASES: [Case; 4] = [
    Case {
        name: "no directive",
        line: b"web/not-overridden node=haproxy-main-01 zone=us-east1-b base=100\n",
        winner: None,
    },
    Case {
        name: "group",
        line: b"web/not-overridden canary node=haproxy-main-01 zone=us-east1-b base=100\n",
        winner: Some("canary-state"),
    },
    Case {
        name: "server override",
        line: b"web/gke-cny-web canary node=haproxy-main-01 zone=us-east1-b base=100\n",
        winner: Some("server-overrides/web/gke-cny-web"),
    },
    Case {
        name: "unreadable",
        line: b"web/gke-cny-web node= zone=us-east1-b\n",
        winner: None,
    },
];

static LISTING: LazyLock<Listing> = LazyLock::new(|| listing::listing(1_000));
static SNAPSHOT: LazyLock<Arc<Snapshot>> =
    LazyLock::new(|| Arc::new(Snapshot::build(&LISTING).expect("the listing has its sentinel")));

fn main() {
    divan::main();
}

#[divan::bench(args = CASES.iter().map(|case| case.name))]
fn parse(bencher: Bencher<'_, '_>, name: &str) {
    let line = case(name).line;
    bencher.bench(|| Request::parse(black_box(line)).is_ok());
}

#[divan::bench(args = CASES.iter().map(|case| case.name))]
fn parse_decide_render(bencher: Bencher<'_, '_>, name: &str) {
    let (case, now) = (case(name), clock::now());
    check_winner(case, now);
    let origin = Origin {
        index: SNAPSHOT.index,
        replica: Name::parse("a").expect("a name"),
    };
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    bencher.bench_local(|| {
        answer.clear();
        match Request::parse(black_box(case.line)) {
            Ok(request) => {
                let node = request.node.unwrap_or("10.0.0.1");
                let decision = SNAPSHOT.decide(&request, node, now);
                decision.answer.render(&origin, &mut answer);
            }
            Err(error) => drop(black_box(error)),
        }
        answer.len()
    });
}

#[divan::bench]
fn explain(bencher: Bencher<'_, '_>) {
    let name = Name::parse("a").expect("a name");
    let (line, now) = (case("group").line, clock::now());
    bencher.bench(|| Explanation::new(&SNAPSHOT, black_box(line), &name, &name, now));
}

/// Counting the polls of a second for the fleet view: what the worker does for each of 6,000 rows.
#[divan::bench]
fn count_6_000_polls(bencher: Bencher<'_, '_>) {
    let counting = Counting::new();
    bencher
        .counter(ItemsCount::new(counting.askers.len()))
        .bench_local(|| counting.count());
}

/// The same with the collector's work, which is done on a thread that answers nothing.
#[divan::bench]
fn count_and_collect_6_000_polls(bencher: Bencher<'_, '_>) {
    let counting = Counting::new();
    let bencher = bencher.counter(ItemsCount::new(counting.askers.len()));
    bencher.bench_local(|| {
        counting.count();
        counting.fleet.numbers()
    });
}

/// One whole check over loopback, both ends in this process: connect, ask, read, reset. The answer
/// is a remembered one; nearly all of the time is the kernel's.
#[divan::bench]
fn check_over_a_socket(bencher: Bencher<'_, '_>) {
    let agent = RunningAgent::start();
    let line = case("group").line;
    bencher.bench_local(|| agent.ask(line));
    agent.stop();
}

fn case(name: &str) -> &'static Case {
    let found = CASES.iter().find(|known| known.name == name);
    found.expect("one of the cases")
}

/// A measurement of another path through the rules than its name says would mislead.
fn check_winner(case: &Case, now: Timestamp) {
    let Ok(request) = Request::parse(case.line) else {
        return;
    };
    let decision = SNAPSHOT.decide(&request, "10.0.0.1", now);
    assert_eq!(decision.winner.map(|placed| &*placed.path), case.winner);
}

/// Rows of 100 nodes, and where they are counted.
struct Counting {
    askers: Vec<(Arc<Asker>, Spot)>,
    tallies: Tallies,
    fleet: Fleet,
}

impl Counting {
    fn new() -> Self {
        let asker = |at: usize| {
            let (node, server) = (at / 60, at % 60);
            let line = format!("web/srv-{server} canary node=lb-{node} zone=us-east1-b base=100\n");
            let request = Request::parse(line.as_bytes()).expect("it is a request");
            (Arc::new(Asker::new(&request)), Spot::default())
        };
        let name = Name::parse("a").expect("a name");
        let tallies = Tallies::new(1);
        let settings = fleet::Settings {
            replica: name,
            prefix: Prefix::new("frontend", "gprd").expect("they are names"),
            poll_interval: Duration::from_secs(2),
        };
        Self {
            askers: (0..6_000).map(asker).collect(),
            tallies: tallies.clone(),
            fleet: Fleet::new(settings, Arc::new(in_force()), tallies, None),
        }
    }

    fn count(&self) {
        let at = Timestamp::UNIX_EPOCH;
        let source = Ipv4Addr::LOCALHOST.into();
        let tally = self.tallies.iter().next().expect("there is one worker");
        for (asker, spot) in &self.askers {
            let polled = Polled::once(at, None);
            tally.record(asker, source, spot, black_box(&polled));
        }
    }
}

struct RunningAgent {
    address: SocketAddr,
    stop: CancellationToken,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl RunningAgent {
    fn start() -> Self {
        let settings = Settings {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            workers: 1,
            connections_max: 1_000,
            close: Close::Lazy,
            allow: Networks::default(),
            replica: Name::parse("a").expect("a name"),
            opening: Duration::ZERO,
        };
        let agent = Agent::bind(settings, Vec::new()).expect("a port is free");
        let (address, stop) = (agent.address(), CancellationToken::new());
        let store = Arc::new(in_force());
        let threads = agent
            .start(
                store,
                stop.clone(),
                &CancellationToken::new(),
                &Progress::new(1),
            )
            .expect("threads can be made");
        Self {
            address,
            stop,
            threads,
        }
    }

    fn ask(&self, line: &[u8]) -> usize {
        let mut stream = TcpStream::connect(self.address).expect("the agent listens");
        stream.write_all(line).expect("the agent reads");
        let mut answer = [0; ANSWER_BYTES_MAX];
        let length = stream.read(&mut answer).expect("the agent answers");
        assert_eq!(answer[..length].last(), Some(&b'\n'));
        // As HAProxy does; a FIN would leave a TIME_WAIT for each of a million checks.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))
            .expect("a TCP socket can linger");
        length
    }

    fn stop(self) {
        self.stop.cancel();
        for thread in self.threads {
            thread.join().expect("a worker ends without a panic");
        }
    }
}

/// A store with the listing in force for an hour.
fn in_force() -> Store {
    let times = Times::from_poll_interval(Duration::from_hours(1));
    let mut authority = Authority::new(times, []);
    let now = clock::moment();
    let judgement = authority.listed(LISTING.clone(), now, now);
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    let store = Store::new(authority.standing());
    store.publish(Published {
        snapshot: Some(Arc::clone(&SNAPSHOT)),
        agreed: None,
        standing: authority.standing(),
        memory: None,
    });
    store
}
