//! The fleet as three replicas know it together.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate::clock;
use tidegate::domain::fleet::{Identity, Polled, Report, Table};
use tidegate::domain::key::Prefix;
use tidegate::domain::name::Name;
use tidegate::domain::request::Request;

use super::forget::check as check_forget;
use super::{INTER, await_fleet, behind, find, list, url};
use crate::follows::Web;
use crate::harness::consul::loopback;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::trio::Trio;
use crate::harness::wait::PATIENCE;

/// As many as a large site has.
const ROWS: usize = 4_000;

#[test]
fn each_replica_shows_what_all_were_asked() {
    let trio = Trio::start();
    for (number, line) in [
        (0, "web/a canary node=lb-1 zone=b"),
        (1, "web/a canary node=lb-1 zone=b"),
        (1, "web/b canary node=lb-1 zone=b"),
        (2, "web/a canary node=lb-2 zone=c"),
    ] {
        assert_eq!(trio.replicas[number].ask_line(line), "up drain");
    }
    for replica in &trio.replicas {
        let fleet = await_fleet(replica, "all rows are there", |fleet| {
            fleet["totals"]["rows"] == 3 && fleet["complete"] == true
        });
        let polls = |row: usize| find(&fleet, "lb-1")["rows"][row]["polls"].clone();
        assert_eq!((polls(0), polls(1)), (2.into(), 1.into()));
        assert_eq!(find(&fleet, "lb-2")["zones"], json!(["c"]));
        assert_eq!(behind(&fleet), []);
        let reported = list(&fleet, "replicas").iter().map(|one| &one["replica"]);
        assert!(reported.eq(["a", "b", "c"]), "{fleet}");
    }

    // Who follows a change tells one of them, and all know.
    let [a, b, c] = &trio.replicas;
    trio.state.put("canary-state", "maint");
    c.await_answer("web/a canary node=lb-2 zone=c", "up maint", PATIENCE);
    let old = [("lb-1", "web/a"), ("lb-1", "web/b")];
    await_fleet(a, "one node has not followed", |fleet| behind(fleet) == old);
    b.await_answer("web/a canary node=lb-1 zone=b", "up maint", PATIENCE);
    for replica in &trio.replicas {
        await_fleet(replica, "one row has not followed", |fleet| {
            behind(fleet) == old[1..]
        });
    }
}

#[test]
fn a_silent_node_is_known_after_a_rolling_restart_of_all() {
    let mut trio = Trio::start();
    trio.replicas[0].ask_line("web/a canary node=lb-gone zone=b");
    let before = await_fleet(&trio.replicas[2], "it is known", |fleet| {
        fleet["totals"]["rows"] == 1
    });
    for replica in &mut trio.replicas {
        assert_eq!(replica.stop(), Some(0));
        replica.start_again();
    }
    for replica in &trio.replicas {
        let fleet = await_fleet(replica, "it is silent", |fleet| {
            fleet["totals"]["nodes_silent"] == 1 && fleet["complete"] == true
        });
        let [now, then] = [&fleet, &before].map(|fleet| find(fleet, "lb-gone"));
        for what in ["zones", "first_poll", "last_poll", "addresses"] {
            assert_eq!(now[what], then[what], "{what}");
        }
    }
}

#[test]
fn a_node_is_forgotten_at_all_replicas_and_who_was_not_told_is_named() {
    let mut trio = Trio::start();
    for (number, server) in [(0, "web/a"), (1, "web/a"), (1, "web/b")] {
        trio.replicas[number].ask_line(&format!("{server} node=lb-1"));
    }
    trio.replicas[2].ask_line("web/a node=lb-2");
    let url = url(&trio.replicas[0]);
    let forget = ["lb-1", "--replica", &url];
    let told = "a: 1 rows of lb-1 forgotten\nb: 2 rows of lb-1 forgotten\n\
                c: 0 rows of lb-1 forgotten\n";
    check_forget(&forget, 0, told);
    check_forget(&forget, 2, "no node is called lb-1");
    for replica in &trio.replicas {
        await_fleet(replica, "only the other one is left", |fleet| {
            names(fleet) == ["lb-2"]
        });
    }

    // It lives, and polls another replica than the one that is looked at.
    trio.replicas[2].ask_line("web/a node=lb-1");
    await_fleet(&trio.replicas[0], "it is known again", |fleet| {
        names(fleet) == ["lb-1", "lb-2"]
    });
    assert_eq!(trio.replicas[2].stop(), Some(0));
    let not_told = "c: not forgotten: http://127.0.0.1:";
    check_forget(&forget, 1, not_told);
    check_forget(&forget, 1, "refuses the connection: no replica runs there");
    trio.replicas[2].start_again();
    await_fleet(&trio.replicas[0], "who was not told shows it", |fleet| {
        names(fleet) == ["lb-1", "lb-2"]
    });
    check_forget(&forget, 0, "c: 1 rows of lb-1 forgotten");
}

#[test]
fn machines_under_one_name_are_noticed_when_each_polls_another_replica() {
    let trio = Trio::start();
    let [a, b, c] = &trio.replicas;
    let _nodes = [(a, 2), (b, 3)].map(|(replica, last)| {
        let source = format!("source {}", loopback(last));
        let web = Web::new(replica.agent(), INTER).row("a", "node=lb-x", &source);
        Haproxy::start(Version::V28, &web.config())
    });
    let shown = await_fleet(c, "the shared name is a problem", |fleet| {
        fleet["totals"]["duplicate_names"] == 1
    });
    assert_eq!(shown["problems"][0]["node"], "lb-x");
    assert_eq!(
        shown["problems"][0]["addresses"],
        json!(["127.0.0.2", "127.0.0.3"])
    );
    // No replica knows by itself.
    for replica in [a, b] {
        assert_eq!(replica.count("tidegate_fleet_duplicate_names"), 0);
    }
}

#[test]
fn the_rows_of_a_large_site_come_from_every_replica() {
    let mut trio = Trio::prepare();
    for (number, slot) in [(1, "b"), (2, "c")] {
        let kept = large(slot, ROWS).to_bytes(&prefix());
        fs::write(trio.data(number).join("fleet"), kept).expect("the folder takes files");
    }
    trio.launch();
    let begin = Instant::now();
    let fleet = super::fleet(&trio.replicas[0]);
    let taken = begin.elapsed();
    assert_eq!(fleet["complete"], true, "{}", fleet["replicas"]);
    assert_eq!(fleet["totals"]["rows"], 2 * ROWS);
    assert_eq!(fleet["rows_left_out"], 0);
    // A debug build on a loaded machine; the limit of a question is two seconds.
    assert!(taken < Duration::from_secs(4), "{taken:?}");
}

/// What a replica of a large site keeps: 50 servers of each node.
fn large(slot: &str, rows: usize) -> Report {
    let (mut table, now) = (Table::new(rows), clock::now());
    for row in 0..rows {
        let (node, server) = (row / 50, row % 50);
        let line =
            format!("web/gke-us-east1-b-{server} node=haproxy-{slot}-{node} zone=us-east1-b\n");
        let request = Request::parse(line.as_bytes()).expect("it is a request");
        let identity = Identity::new(&request, [10, 0, 0, 1].into());
        table.record(&identity, &Polled::once(now, None).in_millis());
    }
    Report {
        replica: Name::parse(slot).expect("it is a name"),
        at: now,
        since: now,
        poll_interval: Duration::from_secs(2),
        newest: None,
        dropped: 0,
        nodes: table.nodes().clone(),
    }
}

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").expect("it is a prefix")
}

fn names(fleet: &Value) -> Vec<&str> {
    let nodes = list(fleet, "nodes").iter();
    nodes.filter_map(|node| node["node"].as_str()).collect()
}
