//! Too few file descriptors.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::consul::{Consul, loopback};
use crate::harness::dial::connect_from;
use crate::harness::process::run;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

const OVER_LIMIT: &str = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
const ACCEPT_ERRORS: &str = "tidegate_agent_accept_errors_total";
const KEY: &str = "frontend/gprd/canary-state";
const CANARY: &str = "web/cny canary";
const LINE: &str = "web/cny canary\n";

/// Linux counts the time of a process in hundredths of a second (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

#[test]
fn connections_are_cut_to_what_the_descriptors_allow() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let mut tidegate = Tidegate::start_with_descriptors(300, &["--kv", &state.kv()]);
    tidegate.process().await_log("connections_max=44", PATIENCE);
    let held: Vec<_> = (0..400).map(|_| tidegate.connect()).collect();
    eventually("those above the cap are closed", PATIENCE, || {
        let closed = tidegate.metric(OVER_LIMIT);
        check(closed >= 1.0, || closed.to_string())
    });
    drop(held);
    tidegate.await_answer(CANARY, "up drain", PATIENCE);
}

/// No descriptor at all, which takes a limit that is lowered while the process runs: accept itself
/// fails.
#[test]
fn a_process_without_free_descriptors_waits_for_them_and_does_not_spin() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    limit_descriptors(&mut tidegate, 3);
    // They wait in the kernel's queue: nothing can take or close them.
    let mut polls: Vec<_> = (0..60).map(|_| tidegate.connect()).collect();
    for poll in &mut polls {
        poll.write_all(LINE.as_bytes()).expect("it waits");
    }

    let before = cpu_ticks(&mut tidegate);
    let span = Duration::from_secs(1);
    let_pass(span);
    let spent = cpu_ticks(&mut tidegate) - before;
    println!("{spent} ticks of processor time in {span:?} without descriptors");
    assert!(spent < TICKS_PER_SECOND / 5, "{spent} ticks in {span:?}");

    limit_descriptors(&mut tidegate, 20_000);
    for mut poll in polls {
        let answer = tidegate.read_to_end(&mut poll);
        assert!(answer.starts_with(b"up drain"), "{answer:?}");
    }
    assert!(tidegate.metric(ACCEPT_ERRORS) > 0.0, "accept never failed");
}

/// What is kept beside the agent's connections is enough for everything else, whoever takes as
/// much of it as he can.
#[test]
fn at_the_limit_of_descriptors_polls_are_closed_and_nothing_else_fails() {
    let (consul, mut replicas) = pair(&["prlimit", "--nofile=300:300"]);
    let [a, b] = &mut replicas.all[..] else {
        panic!("two were started");
    };
    a.await_counted("b", "current");
    b.await_counted("a", "current");
    let pages = (0..200).map(|_| connect_from(loopback(2), a.http()));
    let pages: Vec<_> = pages.map(|page| page.expect("it listens")).collect();
    let begun = Instant::now();
    let mut rounds = 0;
    // Longer than the lease, the time that a peer's word counts, and a blocking read's pause.
    while begun.elapsed() < Duration::from_secs(3) {
        let mut polls: Vec<_> = (0..100).map(|_| a.connect()).collect();
        for poll in &mut polls {
            // One that was refused may have been closed by now.
            poll.write_all(LINE.as_bytes()).ok();
        }
        for replica in [&*a, &*b] {
            replica.await_readyz(200, "current: ", Duration::from_secs(1));
        }
        a.expect_counted("b", "current");
        b.expect_counted("a", "current");
        rounds += 1;
    }
    consul.kv_put(KEY, "maint");
    a.await_answer(CANARY, "up maint", PATIENCE);
    let refused = a.count(OVER_LIMIT);
    println!("{refused} of {rounds} times 100 polls were refused");
    assert!(refused > 0, "the limit was never reached");
    assert_eq!(a.count(ACCEPT_ERRORS), 0);
    let log = a.process().log_text();
    assert!(!log.contains("Too many open files"), "{log}");
    drop(pages);
}

/// No descriptor at all, which takes a limit that is lowered while the process runs: none for a
/// poll, for the source, for a peer, for a page.
#[test]
fn a_replica_that_gets_no_descriptor_any_more_is_silent_and_comes_back() {
    let (consul, mut replicas) = pair(&[]);
    let [a, b] = &mut replicas.all[..] else {
        panic!("two were started");
    };
    b.await_counted("a", "current");
    limit_descriptors(a, 3);
    let waiting: Vec<_> = (0..50).map(|_| a.connect()).collect();
    b.await_counted("a", "out-of-sight");
    for text in ["no word of the peer", "the source cannot be read"] {
        a.process().await_log(text, PATIENCE);
    }
    // The other one is not concerned.
    consul.kv_put(KEY, "maint");
    b.await_answer(CANARY, "up maint", PATIENCE);

    limit_descriptors(a, 20_000);
    a.await_answer(CANARY, "up maint", PATIENCE);
    a.await_readyz(200, "current: ", PATIENCE);
    a.await_counted("b", "current");
    b.await_counted("a", "current");
    assert!(a.count(ACCEPT_ERRORS) > 0);
    let log = a.process().log_text();
    assert!(log.contains("Too many open files"), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    drop(waiting);
}

/// Two replicas on a Consul in which the canary is drained.
fn pair(launcher: &[&str]) -> (Consul, Replicas) {
    let consul = Consul::dev();
    consul.kv_put("frontend/gprd/_meta", META);
    consul.kv_put(KEY, "drain");
    let arguments = ["--kv", "consul"];
    let environment = consul_environment(&consul);
    let replicas = Replicas::start_behind(launcher, 2, &arguments, &environment);
    (consul, replicas)
}

/// Of a process that runs: what is open stays open.
fn limit_descriptors(tidegate: &mut Tidegate, count: u32) {
    let id = tidegate.process().id().to_string();
    let mut command = Command::new("prlimit");
    command.args(["--pid", &id, &format!("--nofile={count}:20000")]);
    assert_eq!(run("prlimit", &command, PATIENCE).code, Some(0));
}

/// Processor time spent so far, in user and system mode.
fn cpu_ticks(tidegate: &mut Tidegate) -> u64 {
    let path = format!("/proc/{}/stat", tidegate.process().id());
    let text = fs::read_to_string(&path).expect("the process runs");
    // The second field, the name in parentheses, may hold blanks: count from its end.
    let (_, fields) = text
        .rsplit_once(')')
        .expect("stat has the name in parentheses");
    let times = fields.split_whitespace().skip(11).take(2);
    times
        .map(|ticks| ticks.parse::<u64>().expect("times are numbers"))
        .sum()
}
