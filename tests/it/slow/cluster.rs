//! The cluster of the harness keeps its promise.

use std::time::Duration;

use crate::harness::consul_cluster::ConsulCluster;
use crate::harness::wait::{check, eventually};

#[test]
fn a_cluster_survives_the_death_of_its_leader() {
    let mut cluster = ConsulCluster::start();
    cluster.client().kv_put("a/one", "1");
    let leader = cluster.leader();
    cluster.servers[leader].kill();
    eventually("another server leads", Duration::from_secs(20), || {
        let answer = cluster.client().call("PUT", "/v1/kv/a/one", b"2");
        check(answer.status == 200, || answer.text())
    });
    assert_ne!(cluster.leader(), leader);
    cluster.servers[leader].start();
    assert_eq!(
        cluster.servers[leader].kv_get("a/one").as_deref(),
        Some(&b"2"[..])
    );
}
