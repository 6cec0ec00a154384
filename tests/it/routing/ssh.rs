//! Connections over SSH: the canary has its share, and a drain lets open ones be.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use super::{Canary, Edge};
use crate::harness::haproxy::Version;
use crate::harness::wait::{PATIENCE, check, eventually};

fn connect(edge: &Edge) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(edge.ports.at(1, "BIND_SSH")).expect("HAProxy listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("the limit is not zero");
    BufReader::new(stream)
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("it is answered in time");
    line.trim_end().to_owned()
}

fn check_ssh(version: Version) {
    let edge = Edge::start(version, "b", Canary::Ready);
    let up = |server: &str| {
        edge.node
            .await_server("ssh", server, ("UP", Some(100)), PATIENCE)
    };
    up("shell-gke-us-east1-b");
    up("gke-cny-ssh");
    let mut open: Vec<_> = (0..4).map(|_| connect(&edge)).collect();
    let greeted: BTreeSet<_> = open.iter_mut().map(line).collect();
    let both = ["SSH-2.0-gke-cny-ssh", "SSH-2.0-shell-gke-us-east1-b"].map(str::to_owned);
    assert_eq!(greeted, BTreeSet::from(both), "{version:?}");

    edge.state.put("canary-state", "drain");
    edge.node
        .await_server("ssh", "gke-cny-ssh", ("DRAIN", None), PATIENCE);
    for _ in 0..4 {
        assert_eq!(
            line(&mut connect(&edge)),
            "SSH-2.0-shell-gke-us-east1-b",
            "{version:?}"
        );
    }
    for stream in &mut open {
        stream
            .get_mut()
            .write_all(b"still there\r\n")
            .expect("it is open");
        assert_eq!(line(stream), "still there", "{version:?}");
    }
    drop(open);
    eventually("the canary's sessions end", PATIENCE, || {
        let sessions = edge.node.server("ssh", "gke-cny-ssh").number("scur");
        check(sessions == 0, || sessions.to_string())
    });
}

#[test]
fn a_drain_of_the_canary_takes_new_ssh_connections_away_and_keeps_open_ones_on_haproxy_2_6() {
    check_ssh(Version::V26);
}

#[test]
fn a_drain_of_the_canary_takes_new_ssh_connections_away_and_keeps_open_ones_on_haproxy_2_8() {
    check_ssh(Version::V28);
}
