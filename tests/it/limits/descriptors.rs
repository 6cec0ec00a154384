//! Too few file descriptors.

use std::net::TcpStream;
use std::time::Duration;

use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

const OVER_LIMIT: &str = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
const ACCEPT_ERRORS: &str = "tidegate_agent_accept_errors_total";

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
    tidegate.await_answer("web/cny canary", "up drain", PATIENCE);
}

/// Fewer descriptors than the parts beside the agent may need: accept itself fails.
#[test]
fn a_process_without_free_descriptors_waits_for_them_and_does_not_spin() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let mut tidegate = Tidegate::start_with_descriptors(45, &["--kv", &state.kv()]);
    let pages: Vec<_> = (0..60)
        .filter_map(|_| TcpStream::connect(tidegate.http()).ok())
        .collect();
    // They wait in the kernel's queue: nothing can take or close them.
    let polls: Vec<_> = (0..60).map(|_| tidegate.connect()).collect();

    let before = cpu_ticks(&mut tidegate);
    let span = Duration::from_secs(1);
    let_pass(span);
    let spent = cpu_ticks(&mut tidegate) - before;
    println!("{spent} ticks of processor time in {span:?} without descriptors");
    assert!(spent < TICKS_PER_SECOND / 5, "{spent} ticks in {span:?}");

    drop((pages, polls));
    tidegate.await_answer("web/cny canary", "up drain", PATIENCE);
    assert!(tidegate.metric(ACCEPT_ERRORS) > 0.0, "accept never failed");
}

/// Processor time spent so far, in user and system mode.
fn cpu_ticks(tidegate: &mut Tidegate) -> u64 {
    let path = format!("/proc/{}/stat", tidegate.process().id());
    let text = std::fs::read_to_string(&path).expect("the process runs");
    // The second field, the name in parentheses, may hold blanks: count from its end.
    let (_, fields) = text
        .rsplit_once(')')
        .expect("stat has the name in parentheses");
    let times = fields.split_whitespace().skip(11).take(2);
    times
        .map(|ticks| ticks.parse::<u64>().expect("times are numbers"))
        .sum()
}
