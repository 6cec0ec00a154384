//! What dashboards see of a node when it is enrolled.

use std::collections::BTreeSet;

use crate::harness::haproxy::Version;
use crate::harness::http;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::PATIENCE;
use crate::read_paths::Node;

/// Every series of a node's own exporter, and the values of those that say a server's state.
struct Scrape {
    series: BTreeSet<String>,
    states: BTreeSet<String>,
}

impl Scrape {
    fn of(node: &Node) -> Self {
        let text = http::get(node.exporter, "/metrics")
            .expect("the exporter answers")
            .text();
        let lines = || {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
        };
        let series = |line: &str| line.rsplit_once(' ').map(|(series, _)| series.to_owned());
        let is_state = |line: &&str| {
            line.starts_with("haproxy_server_status{") || line.starts_with("haproxy_server_weight{")
        };
        Self {
            series: lines().filter_map(series).collect(),
            states: lines().filter(is_state).map(str::to_owned).collect(),
        }
    }
}

#[test]
fn the_exporters_series_of_a_node_are_the_same_before_and_after_enrolment() {
    for version in Version::ALL {
        let state = StateFolder::new();
        state.put("canary-state", "ready");
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        let mut node = Node::start("lb-1", version, None);
        let await_canary = |node: &Node, status: &str| {
            for backend in ["web", "canary_web"] {
                let wanted = (status, None);
                let haproxy = &node.haproxy;
                haproxy.await_server(backend, "gke-cny-web", wanted, PATIENCE);
            }
        };
        let ready = Scrape::of(&node);
        for backend in ["web", "canary_web"] {
            node.haproxy
                .stats(&format!("set server {backend}/gke-cny-web state drain"));
        }
        let drained = Scrape::of(&node);
        let line = "haproxy_server_status{proxy=\"web\",server=\"gke-cny-web\",state=\"DRAIN\"} 1";
        assert!(drained.states.contains(line), "{:?}", drained.states);

        state.put("canary-state", "drain");
        node.enrol(tidegate.agent());
        await_canary(&node, "DRAIN");
        let enrolled = Scrape::of(&node);
        assert_eq!(drained.series, enrolled.series, "{version:?}");
        assert_eq!(drained.states, enrolled.states, "{version:?}");

        state.put("canary-state", "ready");
        await_canary(&node, "no check");
        let enrolled = Scrape::of(&node);
        assert_eq!(ready.series, enrolled.series, "{version:?}");
        assert_eq!(ready.states, enrolled.states, "{version:?}");
    }
}
