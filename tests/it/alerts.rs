//! The alerts of `deploy/prometheus`: checked by Prometheus' own tool, and against a real scrape.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::process::run;
use crate::harness::prometheus::Prometheus;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::tools::tool;
use crate::harness::wait::{PATIENCE, check, eventually};

const RULES: &str = "tidegate.rules.yml";

#[test]
fn the_rules_are_valid_and_fire_when_they_should() {
    promtool(&["check", "rules", RULES]);
    promtool(&["test", "rules", "tidegate.rules.test.yml"]);
}

#[test]
fn every_metric_of_the_rules_is_in_a_scrape_of_a_replica_with_peers() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    state.put("server-overrides/web/a", "ready");
    let replicas = Replicas::start(2, &["--kv", &state.kv()], &[]);
    let scrape = replicas.all[0].get("/metrics").text();
    let is_shown = |name: &str| {
        let mut lines = scrape.lines().filter_map(|line| line.strip_prefix(name));
        lines.any(|rest| rest.starts_with(['{', ' ']))
    };
    let rules = fs::read_to_string(folder().join(RULES)).expect("the rules are there");
    let names = metrics_of(&rules);
    assert!(names.contains("tidegate_peer_differs"), "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !is_shown(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in\n{scrape}");
}

/// What Alertmanager keeps other alerts quiet by.
#[test]
fn what_is_meant_to_be_out_is_an_alert_of_a_real_prometheus_until_it_is_back() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    state.put("nodes/lb-1/server-overrides/web/a", "maint");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let rules = fs::read_to_string(folder().join(RULES)).expect("the rules are there");
    let prometheus = Prometheus::of_replica(tidegate.http(), &rules);
    let firing = |expected: &[&[&str]]| {
        eventually("the alerts are so", PATIENCE, || {
            let text = prometheus.query("ALERTS")?;
            let alerts = text.matches("alertname").count() == expected.len();
            let all = |labels: &&[&str]| labels.iter().all(|label| text.contains(label));
            check(alerts && expected.iter().all(all), || text.clone())
        });
    };
    let group = [
        "TidegateGroupOut",
        r#""group":"canary""#,
        r#""state":"drain""#,
    ];
    let server = [
        "TidegateServerOut",
        r#""proxy":"web""#,
        r#""server":"a""#,
        r#""node":"lb-1""#,
        r#""state":"maint""#,
    ];
    firing(&[&group, &server]);
    state.put("canary-state", "ready");
    firing(&[&server]);
    state.remove("nodes/lb-1/server-overrides/web/a");
    firing(&[]);
}

#[test]
fn replicas_with_other_settings_show_and_count_it_until_they_are_mended() {
    let state = StateFolder::new();
    let mut replicas = Replicas::start(2, &["--kv", &state.kv()], &[]);
    let [a, b] = &mut replicas.all[..] else {
        panic!("two were started");
    };
    await_identity(a, 0);
    b.kill();
    b.add_arguments(&["--poll-interval", "1s"]);
    b.relaunch();
    await_identity(a, 1);
    let text = "degraded: peer b is not counted as one: its poll_interval or its list of peers is \
                another";
    a.await_readyz(200, text, PATIENCE);
    a.expect_counted("b", "no-peer");
    let view = a.get("/api/v1/replicas").text();
    assert!(view.contains("check-config"), "{view}");

    a.kill();
    a.add_arguments(&["--poll-interval", "1s"]);
    a.start_again();
    a.await_counted("b", "current");
    await_identity(a, 0);
}

fn await_identity(tidegate: &Tidegate, differs: u64) {
    let series = r#"tidegate_peer_differs{peer="b",what="identity"}"#;
    eventually("the difference is counted", PATIENCE, || {
        let counted = tidegate.count(series);
        check(counted == differs, || counted.to_string())
    });
}

/// Names in the expressions; the texts name none.
fn metrics_of(rules: &str) -> BTreeSet<&str> {
    let lines = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with("tidegate_")).collect()
}

fn promtool(arguments: &[&str]) {
    let mut command = Command::new(tool("promtool"));
    command.args(arguments).current_dir(folder());
    let output = run("promtool", &command, PATIENCE);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus")
}
