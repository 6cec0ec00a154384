//! A node that is taken away while Prometheus scrapes it.

use crate::harness::prometheus::Prometheus;
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::read_paths::Fleet;

#[test]
fn a_node_that_is_gone_is_not_known_and_a_note() {
    let mut fleet = Fleet::start();
    let exporters = fleet.exporters();
    let named: Vec<_> = exporters
        .iter()
        .map(|(name, at)| (name.as_str(), *at))
        .collect();
    let prometheus = Prometheus::start(&named);
    let source = [format!("--prometheus={}", prometheus.url())];
    fleet.nodes[1].haproxy.stop();
    // Its series end at the first scrape that fails; its polls have ended too.
    eventually("the node is silent, and a note", PATIENCE, || {
        let found = fleet.run(&["precheck", "--stage", "cny"], &source);
        let text = "note    canary_web/gke-cny-web is not known; its node last polled";
        check(found.stdout.contains(text), || found.stdout.clone())
    });
}
