//! HAProxy's own word by two ways: its sockets, and its exporter by way of a real Prometheus.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::wait::{PATIENCE, check, eventually};
use crate::read_paths::{DRAIN, Fleet, expect};

/// Each row's class, by node and server.
fn classes(fleet: &Fleet, source: &[String]) -> BTreeMap<String, String> {
    let shown = fleet.run(&["status", "--output", "json"], source);
    expect(&shown, 0, &[]);
    let view: Value = serde_json::from_str(&shown.stdout).expect("it is JSON");
    let rows = view["rows"].as_array().expect("it has rows");
    let class = |row: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = format!("{} {}", text(&row["node"]), text(&row["server"]));
        // Only the sockets tell a server without a check from one that is up.
        let class = text(&row["observed"]["class"]).replace("no check", "UP");
        (id, class)
    };
    rows.iter().map(class).collect()
}

/// Of the recorded outputs of both versions: `show stat`, and the exporter's by way of Prometheus.
#[test]
fn both_sources_say_the_same_of_each_row_in_each_state() {
    let fleet = Fleet::start();
    let prometheus = fleet.prometheus();
    let scraped = [format!("--prometheus={}", prometheus.url())];
    for (directive, status, code) in [
        (DRAIN, "DRAIN", 4),
        ("maint", "MAINT", 0),
        ("40%", "no check", 0),
        ("ready", "no check", 0),
    ] {
        fleet.put_canary(directive, status);
        let said = classes(&fleet, &fleet.sockets());
        assert_eq!(said.len(), 6, "{said:?}");
        eventually("Prometheus says the same", PATIENCE, || {
            let seen = classes(&fleet, &scraped);
            check(seen == said, || format!("{seen:?}, not {said:?}"))
        });
        for source in [&scraped[..], &fleet.sockets()] {
            let found = fleet.run(&["precheck", "--stage", "cny"], source);
            expect(&found, code, &["stage cny, 6 of 6 rows known"]);
        }
    }
}
