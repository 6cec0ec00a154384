//! Every metric of the rules is in a scrape of a replica, or of a real HAProxy.

use std::collections::BTreeSet;

use regex::Regex;

use super::rules;
use crate::harness::consul::Consul;
use crate::harness::haproxy::Version;
use crate::harness::http;
use crate::harness::prometheus::Prometheus;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::META;
use crate::harness::tidegate::consul_environment_over_tls;
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::read_paths::Node;

/// Prometheus' own, and those of the older exporter of HAProxy, which is no part of it.
const FOREIGN: [&str; 2] = ["up", "haproxy_server_up"];

#[test]
fn every_metric_of_the_rules_is_in_a_scrape_of_a_replica_or_of_haproxy() {
    let consul = Consul::dev_with_tls();
    let since = tidegate::clock::now();
    let directive =
        format!(r#"{{"state":"drain","since":"{since}","until":"2999-01-01T00:00:00Z"}}"#);
    for (key, value) in [
        ("_meta", META),
        ("canary-state", &directive),
        ("server-overrides/web/a", &directive),
        ("settings", r#"{"rows":[{"server":"web/b"}]}"#),
    ] {
        consul.kv_put(&format!("frontend/gprd/{key}"), value);
    }
    let environment = consul_environment_over_tls(&consul);
    let replicas = Replicas::start(2, &["--kv", "consul"], &environment);
    let nodes = Version::ALL.map(|version| Node::start("lb-1", version, None));
    let exporters = nodes.iter().map(|node| node.exporter);
    let names = names();
    assert!(names.contains("tidegate_peer_differs"), "{names:?}");
    // What the replicas know together comes with the second scrape.
    eventually("every metric is there", PATIENCE, || {
        let places = exporters.clone().chain([replicas.all[0].http()]);
        let scrapes = places.map(|place| Some(http::get(place, "/metrics").ok()?.text()));
        let shown: Option<Vec<_>> = scrapes.collect();
        let [old, new, own] = &shown.ok_or("no answer")?[..] else {
            return Err("three are asked".to_owned());
        };
        let is_there = |name: &&String| {
            // Both versions of HAProxy have it, or it is no metric of HAProxy.
            is_in(own, name) || (is_in(old, name) && is_in(new, name))
        };
        let foreign = |name: &&String| FOREIGN.contains(&name.as_str());
        let missing: Vec<_> = names
            .iter()
            .filter(|n| !foreign(n) && !is_there(n))
            .collect();
        check(missing.is_empty(), || {
            format!("{missing:?} are not in\n{own}")
        })
    });
}

fn is_in(scrape: &str, name: &str) -> bool {
    let mut lines = scrape.lines().filter_map(|line| line.strip_prefix(name));
    lines.any(|rest| rest.starts_with(['{', ' ']))
}

/// The metrics that the expressions read, those that the rules record left out.
fn names() -> BTreeSet<String> {
    let prometheus = Prometheus::launch("1m", &rules(), "");
    let rules = prometheus.rules();
    let text = Regex::new(r#""[^"]*""#).expect("a constant pattern");
    let name =
        Regex::new(r"\b(up|(?:tidegate|haproxy)[_:][a-z0-9_:]+)\b").expect("a constant pattern");
    let (mut read, mut recorded) = (BTreeSet::new(), BTreeSet::new());
    for rule in &rules {
        let query = rule["query"].as_str().expect("each rule has an expression");
        let query = text.replace_all(query, "");
        read.extend(
            name.find_iter(&query)
                .map(|found| found.as_str().to_owned()),
        );
        if rule["type"] == "recording" {
            recorded.extend(rule["name"].as_str().map(str::to_owned));
        }
    }
    let unused: Vec<_> = recorded.difference(&read).collect();
    assert!(unused.is_empty(), "no alert reads {unused:?}");
    read.difference(&recorded).cloned().collect()
}
