//! What happens by itself with time: a ramp by weight, a plan.

use std::time::Duration;

use tidegate::clock;

use super::{WRITTEN, Web, describe};
use crate::harness::haproxy::Haproxy;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

const SHORT: Duration = Duration::from_millis(250);

/// Everything that a row showed, each change once.
#[derive(Default)]
struct History(Vec<(String, u32)>);

impl History {
    /// Looks at `web/a`, and gives its status and weight.
    fn look(&mut self, node: &Haproxy) -> (String, u32) {
        let row = node.server("web", "a");
        let now = (row.status().to_owned(), row.weight());
        if self.0.last() != Some(&now) {
            self.0.push(now.clone());
        }
        now
    }
}

/// Looks at both nodes until each has reached the end.
fn follow(nodes: &[Haproxy; 2], end: (&str, u32)) -> [Vec<(String, u32)>; 2] {
    let mut histories = [History::default(), History::default()];
    eventually("both nodes reach the end", PATIENCE, || {
        let seen: Vec<_> = nodes
            .iter()
            .zip(&mut histories)
            .map(|(n, h)| h.look(n))
            .collect();
        let ended = seen
            .iter()
            .all(|(status, weight)| status.starts_with(end.0) && *weight == end.1);
        check(ended, || format!("{seen:?}"))
    });
    histories.map(|history| history.0)
}

fn start(state: &StateFolder) -> (Tidegate, [Haproxy; 2]) {
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("a", "canary base=100", "")
        .start();
    (tidegate, nodes)
}

#[test]
fn a_ramp_by_weight_is_followed_step_by_step_and_never_goes_down() {
    let state = StateFolder::new();
    state.put("canary-state", "1%");
    let (_tidegate, nodes) = start(&state);
    let await_both = |seen| {
        for node in &nodes {
            node.await_server("web", "a", seen, WRITTEN);
        }
    };
    await_both(("no check", Some(1)));
    state.put("canary-state", "drain");
    await_both(("DRAIN", Some(1)));

    let since = clock::now();
    let ramp = r#"{"by":"weight","steps":[5,25,50],"every":"1s"}"#;
    state.put(
        "canary-state",
        format!(r#"{{"state":"ready","ramp":{ramp},"since":"{since}"}}"#),
    );
    for history in follow(&nodes, ("no check", 100)) {
        let weights: Vec<_> = history.iter().map(|(_, weight)| *weight).collect();
        eprintln!("ramp by weight: {history:?}");
        assert_eq!(weights, [1, 5, 25, 50, 100], "{history:?}");
    }
    let took = clock::now().duration_since(since);
    assert!(
        took.as_secs_f64() >= 3.0,
        "three steps of a second: {took:?}"
    );
}

#[test]
fn a_plan_goes_from_drain_to_maintenance_with_no_client_alive() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let (_tidegate, nodes) = start(&state);
    for node in &nodes {
        node.await_server("web", "a", ("no check", Some(100)), WRITTEN);
    }
    let since = clock::now();
    state.put(
        "canary-state",
        format!(r#"{{"state":"drain","then":{{"state":"maint","after":"2s"}},"since":"{since}"}}"#),
    );
    let histories = follow(&nodes, ("MAINT", 100));
    let took = clock::now().duration_since(since).as_secs_f64();
    for (history, node) in histories.iter().zip(&nodes) {
        let statuses: Vec<_> = history.iter().map(|(status, _)| status.as_str()).collect();
        let row = describe(&node.server("web", "a"));
        assert_eq!(statuses, ["no check", "DRAIN (agent)", "MAINT"], "{row}");
    }
    eprintln!("plan of 2 s: both nodes in maintenance {took:.2} s after it was written");
    assert!(took >= 2.0, "{took}");
}
