//! How the service ends, and when it does not start.

use std::io::Write;
use std::net::{Shutdown, TcpListener};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::consul::loopback;
use crate::harness::ports::Port;
use crate::harness::process::Output;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

#[test]
fn a_poll_that_is_open_at_sigterm_is_finished() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    let mut polls: Vec<_> = (0..20).map(|_| tidegate.connect()).collect();
    for poll in &mut polls {
        poll.write_all(b"web/cny ").expect("the service takes it");
    }
    // Until each is accepted: what waits in the kernel's queue is lost with the listener.
    eventually("all polls are open", PATIENCE, || {
        let open = tidegate.metric("tidegate_agent_connections");
        check(open >= 20.0, || open.to_string())
    });
    tidegate.process().signal(Signal::TERM);
    tidegate.process().await_log("stopping", PATIENCE);
    for poll in &mut polls {
        poll.write_all(b"canary\n").expect("the service takes it");
        poll.shutdown(Shutdown::Write).expect("it is connected");
    }
    for poll in &mut polls {
        let answer = tidegate.read_to_end(poll);
        assert!(answer.starts_with(b"up drain # i="), "{answer:?}");
    }
    let status = tidegate.process().await_end(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn it_ends_soon_although_peers_hold_their_connections() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    // A half request on either port, neither ever finished.
    let mut poll = tidegate.connect();
    poll.write_all(b"web/cny").expect("the service takes it");
    let mut page = std::net::TcpStream::connect(tidegate.http()).expect("it listens");
    page.write_all(b"GET /livez HTTP/1.1\r\nHost:")
        .expect("the service takes it");
    assert_eq!(tidegate.get("/livez").status, 200);
    let begin = Instant::now();
    assert_eq!(tidegate.stop(), Some(0));
    println!("ended after {:?}", begin.elapsed());
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    let mut poll = tidegate.connect();
    poll.write_all(b"w").expect("the service takes it");
    tidegate.process().signal(Signal::TERM);
    tidegate.process().await_log("stopping", PATIENCE);
    // It would wait up to a second for this request.
    let mut drip = || {
        poll.write_all(b"w").ok();
        let_pass(Duration::from_millis(20));
    };
    drip();
    let begin = Instant::now();
    tidegate.process().signal(Signal::INT);
    let mut ended = None;
    while ended.is_none() && begin.elapsed() < PATIENCE {
        drip();
        ended = tidegate.process().ended();
    }
    println!("ended after {:?}", begin.elapsed());
    assert!(
        begin.elapsed() < Duration::from_millis(300),
        "{:?}",
        begin.elapsed()
    );
    assert!(ended.is_some());
}

#[test]
fn a_port_in_use_is_named_with_its_key() {
    let state = StateFolder::new();
    let free = Port::reserve(loopback(1));
    let taken = Port::reserve(loopback(1));
    let address = |port: &Port| format!("127.0.0.1:{}", port.number());
    let _holder = TcpListener::bind(address(&taken)).expect("the port is reserved");
    for (agent, http, key) in [
        (&taken, &free, "agent.listen"),
        (&free, &taken, "http.listen"),
    ] {
        let output = serve(&state, &address(agent), &address(http));
        assert_eq!(output.code, Some(1), "{output:?}");
        let expected = format!("error: {key}: {} cannot be bound", address(&taken));
        assert!(output.stderr.contains(&expected), "{}", output.stderr);
        assert!(output.stderr.contains("in use"), "{}", output.stderr);
    }
}

/// Both would share the port by `SO_REUSEPORT`, and half of the polls would get the other's word.
#[test]
fn a_second_service_does_not_share_the_first_ones_port() {
    let (state, first) = Tidegate::start_drained();
    let http = Port::reserve(loopback(1));
    let http = format!("127.0.0.1:{}", http.number());
    let output = serve(&state, &first.agent().to_string(), &http);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("error: agent.listen: "),
        "{}",
        output.stderr
    );
}

fn serve(state: &StateFolder, agent: &str, http: &str) -> Output {
    let kv = state.kv();
    let arguments = [
        "serve",
        "--env",
        "gprd",
        "--standalone",
        "--slot",
        "a",
        "--kv",
        &kv,
        "--agent-listen",
        agent,
        "--http-listen",
        http,
    ];
    tidegate(&arguments, &[])
}
