//! `status` and `get`: what a person sees.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{DRAIN, Fleet, expect};
use crate::harness::consul::Consul;
use crate::harness::process::run;
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

#[test]
fn a_split_and_a_silent_node_are_shown() {
    let mut fleet = Fleet::start();
    let settings = r#"{"nodes":[{"name":"lb-1","role":"main","zone":"z-b"}]}"#;
    fleet.state.put("settings", settings);
    fleet.state.put("nodes/lb-2/canary-state", "ready");
    let sockets = fleet.sockets();
    let split = "split    canary_web/gke-cny-web: DRAIN on lb-1; UP on lb-2\n";
    let shown = eventually("the split is shown", PATIENCE, || {
        let shown = fleet.run(&["status"], &sockets);
        let settled = shown.stdout.contains(split) && !shown.stdout.contains("differs");
        check(settled, || shown.stdout.clone()).map(|()| shown.stdout)
    });
    for line in [
        "6 rows on 2 nodes\nHAProxy's own word: stats of lb-1, stats of lb-2\n",
        "NODES  SERVER",
        "canary-state is drain by alice since 2026-01-02T03:04:05Z: bad release\n",
        "nodes/lb-2/canary-state is ready 100%\n",
    ] {
        assert!(shown.contains(line), "no {line:?} in\n{shown}");
    }
    let lines = fleet.run(&["get", "cny"], &sockets);
    expect(&lines, 0, &[]);
    assert_eq!(
        lines.stdout,
        "1 - canary_web/gke-cny-web: UP\n1 main canary_web/gke-cny-web: DRAIN\n\
         1 - web/gke-cny-web: UP\n1 main web/gke-cny-web: DRAIN\n",
    );
    assert_eq!(lines.stderr, "");
    for selector in ["role=main", "node=lb-1", "group=canary node=lb-.*1"] {
        let lines = fleet.run(&["get", "backend=web", selector], &sockets);
        expect(&lines, 0, &[]);
        let drained = "1 main web/gke-cny-web: DRAIN\n";
        assert!(lines.stdout.contains(drained), "{selector}: {lines:?}");
        assert!(
            !lines.stdout.contains("UP") || selector != "group=canary node=lb-.*1",
            "{lines:?}"
        );
    }
    fleet.nodes[1].haproxy.stop();
    eventually("the silence is shown", PATIENCE, || {
        let shown = fleet.run(&["status"], &sockets);
        let named = ["silent   lb-2, last poll ", "missing  stats of lb-2: unix:"];
        let all = named.iter().all(|text| shown.stdout.contains(text));
        check(all, || shown.stdout.clone())
    });
}

#[test]
fn the_view_as_json_holds_all_three_and_the_block_for_chat_the_canary() {
    let fleet = Fleet::start();
    let sockets = fleet.sockets();
    let json = fleet.run(&["status", "canary_web", "--output", "json"], &sockets);
    expect(&json, 0, &[]);
    let view: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    let rows = view["rows"].as_array().expect("it has rows");
    assert_eq!(rows.len(), 2, "{view}");
    for (row, node) in rows.iter().zip(["lb-1", "lb-2"]) {
        assert_eq!(row["node"], node);
        assert_eq!(row["state"], "DRAIN");
        assert_eq!(row["canary"], true);
        assert_eq!(row["desired"]["answer"], "drain");
        assert_eq!(row["desired"]["path"], "canary-state");
        assert_eq!(row["desired"]["by"], "alice");
        assert_eq!(row["served"]["answer"], "drain");
        assert_eq!(row["served"]["behind"], false);
        assert_eq!(row["served"]["index"], view["index"]);
        assert_eq!(row["observed"]["status"], "DRAIN (agent)");
        assert_eq!(row["observed"]["class"], "DRAIN");
        assert_eq!(row["observed"]["sessions"], 0);
        let said = row["observed"]["last_agt"].as_str().unwrap_or_default();
        assert!(said.starts_with("via agent : up (i="), "{row}");
    }
    let chat = fleet.run(&["status", "--output", "chatops"], &sockets);
    expect(&chat, 0, &[]);
    assert_eq!(
        chat.stdout,
        ":canary:\n:canary:\n:canary:\n```\n\
         canary_web          : conn:0 DRAIN:2\n\
         web                 : conn:0 DRAIN:2\n\
         *DRAIN*: canary_web/gke-cny-web, web/gke-cny-web\n```\n",
    );
}

#[test]
fn what_is_missing_is_named_and_nothing_fitting_is_an_error() {
    let fleet = Fleet::start();
    let served = fleet.run(&["get"], &[]);
    expect(&served, 0, &["2 - web/gke-cny-web: DRAIN\n"]);
    assert!(
        served
            .stderr
            .contains("note: these are the states that were served")
    );
    let none = fleet.run(&["status", "nobody"], &fleet.sockets());
    expect(&none, 2, &[]);
    assert!(
        none.stderr
            .contains("error: no server matches \"nobody\"; known are 3 servers of the backends canary_web, web"),
        "{none:?}"
    );
    for (selector, text) in [
        ("colour=red", "unknown tag \"colour\""),
        (
            "node=lb-9",
            "no LB node that has one of the servers matches \"node=lb-9\"",
        ),
        ("server=(", "server=("),
    ] {
        for command in ["status", "get", "diff"] {
            let refused = fleet.run(&[command, selector], &[]);
            expect(&refused, 2, &[]);
            assert!(refused.stderr.contains(text), "{refused:?}");
        }
    }
    let precheck = ["precheck", "--stage", "cny", "server=gke-x"];
    expect(&fleet.run(&precheck, &fleet.sockets()), 2, &[]);
    // The store, without the replica; then nothing at all.
    let (kv, dead) = (fleet.state.kv(), "http://127.0.0.1:1");
    let common = ["status", "--env", "gprd", "--replica", dead, "--kv"];
    let alone = tidegate(&[&common[..], &[&kv]].concat(), &[]);
    expect(
        &alone,
        0,
        &["missing  replica http://127.0.0.1:1: Connection refused"],
    );
    fleet.state.remove("_meta");
    let nothing = tidegate(&[&common[..], &[&kv]].concat(), &[]);
    expect(&nothing, 6, &["missing  the store: frontend/gprd/: "]);
    assert!(
        nothing.stderr.contains("error: nothing could be had"),
        "{nothing:?}"
    );
}

/// Of a real Consul: index and version are the same in the answers and in the listing that the
/// command reads itself; one that hangs or is gone is named, and the rest is shown.
#[test]
fn the_store_may_be_a_consul_and_may_be_away() {
    let mut consul = Consul::dev();
    for (key, value) in [("_meta", META), ("canary-state", DRAIN)] {
        consul.kv_put(&format!("frontend/gprd/{key}"), value);
    }
    let service = Tidegate::start_on(&consul);
    service.await_answer("web/gke-cny-web canary node=lb-1", "up drain", PATIENCE);
    let url = format!("http://{}", service.http());
    let arguments = ["status", "--env", "gprd", "--replica", &url];
    let environment = consul_environment(&consul);
    let look = || tidegate(&arguments, &environment);
    let whole = eventually("the poll is shown", PATIENCE, || {
        let shown = look().stdout;
        check(shown.contains("1 rows on 1 nodes"), || shown.clone()).map(|()| shown)
    });
    let row = "web/gke-cny-web  drain    drain   -        canary-state is drain by alice";
    assert!(whole.contains(row) && !whole.contains("differs"), "{whole}");
    consul.process().pause();
    let hung = look();
    consul.process().resume();
    expect(
        &hung,
        0,
        &["missing  the store: ", "web/gke-cny-web  -        drain"],
    );
    consul.stop();
    expect(&look(), 0, &["missing  the store: ", "Connection refused"]);
}

#[test]
fn watching_writes_each_change_as_a_line_until_the_reader_has_gone() {
    let fleet = Fleet::start();
    let (kv, url) = (
        fleet.state.kv(),
        format!("http://{}", fleet.tidegate.http()),
    );
    let command = format!(
        "{} status cny --watch=1s --env gprd --kv {kv} --replica {url} {} | \
         (sed -u '/served ready/q'); echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_tidegate"),
        fleet.sockets().join(" "),
    );
    // The change comes once the first look is written; the reader ends after its line.
    let watcher = std::thread::spawn(move || {
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).env("NO_COLOR", "1");
        run("watch", &shell, Duration::from_mins(1))
    });
    let flip = |state: &str| fleet.state.put("canary-state", state);
    eventually("the watcher has seen a change", PATIENCE, || {
        flip("ready");
        fleet.await_canary("no check");
        let seen = watcher.is_finished();
        flip(DRAIN);
        fleet.await_canary("DRAIN");
        check(seen || watcher.is_finished(), || {
            "it still watches".to_owned()
        })
    });
    let output = watcher.join().expect("the watcher does not panic");
    let lines: Vec<_> = output.stdout.lines().collect();
    assert!(
        lines[0].starts_with("at ") && lines[0].contains("4 rows on 2 nodes"),
        "{output:?}"
    );
    let changed = lines
        .iter()
        .any(|line| line.contains("served ready 100%, HAProxy"));
    assert!(changed, "{output:?}");
    assert_eq!(
        lines.last(),
        Some(&"0"),
        "a reader that has gone is no error: {output:?}"
    );
    assert!(
        !output.stdout.contains('\x1b'),
        "no terminal, no escapes: {output:?}"
    );
}
