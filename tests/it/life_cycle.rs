//! From start to stop: signals, draining, the service manager.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::folder::Folder;
use crate::harness::manager::Manager;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

pub(crate) mod handover;

const DRAIN_FOR: Duration = Duration::from_secs(1);

fn draining() -> (StateFolder, Tidegate) {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let tidegate = Tidegate::start(&["--kv", &state.kv(), "--drain-for", "1s"]);
    (state, tidegate)
}

#[test]
fn after_sigterm_it_is_unready_and_answers_until_every_balancer_has_noticed() {
    let (_state, mut tidegate) = draining();
    let told = Instant::now();
    tidegate.process().signal(Signal::TERM);
    eventually("readiness is off", DRAIN_FOR / 2, || {
        let answer = tidegate.get("/readyz");
        check(answer.status == 503, || answer.text())
    });
    assert!(
        tidegate
            .get("/readyz")
            .text()
            .starts_with("draining, current: ")
    );
    assert_eq!(tidegate.get("/livez").status, 200);
    while told.elapsed() < DRAIN_FOR * 8 / 10 {
        assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
    }
    let ended = tidegate.process().await_end(PATIENCE).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    let took = told.elapsed();
    assert!(took >= DRAIN_FOR && took < DRAIN_FOR * 3, "{took:?}");
}

#[test]
fn who_presses_ctrl_c_does_not_wait_for_balancers() {
    let (_state, mut tidegate) = draining();
    let told = Instant::now();
    tidegate.process().signal(Signal::INT);
    let ended = tidegate
        .process()
        .await_end(DRAIN_FOR)
        .expect("it ends before it drains");
    assert_eq!(ended.code(), Some(0));
    assert!(told.elapsed() < DRAIN_FOR);
}

#[test]
fn sighup_reads_the_log_filter_anew_and_a_wrong_one_changes_nothing() {
    let state = StateFolder::new();
    let folder = Folder::new("sighup");
    let file = folder.join("tidegate.toml");
    let say = |level: &str| fs::write(&file, format!("log.level = \"{level}\"\n")).unwrap();
    say("warn,tidegate::serve=info");
    let config = file.display().to_string();
    let mut tidegate = Tidegate::start(&["--kv", &state.kv(), "--config", &config]);
    state.put("canary-state", "maint");
    tidegate.await_answer("web/cny canary", "up maint", PATIENCE);
    let process = tidegate.process();
    say("info,tidegate::watch=debug");
    process.signal(Signal::HUP);
    let read = "log filter read anew level=\"info,tidegate::watch=debug\"";
    process.await_log(read, PATIENCE);
    let changed = " changed path=canary-state";
    assert!(
        !process.log_text().contains(changed),
        "{}",
        process.log_text()
    );
    state.put("canary-state", "drain");
    process.await_log(changed, PATIENCE);
    say("=,=");
    process.signal(Signal::HUP);
    process.await_log("the old log filter stays in use", PATIENCE);
    process.await_log("log.level", PATIENCE);
    process.assert_running();
}

/// To its peers, a replica whose port refuses answers no poll.
#[test]
fn the_port_of_a_replica_opens_before_its_agent_port_and_closes_after_it() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    let (agent, http) = (tidegate.agent(), tidegate.http());
    // A full queue makes a connection wait, and that is no refusal.
    let takes = |address: SocketAddr| {
        let taken = TcpStream::connect_timeout(&address, Duration::from_millis(20));
        taken.map_or_else(
            |error| error.kind() != ErrorKind::ConnectionRefused,
            |_| true,
        )
    };
    // A worker waits half a second for the close of a connection that it has answered.
    let mut held = tidegate.connect();
    held.write_all(b"web/cny canary\n").expect("it is taken");
    let answered = held.read(&mut [0; 512]).expect("it is answered");
    assert!(answered > 0, "closed without an answer");
    held.set_nonblocking(true).expect("a socket has that mode");
    let mut is_held = || {
        let error = held.read(&mut [0; 512]).err();
        error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    tidegate.process().signal(Signal::TERM);
    let mut after = false;
    while tidegate.process().ended().is_none() {
        let (port, polls) = (takes(http), takes(agent));
        let held = is_held();
        assert!(
            port || !(polls || held),
            "a poll is open, and peers are refused"
        );
        after |= port && !polls && held;
    }
    assert!(after, "the last poll did not outlive the agent's port");
    tidegate.end();
    tidegate.relaunch();
    loop {
        let (polls, port) = (takes(agent), takes(http));
        assert!(port || !polls, "polls are taken, and peers are refused");
        if polls {
            break;
        }
        tidegate.process().assert_running();
    }
}

#[test]
fn the_log_says_who_changed_what() {
    let (state, mut service) = Tidegate::start_drained();
    let kv = state.kv();
    let canary = [
        "canary", "--gprd", "--kv", &kv, "--ready", "--by", "ana", "--reason", "checked",
    ];
    assert_eq!(tidegate(&canary, &[]).code, Some(0));
    service.await_answer("web/cny canary", "up ready 100%", PATIENCE);
    let log = service.process().log_text();
    let line = log
        .lines()
        .find(|line| line.contains(" changed path=canary-state "));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    let before = r#"before="{\"v\":1,\"state\":\"drain\"}""#;
    let words = [
        before,
        r#"after="{\"v\":1,\"state\":\"ready\""#,
        r#"\"by\":\"ana\""#,
        "checked",
    ];
    for word in words {
        assert!(line.contains(word), "no {word} in {line}");
    }
}

#[test]
fn the_service_manager_is_told_and_the_watchdog_fed() {
    let state = StateFolder::new();
    let mut manager = Manager::new();
    let watchdog = ("WATCHDOG_USEC".to_owned(), "400000".to_owned());
    let environment = [manager.environment(), watchdog];
    let mut tidegate = Tidegate::launch(&["--kv", &state.kv()], &environment);
    let mut hear = || manager.hear();
    assert_eq!(hear(), "READY=1\n");
    tidegate.await_ready();
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(hear(), "WATCHDOG=1\n");
    }
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(4), "ten feeds took {took:?}");
    tidegate.process().signal(Signal::TERM);
    let stopping = || {
        let heard = hear();
        check(heard == "STOPPING=1\n", || heard)
    };
    eventually("it says that it stops", PATIENCE, stopping);
}
