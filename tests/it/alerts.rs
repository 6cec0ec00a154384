//! The alerts of `deploy/prometheus`: checked by Prometheus' own tool, and against real scrapes.
//! `slow::alerts` lets them fire and clear.

mod runbook;
mod scrape;
mod shown;
mod units;

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::prometheus::Prometheus;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// The rules as they are rolled out.
pub(crate) fn rules() -> String {
    fs::read_to_string(folder().join("tidegate.rules.yml")).expect("the rules are there")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus")
}

/// What Alertmanager keeps other alerts quiet by.
#[test]
fn what_is_meant_to_be_out_is_an_alert_of_a_real_prometheus_until_it_is_back() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    state.put("nodes/lb-1/server-overrides/web/a", "maint");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let prometheus = Prometheus::of_replica(tidegate.http(), &rules());
    let firing = |expected: &[&[&str]]| {
        eventually("the alerts are so", PATIENCE, || {
            let text = prometheus.query(r#"ALERTS{severity="none"}"#)?;
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
