//! One address on the first of three replicas that may answer, as `deploy/onprem/keepalived.conf`
//! moves it between machines of one segment.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::files::text;
use crate::harness::folder::Folder;
use crate::harness::http;
use crate::harness::keepalived::Keepalived;
use crate::harness::netns::{Net, Space};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Place, Tidegate, poll};
use crate::harness::trio::{PEERS_TOKEN, SLOTS};
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

/// The test's own, and the one that moves.
const OWN: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 10);

/// Longer than the files' check and advertisements need.
const DRAIN_FOR: &str = "6s";
const ASK_EVERY: Duration = Duration::from_millis(20);
/// What was under way to a machine when the address left it.
const UNDER_WAY_MAX: usize = 2;
/// Three advertisements of 0.5 s, 0.3 s of skew, and a connection that is tried again each second;
/// or a poll that was under way to the machine, and ends by its own limit of 3 s.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(6);

/// Dropped in the order of the fields.
struct Segment {
    state: StateFolder,
    _movers: Vec<Keepalived>,
    replicas: Vec<Tidegate>,
    spaces: Vec<Space>,
    net: Net,
    /// Holds the secret.
    _folder: Folder,
}

impl Segment {
    /// Three replicas and a keepalived beside each; the address is at the first.
    fn start() -> Self {
        let net = Net::new();
        net.make_segment(OWN);
        let (state, folder) = (StateFolder::new(), Folder::new("segment"));
        state.put("canary-state", "drain");
        let token = folder.write("peers-token", PEERS_TOKEN);
        let numbers = 1..=SLOTS.len();
        let spaces: Vec<_> = numbers
            .zip(SLOTS)
            .map(|(number, slot)| net.add_to_segment(slot, address_of(number)))
            .collect();
        let replicas = spaces.iter().map(|space| replica(space, &state, &token));
        let replicas: Vec<_> = replicas.collect();
        let config = text("keepalived.conf").replace("10.0.0.", "10.78.0.");
        let mover = |space: &Space| Keepalived::start_in(space, space.name(), &config);
        let movers = spaces.iter().map(mover).collect();
        let segment = Self {
            state,
            _movers: movers,
            replicas,
            spaces,
            net,
            _folder: folder,
        };
        await_at("a");
        segment
    }
}

/// Waits until the address is at that replica, and answered there.
fn await_at(slot: &str) {
    eventually(&format!("the address is at {slot}"), PATIENCE, || {
        let at = SocketAddr::from((ADDRESS, 8791));
        let answer = http::get(at, "/api/v1/replicas").map_err(|error| error.to_string())?;
        let body: serde_json::Value =
            serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        check(body["replica"] == slot, || body["replica"].to_string())
    });
}

fn address_of(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, u8::try_from(number).expect("few replicas"))
}

/// A replica that listens on all addresses of its machine; started, and not waited for.
fn replica(space: &Space, state: &StateFolder, token: &Path) -> Tidegate {
    let mut membership = vec!["--peers-token-file".to_owned(), token.display().to_string()];
    for (number, slot) in (1..).zip(SLOTS) {
        let peer = format!("{slot}=http://{}:8791", address_of(number));
        membership.extend(["--peer".to_owned(), peer]);
    }
    let place = Place {
        launcher: space.launcher(),
        slot: space.name().to_owned(),
        agent: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8790)),
        http: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8791)),
        membership,
    };
    let arguments = ["--kv", &state.kv(), "--drain-for", DRAIN_FOR];
    let mut tidegate = Tidegate::prepare(place, &arguments, &[]);
    tidegate.relaunch();
    tidegate
}

/// Polls the address all the time.
struct Poller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Polled>,
}

#[derive(Debug, Default)]
struct Polled {
    all: usize,
    /// Without the right answer.
    lost: usize,
    /// The longest time without one.
    silence: Duration,
}

impl Poller {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut polled, mut last) = (Polled::default(), Instant::now());
            while !of_thread.load(Ordering::Relaxed) {
                let answer = poll(
                    SocketAddr::from((ADDRESS, 8790)),
                    "web/cny canary node=lb-1",
                );
                polled.all += 1;
                polled.silence = polled.silence.max(last.elapsed());
                match answer.as_deref() {
                    Ok("up drain") => last = Instant::now(),
                    Ok(_) | Err(_) => polled.lost += 1,
                }
                let_pass(ASK_EVERY);
            }
            polled
        });
        Self { stop, thread }
    }

    fn finish(self, name: &str) -> Polled {
        self.stop.store(true, Ordering::Relaxed);
        let polled = self.thread.join().expect("polling does not panic");
        println!("FIGURES address, {name}: {polled:?}");
        polled
    }
}

#[test]
fn a_replica_that_stops_loses_no_poll_but_those_under_way_and_the_address_comes_back_with_it() {
    let mut segment = Segment::start();
    let poller = Poller::start();
    assert_eq!(segment.replicas[0].stop(), Some(0));
    await_at("b");
    segment.replicas[0].relaunch();
    await_at("a");
    let seen = poller.finish("one replica stopped");
    assert!(seen.all > 100 && seen.lost <= UNDER_WAY_MAX, "{seen:?}");
}

#[test]
fn a_machine_that_is_gone_is_silent_until_the_next_has_the_address() {
    let segment = Segment::start();
    let poller = Poller::start();
    segment.net.set_link(&segment.spaces[0], false);
    await_at("b");
    segment.net.set_link(&segment.spaces[1], false);
    await_at("c");
    for space in &segment.spaces[..2] {
        segment.net.set_link(space, true);
    }
    await_at("a");
    let seen = poller.finish("two machines gone, one after the other");
    assert!(seen.silence < TAKEN_OVER_WITHIN, "{seen:?}");
}

#[test]
fn with_no_replica_that_may_answer_polls_are_closed_without_a_byte() {
    let segment = Segment::start();
    segment.state.remove("_meta");
    eventually("polls are closed without a byte", PATIENCE, || {
        let answer = poll(SocketAddr::from((ADDRESS, 8790)), "web/cny canary");
        check(answer.as_deref().is_ok_and(str::is_empty), || {
            format!("{answer:?}")
        })
    });
    segment
        .state
        .put("_meta", crate::harness::state_folder::META);
    await_at("a");
}
