//! The guard of the settings against a careless `consul kv put`, up to HAProxy and back.

use std::time::Duration;

use super::*;
use crate::follows::{Web, describe};
use crate::harness::consul::Consul;
use crate::harness::wait::{check, eventually, throughout};

const SHORT: Duration = Duration::from_millis(250);
const GUARDED: &str =
    r#"{"guard":{"groups":["main"]},"rows":[{"server":"web/m","groups":["main"]}]}"#;
const FORCED: &str = r#"{"state":"drain","by":"ana","reason":"zone b burns","force":true}"#;

/// As a person does in an emergency: with the real `consul kv put`.
fn put(consul: &Consul, path: &str, value: &str) {
    let output = consul.cli(&["kv", "put", &format!("frontend/gprd/{path}"), value]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_careless_put_freezes_what_it_covers_and_is_shown_everywhere() {
    let place = Place::consul();
    place.done(&["init"]);
    let Place::Consul(consul) = &place else {
        unreachable!("it is a Consul")
    };
    put(consul, "settings", GUARDED);
    put(consul, "group-states/main", "40%");
    let tidegate = Tidegate::start_on(consul);
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("m", "main node=${HAPROXY_LOCALPEER} base=100", "")
        .row("cny", "canary base=100", "")
        .start();
    for node in &nodes {
        node.await_server("web", "m", ("no check", Some(40)), WRITTEN);
    }

    put(consul, "group-states/main", "drain");
    let frozen = |node: &crate::harness::haproxy::Haproxy| {
        let row = node.server("web", "m");
        let stands = row.status() == "no check" && row.weight() == 40;
        check(stands, || describe(&row))
    };
    for node in &nodes {
        eventually("HAProxy shows the word", WRITTEN, || {
            let row = node.server("web", "m");
            check(row.last_agt().ends_with("unknown-directive"), || {
                describe(&row)
            })
        });
    }
    throughout("HAProxy keeps its state", 4 * SHORT, || {
        nodes.iter().try_for_each(frozen)
    });
    let why = "protected by settings.guard";
    assert_eq!(tidegate.count("tidegate_problems{kind=\"guard\"}"), 1);
    let replica = format!("--replica=http://{}", tidegate.http());
    let shown = place.done(&["status", &replica]);
    let line = shown
        .lines()
        .find(|line| line.contains("group-states/main"));
    assert!(line.is_some_and(|line| line.contains(why)), "{shown}");
    let explained = place.done(&["explain", "web/m main"]);
    assert!(
        explained.contains("unknown-directive") && explained.contains(why),
        "{explained}"
    );

    // Knowingly it passes, and the canary's bare word always does.
    put(consul, "group-states/main", FORCED);
    put(consul, "canary-state", "drain");
    for node in &nodes {
        node.await_server("web", "m", ("DRAIN", None), WRITTEN);
        node.await_server("web", "cny", ("DRAIN", None), WRITTEN);
    }
    assert_eq!(tidegate.count("tidegate_problems{kind=\"guard\"}"), 0);
    assert!(!place.done(&["status", &replica]).contains(why));
}
