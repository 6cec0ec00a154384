//! Who polls, what it was told, and who is missing: the fleet view.

mod api;
mod forget;
mod missing;
mod replicas;

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::follows::Web;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::http::request;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// `agent-inter` of the nodes here.
const INTER: Duration = Duration::from_millis(500);
/// What a row says behind its server id.
const WORDS: &str = "canary node=${HAPROXY_LOCALPEER} zone=${LB_ZONE}";

#[test]
fn a_node_that_falls_silent_is_seen_over_a_restart_and_forgotten_when_told() {
    let (state, mut tidegate, data) = remembering();
    let web = Web::new(tidegate.agent(), INTER)
        .row("a", WORDS, "")
        .row("b", WORDS, "");
    let mut nodes = web.start();
    await_fleet(&tidegate, "both nodes are told", |fleet| {
        fleet["totals"]["rows"] == 4
            && fleet["totals"]["rows_behind"] == 0
            && fleet["complete"] == true
    });
    let node = find(&fleet(&tidegate), "lb-28");
    assert_eq!(node["zones"], serde_json::json!(["zone-28"]));
    assert_eq!(node["addresses"][0]["address"], "127.0.0.1");
    let row = &node["rows"][1];
    assert_eq!(
        (&row["server"], &row["answer"]),
        (&"web/b".into(), &"drain".into())
    );

    nodes[0].stop();
    let silent = await_fleet(&tidegate, "the one that ended is silent", |fleet| {
        fleet["totals"]["nodes_silent"] == 1
    });
    let gone = find(&silent, "lb-26");
    assert_eq!(
        (&gone["silent"], &find(&silent, "lb-28")["silent"]),
        (&true.into(), &false.into())
    );
    // It is the one that does not follow a change.
    state.put("canary-state", "maint");
    let expected = [("lb-26", "web/a"), ("lb-26", "web/b")];
    await_fleet(&tidegate, "only the silent one is behind", |fleet| {
        behind(fleet) == expected && find(fleet, "lb-28")["rows"][0]["answer"] == "maint"
    });
    assert_eq!(tidegate.count("tidegate_fleet_nodes"), 2);
    assert_eq!(tidegate.count("tidegate_fleet_nodes_silent"), 1);
    assert_eq!(tidegate.count("tidegate_fleet_rows_behind"), 2);

    assert_eq!(tidegate.stop(), Some(0));
    tidegate.start_again();
    let again = find(&fleet(&tidegate), "lb-26");
    for what in ["last_poll", "first_poll", "zones"] {
        assert_eq!(again[what], gone[what], "{what}");
    }
    assert_eq!(again["rows"], with_behind(&gone["rows"]));
    forget::check(
        &["lb-26", "--replica", &url(&tidegate)],
        0,
        "2 rows of lb-26",
    );
    await_fleet(&tidegate, "it is gone, the other is there", |fleet| {
        let names: Vec<_> = list(fleet, "nodes")
            .iter()
            .map(|n| n["node"].clone())
            .collect();
        names == ["lb-28"]
    });
    assert_eq!(tidegate.stop(), Some(0));
    assert!(data.join("fleet").exists());
    tidegate.start_again();
    await_fleet(&tidegate, "it stays forgotten", |fleet| {
        fleet["totals"]["rows"] == 2
    });
}

#[test]
fn two_machines_under_one_name_are_a_problem_that_is_shown_and_logged_once() {
    let state = StateFolder::new();
    let mut tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let _nodes = ["127.0.0.2", "127.0.0.3"].map(|source| {
        let web = Web::new(tidegate.agent(), INTER);
        let web = web.row("a", "node=lb-x", &format!("source {source}"));
        Haproxy::start(Version::V28, &web.config())
    });
    let shown = await_fleet(&tidegate, "the shared name is a problem", |fleet| {
        fleet["totals"]["duplicate_names"] == 1
    });
    let problem = &shown["problems"][0];
    assert_eq!(problem["node"], "lb-x");
    assert_eq!(problem["kind"], "duplicate_name");
    assert_eq!(
        problem["addresses"],
        serde_json::json!(["127.0.0.2", "127.0.0.3"])
    );
    assert_eq!(tidegate.count("tidegate_fleet_duplicate_names"), 1);
    let text = "come from 127.0.0.2, 127.0.0.3 at once";
    tidegate.process().await_log(text, PATIENCE);
    let polls = |fleet: &Value| find(fleet, "lb-x")["rows"][0]["polls"].as_u64();
    let before = polls(&fleet(&tidegate));
    // The collector looks each second.
    await_fleet(&tidegate, "two more seconds of polls", |fleet| {
        polls(fleet) >= before.map(|count| count + 8)
    });
    let log = tidegate.process().log_text();
    assert_eq!(log.matches(text).count(), 1, "{log}");
}

#[test]
fn a_row_is_behind_from_the_change_to_its_next_poll() {
    let (state, tidegate) = Tidegate::start_drained();
    for node in ["lb-1", "lb-2"] {
        assert_eq!(
            tidegate.ask_line(&format!("web/a canary node={node}")),
            "up drain"
        );
    }
    let told = await_fleet(&tidegate, "both are told", |fleet| {
        fleet["totals"]["rows"] == 2
    });
    assert_eq!(behind(&told), []);
    state.put("canary-state", "40%");
    let changed = await_fleet(&tidegate, "both are behind", |fleet| {
        fleet["totals"]["rows_behind"] == 2
    });
    assert_ne!(changed["newest"], told["newest"]);
    assert_eq!(behind(&changed), [("lb-1", "web/a"), ("lb-2", "web/a")]);
    assert_eq!(changed["behind"][0]["told"], told["newest"]);
    assert_eq!(tidegate.ask_line("web/a canary node=lb-2"), "up ready 40%");
    let one = await_fleet(&tidegate, "one follows", |fleet| {
        fleet["totals"]["rows_behind"] == 1
    });
    assert_eq!(behind(&one), [("lb-1", "web/a")]);
    assert_eq!(find(&one, "lb-2")["rows"][0]["answer"], "ready 40%");
    assert_eq!(tidegate.ask_line("web/a canary node=lb-1"), "up ready 40%");
    await_fleet(&tidegate, "nobody is behind", |fleet| {
        behind(fleet).is_empty()
    });
}

#[test]
fn a_poll_that_is_closed_without_an_answer_is_a_poll() {
    let (state, tidegate) = Tidegate::start_drained();
    assert_eq!(tidegate.ask_line("web/a canary node=lb-1"), "up drain");
    state.remove("_meta");
    tidegate.await_readyz(503, "held", PATIENCE);
    for line in ["web/a canary node=lb-1", "web/b node=lb-1", "unreadable"] {
        assert_eq!(tidegate.ask_line(line), "");
    }
    let shown = await_fleet(&tidegate, "both rows are there", |fleet| {
        fleet["totals"]["rows"] == 2
    });
    let node = find(&shown, "lb-1");
    let (answered, never) = (&node["rows"][0], &node["rows"][1]);
    assert_eq!(
        (&answered["polls"], &answered["unanswered"]),
        (&2.into(), &1.into())
    );
    assert_eq!(answered["answer"], "drain");
    assert!(answered["last_poll"].as_str() > answered["answered"].as_str());
    assert_eq!(
        (&never["polls"], &never["unanswered"]),
        (&1.into(), &1.into())
    );
    assert_eq!(
        (never.get("answer"), &never["behind"]),
        (None, &true.into())
    );
}

#[test]
fn a_torn_fleet_is_named_and_set_aside() {
    let (_state, mut tidegate, data) = remembering();
    tidegate.ask_line("web/a canary node=lb-1");
    assert_eq!(tidegate.stop(), Some(0));
    let whole = fs::read(data.join("fleet")).unwrap();
    let torn = &whole[..whole.len() - 9];
    fs::write(data.join("fleet"), torn).unwrap();
    tidegate.start_again();
    tidegate.process().await_log("it is torn", PATIENCE);
    assert_eq!(fs::read(data.join("fleet.refused")).unwrap(), torn);
    assert_eq!(fleet(&tidegate)["totals"]["rows"], 0);
    tidegate.ask_line("web/a canary node=lb-2");
    assert_eq!(tidegate.stop(), Some(0));
    let kept = fs::read(data.join("fleet")).unwrap();
    assert!(kept.starts_with(b"tidegate-fleet 2 "));
}

/// A service with a drained canary that keeps what it knows.
fn remembering() -> (StateFolder, Tidegate, Folder) {
    let (state, data) = (StateFolder::new(), Folder::new("data"));
    state.put("canary-state", "drain");
    let folder = data.path().display().to_string();
    let tidegate = Tidegate::start(&["--kv", &state.kv(), "--data-dir", &folder]);
    (state, tidegate, data)
}

fn url(tidegate: &Tidegate) -> String {
    format!("http://{}", tidegate.http())
}

/// `/api/v1/fleet` now; it takes seconds when a replica hangs.
fn fleet(tidegate: &Tidegate) -> Value {
    let page = "/api/v1/fleet";
    let answer = request(tidegate.http(), "GET", page, &[], b"", PATIENCE);
    let answer = answer.unwrap_or_else(|error| panic!("GET {page}: {error}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("the API says JSON")
}

/// Waits until the fleet is as expected, and gives it.
fn await_fleet(tidegate: &Tidegate, what: &str, expected: impl Fn(&Value) -> bool) -> Value {
    eventually(what, PATIENCE, || {
        let fleet = fleet(tidegate);
        check(expected(&fleet), || fleet.to_string()).map(|()| fleet)
    })
}

/// One node of a view; null when it is not there.
fn find(fleet: &Value, node: &str) -> Value {
    let nodes = list(fleet, "nodes").iter();
    nodes
        .clone()
        .find(|found| found["node"] == node)
        .cloned()
        .unwrap_or_default()
}

/// The rows that are behind, as (node, server).
fn behind<'a>(fleet: &'a Value) -> Vec<(&'a str, &'a str)> {
    let rows = list(fleet, "behind").iter();
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    rows.map(|row| (text(&row["node"]), text(&row["server"])))
        .collect()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("no list {name} in {value}"))
}

/// The same rows after a change that they were not told, and before silence is heard again.
fn with_behind(rows: &Value) -> Value {
    let mut rows = rows.clone();
    for row in rows.as_array_mut().into_iter().flatten() {
        row["behind"] = true.into();
        row["silent"] = false.into();
    }
    rows
}
