//! The routing of `deploy/haproxy/edge.cfg` in every state of the canary.

use crate::harness::haproxy::Version;
use crate::routing::Canary;
use crate::routing::table::{REQUESTS, check};

fn check_all(version: Version, zone: &'static str) {
    for canary in Canary::ALL {
        check(version, zone, canary);
        println!("{version:?} in zone {zone}, canary {canary:?}: {REQUESTS} requests, no mismatch");
    }
}

#[test]
fn haproxy_2_6_routes_as_the_table_says_in_every_state_of_the_canary() {
    check_all(Version::V26, "b");
}

#[test]
fn haproxy_2_8_routes_as_the_table_says_in_every_state_of_the_canary() {
    check_all(Version::V28, "c");
}
