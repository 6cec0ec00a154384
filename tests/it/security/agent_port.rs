//! The agent port: who is answered, by the source address.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::harness::consul::loopback;
use crate::harness::dial::connect_from;
use crate::harness::process::Output;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, drained, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

const NOT_ALLOWED: &str = r#"tidegate_agent_silent_total{reason="not_allowed"}"#;
const ANSWERED: &str = r#"tidegate_agent_answers_total{answer="drain"}"#;

/// What an address is told; empty: closed without a byte.
fn told(source: IpAddr, agent: SocketAddr) -> Vec<u8> {
    let mut stream = connect_from(source, agent).expect("the kernel accepts");
    stream
        .set_read_timeout(Some(Duration::from_secs(3)))
        .expect("the limit is not zero");
    // It may be closed already.
    stream.write_all(b"web/cny canary\n").ok();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{source}: {error}"),
        Ok(_) | Err(_) => answer,
    }
}

#[test]
fn an_address_outside_the_ranges_is_closed_without_a_byte_and_counted() {
    let (_state, tidegate) = drained(&[
        "--agent-allow",
        "127.0.0.2/31",
        "--agent-allow",
        "127.0.0.9",
    ]);
    let (mut answered, mut closed) = (0, 0);
    for (last, is_answered) in [
        (1, false),
        (2, true),
        (3, true),
        (4, false),
        (9, true),
        (8, false),
    ] {
        let answer = told(loopback(last), tidegate.agent());
        assert_eq!(
            answer.starts_with(b"up drain"),
            is_answered,
            "127.0.0.{last}: {answer:?}"
        );
        if is_answered {
            answered += 1;
        } else {
            assert_eq!(answer, b"", "127.0.0.{last}");
            closed += 1;
        }
    }
    eventually("all are counted", PATIENCE, || {
        let counted = [ANSWERED, NOT_ALLOWED].map(|series| tidegate.count(series));
        check(counted == [answered, closed], || format!("{counted:?}"))
    });
    // Nobody of them is a node.
    let fleet = tidegate.get("/api/v1/fleet").text();
    assert!(
        fleet.contains("127.0.0.9") && !fleet.contains("127.0.0.4"),
        "{fleet}"
    );
}

/// A socket for both families sees IPv4 addresses as IPv6 ones.
#[test]
fn ranges_of_ipv4_hold_on_a_listener_for_both_families() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let arguments = ["--kv", &state.kv(), "--agent-allow", "127.0.0.2,::1"];
    let tidegate = Tidegate::start_on_all_addresses(&arguments);
    let port = tidegate.agent().port();
    let at = |ip: IpAddr| SocketAddr::new(ip, port);
    let v4 = at(Ipv4Addr::LOCALHOST.into());
    assert!(told(loopback(2), v4).starts_with(b"up drain"));
    assert_eq!(told(loopback(1), v4), b"");
    let v6 = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    assert!(told(v6, at(v6)).starts_with(b"up drain"));
}

/// Who is not let in takes no place of who is.
#[test]
fn a_crowd_from_outside_takes_no_place() {
    let limits = ["--agent-connections-max", "2", "--agent-workers", "1"];
    let (_state, tidegate) = drained(&[&["--agent-allow", "127.0.0.2"], &limits[..]].concat());
    let crowd: Vec<_> = (0..100)
        .map(|_| connect_from(loopback(3), tidegate.agent()).expect("the kernel accepts"))
        .collect();
    for _ in 0..10 {
        assert!(told(loopback(2), tidegate.agent()).starts_with(b"up drain"));
    }
    drop(crowd);
    let over_limit = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
    assert_eq!(tidegate.count(over_limit), 0);
}

/// An empty list from a template would let in everybody.
#[test]
fn ranges_that_cannot_be_meant_are_refused_at_the_start() {
    let state = StateFolder::new();
    let refused = |ranges: &str| -> Output {
        let kv = state.kv();
        tidegate(
            &[
                "serve",
                "--env",
                "gprd",
                "--kv",
                &kv,
                "--agent-allow",
                ranges,
            ],
            &[],
        )
    };
    for (ranges, text) in [
        ("", "empty; leave it out"),
        ("10.0.0.0/8,", "is no range"),
        ("10.1.0.0/8", "write 10.0.0.0/8"),
        ("lb-1", "is no range"),
    ] {
        let output = refused(ranges);
        assert_eq!(output.code, Some(2), "{ranges}: {output:?}");
        assert!(output.stderr.contains(text), "{ranges}: {output:?}");
    }
}
