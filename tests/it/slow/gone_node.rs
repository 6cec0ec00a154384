//! A node that is taken away while Prometheus scrapes it.

use crate::harness::wait::{PATIENCE, check, eventually};
use crate::read_paths::Fleet;

#[test]
fn a_node_that_is_gone_blocks_until_its_polls_say_so_too() {
    let mut fleet = Fleet::start();
    let prometheus = fleet.prometheus();
    let source = [format!("--prometheus={}", prometheus.url())];
    fleet.nodes[1].haproxy.stop();
    let main = ["precheck", "--stage", "main"];
    // Its main server asks no agent: nobody else would miss it.
    eventually("the node is missed", PATIENCE, || {
        let found = fleet.run(&main, &source);
        let text = "blocks  node lb-2: was seen a short while ago, and is not now";
        check(found.stdout.contains(text), || found.stdout.clone())
    });
    // Its series end at the first scrape that fails; its polls have ended too.
    eventually("the node is silent, and a note", PATIENCE, || {
        let found = fleet.run(&["precheck", "--stage", "cny"], &source);
        let text = "note    canary_web/gke-cny-web is not known; its node last polled";
        check(found.stdout.contains(text), || found.stdout.clone())
    });
    let passes = fleet.run(&main, &source);
    assert_eq!(passes.code, Some(0), "{passes:?}");
}
