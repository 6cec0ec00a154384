//! From the bytes of a request to the bytes of its answer: the rules alone, and over a socket.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use divan::{Bencher, black_box};
use tidegate::agent::{Agent, Settings};
use tidegate::clock;
use tidegate::domain::answer::{ANSWER_BYTES_MAX, Origin};
use tidegate::domain::authority::{Authority, Judgement, Times};
use tidegate::domain::explain::Explanation;
use tidegate::domain::listing::Listing;
use tidegate::domain::name::Name;
use tidegate::domain::request::Request;
use tidegate::domain::snapshot::Snapshot;
use tidegate::progress::Progress;
use tidegate::store::{Published, Store};
use tokio_util::sync::CancellationToken;

#[path = "parts/listing.rs"]
mod listing;

/// What most rows of a fleet ask, and what decides there.
const LINES: [(&str, &[u8]); 4] = [
    (
        "no directive",
        b"web/gke-main-9 node=haproxy-main-01 zone=us-east1-b base=100\n",
    ),
    (
        "group",
        b"web/gke-cny-web canary node=haproxy-main-01 zone=us-east1-b base=100\n",
    ),
    (
        "server override",
        b"web/gke-1 node=haproxy-main-01 zone=us-east1-b base=100\n",
    ),
    ("unreadable", b"web/gke-1 node= zone=us-east1-b\n"),
];

static LISTING: LazyLock<Listing> = LazyLock::new(|| listing::listing(1_000));
static SNAPSHOT: LazyLock<Arc<Snapshot>> =
    LazyLock::new(|| Arc::new(Snapshot::build(&LISTING).expect("the listing has its sentinel")));

fn main() {
    divan::main();
}

#[divan::bench(args = LINES.map(|(name, _)| name))]
fn parse(bencher: Bencher<'_, '_>, name: &str) {
    let line = line(name);
    bencher.bench(|| Request::parse(black_box(line)).is_ok());
}

#[divan::bench(args = LINES.map(|(name, _)| name))]
fn parse_decide_render(bencher: Bencher<'_, '_>, name: &str) {
    let (line, now) = (line(name), clock::now());
    let origin = Origin {
        index: SNAPSHOT.index,
        replica: Name::parse("a").expect("a name"),
    };
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    bencher.bench_local(|| {
        answer.clear();
        match Request::parse(black_box(line)) {
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
    let (line, now) = (line("group"), clock::now());
    bencher.bench(|| Explanation::new(&SNAPSHOT, black_box(line), &name, &name, now));
}

/// One whole check over loopback, both ends in this process: connect, ask, read, reset. The answer
/// is a remembered one; nearly all of the time is the kernel's.
#[divan::bench]
fn check_over_a_socket(bencher: Bencher<'_, '_>) {
    let agent = RunningAgent::start();
    let line = line("group");
    bencher.bench_local(|| agent.ask(line));
    agent.stop();
}

fn line(name: &str) -> &'static [u8] {
    let found = LINES.iter().find(|(known, _)| *known == name);
    found.expect("one of the lines").1
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
            replica: Name::parse("a").expect("a name"),
        };
        let agent = Agent::bind(settings).expect("a port is free");
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
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO))
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
    let times = Times::from_poll_interval(std::time::Duration::from_hours(1));
    let mut authority = Authority::new(times);
    let now = clock::moment();
    let judgement = authority.listed(LISTING.clone(), now, now);
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    let store = Store::new(authority.standing().clone());
    store.publish(Published {
        snapshot: Some(Arc::clone(&SNAPSHOT)),
        standing: authority.standing().clone(),
    });
    store
}
