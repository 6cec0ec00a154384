//! From one process to the next under a service manager that keeps the agent's listeners: polls wait
//! in their queues meanwhile.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::harness::collector;
use crate::harness::consul::{Consul, loopback};
use crate::harness::delay::Delay;
use crate::harness::manager::Manager;
use crate::harness::mute::{self, Manner};
use crate::harness::ports::Port;
use crate::harness::recorder::{Heard, Recorder, SILENCE};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Place, Tidegate, consul_environment, poll};
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::kv_cases::{DRAINED, set_up};

/// HAProxy gives a poll up after its agent-inter, which is 2 s in the fleet.
const POLL_MAX: Duration = Duration::from_secs(2);
/// So many poll at once.
const POLLERS: usize = 8;

/// A service of which one process follows another at one place.
pub(crate) struct Unit {
    pub(crate) manager: Manager,
    place: Place,
    /// Held for their locks.
    _ports: [Port; 2],
}

impl Unit {
    pub(crate) fn new() -> Self {
        let ports = [loopback(1), loopback(1)].map(Port::reserve);
        let [agent, http] = ports
            .each_ref()
            .map(|port| SocketAddr::new(loopback(1), port.number()));
        let place = Place {
            launcher: Vec::new(),
            slot: "a".to_owned(),
            agent,
            http,
            membership: vec!["--standalone".to_owned()],
        };
        Self {
            manager: Manager::new(),
            place,
            _ports: ports,
        }
    }

    /// The next process, given what the manager kept; ready, as a service says it.
    pub(crate) fn start(
        &mut self,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Tidegate {
        let place = Place {
            launcher: self.manager.launcher(),
            ..self.place.clone()
        };
        let told = std::iter::once(self.manager.environment());
        let environment: Vec<_> = told.chain(environment.iter().cloned()).collect();
        let mut tidegate = Tidegate::prepare(place, arguments, &environment);
        tidegate.relaunch();
        self.manager.await_ready();
        tidegate
    }

    fn start_with_workers(&mut self, state: &StateFolder, workers: &str) -> Tidegate {
        let tidegate = self.start(&["--kv", &state.kv(), "--agent-workers", workers], &[]);
        let line = "web/cny canary";
        tidegate.await_answer(line, "up drain", PATIENCE);
        tidegate
    }
}

fn drained() -> StateFolder {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    state
}

/// The longest time between two answers.
pub(crate) fn longest_wait(record: &[Heard]) -> Duration {
    let gaps = record
        .windows(2)
        .map(|pair| pair[1].at.saturating_sub(pair[0].at));
    gaps.max().unwrap_or_default()
}

#[test]
fn a_restart_loses_no_poll() {
    let (state, mut unit) = (drained(), Unit::new());
    let mut tidegate = unit.start_with_workers(&state, "2");
    let pollers = [(); POLLERS].map(|()| Recorder::start(&tidegate, "web/cny canary"));
    for _ in 0..3 {
        assert_eq!(unit.manager.kept(), 2, "one listener for each worker");
        assert_eq!(tidegate.stop(), Some(0));
        tidegate = unit.start_with_workers(&state, "2");
        for poller in &pollers {
            poller.await_answer("up drain", POLL_MAX);
        }
    }
    for poller in &pollers {
        poller.assert_only(&["up drain"]);
        let waited = longest_wait(&poller.record());
        assert!(waited < POLL_MAX, "a poll waited for {waited:?}");
    }
}

/// What a process had in its hands when it was killed is lost; what waited is not.
#[test]
fn a_killed_process_loses_only_what_it_was_answering() {
    let (state, mut unit) = (drained(), Unit::new());
    let mut tidegate = unit.start_with_workers(&state, "2");
    let pollers = [(); POLLERS].map(|()| Recorder::start(&tidegate, "web/cny canary"));
    for _ in 0..3 {
        tidegate.kill();
        tidegate = unit.start_with_workers(&state, "2");
        for poller in &pollers {
            poller.await_answer("up drain", POLL_MAX);
        }
    }
    let records = pollers.iter().flat_map(Recorder::record);
    let lost = records.filter(|heard| heard.answer != "up drain").count();
    // A poll takes a fraction of a millisecond of the 50 between two: hardly any is under way.
    assert!(lost <= 2, "{lost} polls are lost");
}

#[test]
fn a_collector_that_hangs_keeps_no_poll_waiting_over_a_restart() {
    let environment = collector::environment(mute::start(Manner::NeverAccepts));
    let (state, mut unit) = (drained(), Unit::new());
    let kv = state.kv();
    let mut before = unit.start(&["--kv", &kv], &environment);
    before.await_answer("web/cny canary", "up drain", PATIENCE);
    let poller = Recorder::start(&before, "web/cny canary");
    // A span to be sent.
    state.put("server-overrides/web/other", "maint");
    before.await_answer("web/other", "up maint", PATIENCE);
    assert_eq!(before.stop(), Some(0));
    let _now = unit.start(&["--kv", &kv], &environment);
    poller.await_answer("up drain", POLL_MAX);
    poller.assert_only(&["up drain"]);
    let waited = longest_wait(&poller.record());
    assert!(waited < POLL_MAX, "a poll waited for {waited:?}");
}

#[test]
fn with_another_number_of_workers_no_poll_waits_at_a_listener_of_nobody() {
    let (state, mut unit) = (drained(), Unit::new());
    let mut tidegate = unit.start_with_workers(&state, "1");
    for workers in ["4", "1", "3"] {
        assert_eq!(tidegate.stop(), Some(0));
        tidegate = unit.start_with_workers(&state, workers);
        // Each listener takes its share of them.
        for _ in 0..40 {
            let asked = Instant::now();
            assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
            assert!(asked.elapsed() < POLL_MAX);
        }
        let launcher = unit.manager.launcher();
        assert_eq!(unit.manager.kept().to_string(), workers, "{launcher:?}");
    }
}

#[test]
fn who_listens_elsewhere_after_a_restart_keeps_nobody_waiting_at_the_old_address() {
    let (state, mut unit) = (drained(), Unit::new());
    let mut before = unit.start_with_workers(&state, "2");
    assert_eq!(before.stop(), Some(0));
    let kv = state.kv();
    let launcher = unit.manager.launcher();
    let environment = [unit.manager.environment()];
    let now = Tidegate::launch_behind(&launcher, &["--kv", &kv], &environment);
    unit.manager.await_ready();
    now.await_answer("web/cny canary", "up drain", PATIENCE);
    let refused = TcpStream::connect(before.agent()).expect_err("nobody listens there");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn polls_wait_until_the_new_process_may_answer() {
    let consul = Consul::dev();
    set_up(&consul);
    let mut unit = Unit::new();
    let mut before = unit.start(&["--kv", "consul"], &consul_environment(&consul));
    before.await_answer(DRAINED, "up drain", PATIENCE);
    assert_eq!(before.stop(), Some(0));

    let mut waiting = before.connect();
    let line = format!("{DRAINED}\n");
    waiting
        .write_all(line.as_bytes())
        .expect("the queue takes it");
    let way = Delay::before(consul.http());
    way.set(Duration::from_millis(300));
    let environment = [("CONSUL_HTTP_ADDR".to_owned(), way.url())];
    let now = unit.start(&["--kv", "consul"], &environment);
    let answer = String::from_utf8_lossy(&now.read_to_end(&mut waiting)).into_owned();
    assert!(answer.starts_with("up drain "), "{answer:?}");
}

#[test]
fn a_process_that_may_not_answer_closes_polls_after_one_poll_interval() {
    let nobody = Port::reserve(loopback(1));
    let address = format!("127.0.0.1:{}", nobody.number());
    let environment = [("CONSUL_HTTP_ADDR".to_owned(), address)];
    let arguments = ["--kv", "consul", "--poll-interval", "500ms"];
    let mut unit = Unit::new();
    let asked = Instant::now();
    let tidegate = unit.start(&arguments, &environment);
    let heard = eventually("the port is open", PATIENCE, || {
        poll(tidegate.agent(), DRAINED).map_err(|error| error.to_string())
    });
    assert_eq!(heard, SILENCE);
    let took = asked.elapsed();
    let (least, most) = (Duration::from_millis(500), POLL_MAX);
    check(took >= least && took < most, || format!("{took:?}")).expect("it waits, and not long");
    // It waits once.
    let asked = Instant::now();
    assert_eq!(tidegate.ask_line(DRAINED), SILENCE);
    assert!(asked.elapsed() < Duration::from_millis(400));
}
