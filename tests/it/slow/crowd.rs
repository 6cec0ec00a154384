//! Thousands of connections that say nothing, while real polls go on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::consul::loopback;
use crate::harness::dial::{connect_from, raise_descriptor_limit};
use crate::harness::folder::Folder;
use crate::harness::process::Process;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// All of them together.
const CONNECTIONS: usize = 15_000;
/// A process may hold 20,000 descriptors here, and the crowd of a balancer comes from many nodes.
const PROCESSES: usize = 2;
/// Each process dials from so many addresses.
const SOURCES: usize = 4;
/// HAProxy asks each server once per 2 s, and gives up after as long: an answer that takes half of
/// that is late.
const POLL_TIME_MAX: Duration = Duration::from_secs(1);

/// Where the crowd goes: set for the process that is one half of it.
const TARGET: &str = "TIDEGATE_TEST_CROWD_TARGET";
const NUMBER: &str = "TIDEGATE_TEST_CROWD_NUMBER";
const SETTLED: &str = "the crowd stands";

#[test]
fn fifteen_thousand_silent_connections_hold_up_no_poll() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let mut tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let log = tidegate.process().log_text();
    let folder = Folder::new("crowd");
    let mut crowd: Vec<_> = (0..PROCESSES)
        .map(|number| start_half(number, &folder, tidegate.agent()))
        .collect();

    let (mut spans, mut peak) = (Vec::new(), 0.0_f64);
    while !crowd.iter().all(|half| half.log_text().contains(SETTLED)) {
        for half in &mut crowd {
            half.assert_running();
        }
        for _ in 0..20 {
            spans.push(poll(&tidegate));
        }
        peak = peak.max(tidegate.metric("tidegate_agent_connections"));
    }
    // All of them are answered and let go within that.
    let stands = Instant::now();
    while stands.elapsed() < Duration::from_secs(1) {
        spans.push(poll(&tidegate));
    }
    report(&mut spans, peak);
    assert!(spans.last().is_some_and(|span| *span < POLL_TIME_MAX));
    let half_second = spans.partition_point(|span| *span < Duration::from_millis(200));
    assert!(
        half_second * 100 >= spans.len() * 99,
        "more than one in a hundred took over 200 ms"
    );

    let silent = r#"tidegate_agent_answers_total{answer="unknown_request"}"#;
    let refused = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
    eventually("each silent connection was told so", PATIENCE, || {
        let (told, refused) = (tidegate.metric(silent), tidegate.metric(refused));
        #[expect(clippy::cast_precision_loss, reason = "a small whole number")]
        let all = CONNECTIONS as f64;
        check(told + refused >= all, || {
            format!("{told} told, {refused} refused")
        })
    });
    assert_eq!(tidegate.process().log_text(), log);
}

fn start_half(number: usize, folder: &Folder, target: SocketAddr) -> Process {
    let program = std::env::current_exe().expect("a test knows its own program");
    let mut command = Command::new(program);
    command
        .args([
            "slow::crowd::one_half_of_the_crowd",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(TARGET, target.to_string())
        .env(NUMBER, number.to_string());
    Process::start(&format!("crowd-{number}"), folder.path(), &command)
}

/// Not a test of its own: the process that the one above starts twice.
#[test]
#[ignore = "started by fifteen_thousand_silent_connections_hold_up_no_poll"]
fn one_half_of_the_crowd() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let target: SocketAddr = variable(TARGET).parse().expect("an address");
    let number: usize = variable(NUMBER).parse().expect("a number");
    raise_descriptor_limit();
    let sources: Vec<IpAddr> = (0..SOURCES)
        .map(|at| u8::try_from(2 + number * SOURCES + at).expect("few processes, few sources"))
        .map(loopback)
        .collect();
    let held: Vec<TcpStream> = (0..CONNECTIONS / PROCESSES)
        .map(|at| connect_from(sources[at % SOURCES], target))
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("cannot connect: {error}"));
    println!("{SETTLED}: {} connections", held.len());
    // Until the test ends this process: it keeps its ends open whatever the service does.
    loop {
        std::thread::park();
    }
}

/// One real poll, from a node of its own.
fn poll(tidegate: &Tidegate) -> Duration {
    let node = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1));
    let begin = Instant::now();
    let mut stream = connect_from(node, tidegate.agent()).expect("the service accepts");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("the limit is not zero");
    std::io::Write::write_all(&mut stream, b"web/cny canary\n").expect("the service takes it");
    let mut answer = [0; 128];
    let length = std::io::Read::read(&mut stream, &mut answer).expect("it answers");
    let span = begin.elapsed();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(
        answer.starts_with("up drain # i=") && answer.ends_with('\n'),
        "{answer:?}"
    );
    span
}

fn report(spans: &mut [Duration], peak: f64) {
    spans.sort_unstable();
    let at = |hundredth: usize| spans[(spans.len() - 1) * hundredth / 100];
    println!(
        "{} polls beside {CONNECTIONS} silent connections ({peak} open at once at the service): \
         p50 {:?}, p99 {:?}, max {:?}",
        spans.len(),
        at(50),
        at(99),
        at(100)
    );
}
