//! `precheck` and `gate` over real nodes of both versions.

use std::net::TcpListener;

use super::{Fleet, expect};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::tidegate;

#[test]
fn a_drain_blocks_the_canary_stage_and_maint_and_ready_do_not() {
    let fleet = Fleet::start();
    let sockets = fleet.sockets();
    let whose = "canary-state is drain by alice since 2026-01-02T03:04:05Z: bad release";
    let blocked = fleet.run(&["precheck", "--stage", "cny"], &sockets);
    let lines = [
        format!("blocks  canary_web/gke-cny-web is DRAIN (agent), on lb-1, lb-2; {whose}\n"),
        format!("blocks  web/gke-cny-web is DRAIN (agent), on lb-1, lb-2; {whose}\n"),
        "blocked: stage cny, 6 of 6 rows known\n".to_owned(),
    ];
    expect(&blocked, 4, &[]);
    assert_eq!(blocked.stdout, lines.concat());
    assert!(
        blocked
            .stderr
            .contains("error: the precheck blocks: 4 rows"),
        "{blocked:?}"
    );
    let main = fleet.run(&["precheck", "--stage", "main"], &sockets);
    expect(&main, 0, &["passes: stage main, 2 of 2 rows known"]);
    let gate = fleet.run(&["gate"], &sockets);
    expect(
        &gate,
        4,
        &["canary_web is down on lb-1, lb-2; canary-state is drain by alice"],
    );

    fleet.state.put("canary-state", "maint");
    fleet.await_canary("MAINT");
    let out = fleet.run(&["precheck", "--stage", "cny"], &sockets);
    expect(&out, 0, &["passes: stage cny, 6 of 6 rows known"]);
    expect(
        &fleet.run(&["gate"], &sockets),
        4,
        &["canary_web is down on"],
    );

    fleet.state.put("canary-state", "ready");
    fleet.await_canary("no check");
    let ready = fleet.run(
        &["precheck", "--stage", "cny", "--output", "json"],
        &sockets,
    );
    expect(&ready, 0, &["\"passes\": true", "\"known\": 6"]);
    expect(
        &fleet.run(&["gate"], &sockets),
        0,
        &["canary is up: 2 canary backends"],
    );
}

#[test]
fn a_node_that_cannot_be_asked_blocks_and_is_named() {
    let fleet = Fleet::start();
    // It takes the connection, and says nothing.
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let hung_at = hung.local_addr().unwrap();
    let mut sockets = fleet.sockets();
    sockets[0] = format!("--stats=lb-1={hung_at}");
    sockets.push("--stats=lb-3=unix:/nowhere/haproxy.sock".to_owned());
    let found = fleet.run(&["precheck", "--stage", "main"], &sockets);
    let hung = format!("blocks  stats of lb-1: {hung_at}: no whole answer within 5s");
    let gone = "blocks  stats of lb-3: unix:/nowhere/haproxy.sock: No such file";
    expect(&found, 4, &[&hung, gone, "1 of 1 rows known"]);
    expect(&fleet.run(&["gate"], &sockets[1..]), 4, &[&gone[8..]]);
}

#[test]
fn a_node_that_polls_and_that_nobody_asks_is_a_no_of_the_gate() {
    let fleet = Fleet::start();
    fleet.state.put("canary-state", "ready");
    fleet.await_canary("no check");
    let sockets = fleet.sockets();
    expect(&fleet.run(&["gate"], &sockets), 0, &["canary is up"]);
    let one = fleet.run(&["gate"], &sockets[1..]);
    expect(&one, 4, &["  canary_web is not known on lb-1\n"]);
}

#[test]
fn nothing_known_is_a_no() {
    let fleet = Fleet::start();
    let nobody = fleet.run(&["precheck", "--stage", "cny"], &[]);
    let texts = ["nobody was asked what HAProxy has", "0 of 4 rows are known"];
    expect(&nobody, 4, &texts);
    expect(&fleet.run(&["gate"], &[]), 4, &["nobody was asked"]);
    // No store, no replica, no Prometheus.
    let state = StateFolder::new();
    state.remove("_meta");
    let (kv, dead) = (state.kv(), "http://127.0.0.1:1");
    let common = [
        "--env",
        "gprd",
        "--kv",
        &kv,
        "--replica",
        dead,
        "--prometheus",
        dead,
    ];
    for (command, text) in [
        (
            &["gate"][..],
            "  prometheus http://127.0.0.1:1: Connection refused",
        ),
        (
            &["precheck", "--stage", "main"],
            "blocks  0 of 0 rows are known",
        ),
    ] {
        let output = tidegate(&[command, &common].concat(), &[]);
        expect(&output, 4, &[text]);
    }
}
