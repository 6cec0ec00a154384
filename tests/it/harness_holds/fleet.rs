//! The example fleet is what it says, and real HAProxy nodes run its configurations.

use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::backend::Backend;
use crate::harness::consul::loopback;
use crate::harness::fleet::{Fleet, Wiring};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::http;
use crate::harness::ports::Port;
use crate::harness::responder::Responder;
use crate::harness::wait::{check, eventually};

const SOON: Duration = Duration::from_secs(5);

#[test]
fn the_fleet_has_as_many_rows_as_it_says() {
    let fleet = Fleet::example();
    assert_eq!(fleet.all_rows().count(), fleet.rows);
    let not_enrolled = fleet
        .all_rows()
        .filter(|(_, backend, _)| *backend == "api_rate_limit");
    assert_eq!(
        fleet.enrolled_rows().count(),
        fleet.rows - not_enrolled.count()
    );
    let canary = fleet
        .enrolled_rows()
        .filter(|(_, _, server)| server.group.is_some())
        .count();
    assert_eq!(canary, fleet.canary_rows);
    assert!(
        fleet
            .nodes
            .iter()
            .all(|node| fleet.zones.contains(&node.zone))
    );
}

#[test]
fn haproxy_accepts_the_configuration_of_a_node_of_each_role_and_zone() {
    let fleet = Fleet::example();
    let nowhere = |_: &str, _: &str| SocketAddr::from(([127, 0, 0, 1], 1));
    let agent = SocketAddr::from(([127, 0, 0, 1], 2));
    let front = SocketAddr::from(([127, 0, 0, 1], 3));
    let inter = Duration::from_secs(2);
    let wiring = Wiring {
        front,
        agent,
        inter,
        address: &nowhere,
        more: "check inter 2s",
    };
    for version in Version::ALL {
        for name in [
            "haproxy-main-01",
            "haproxy-ci-02",
            "haproxy-registry-03",
            "haproxy-pages-01",
        ] {
            let node = fleet.node(name);
            let config = fleet
                .config(node, &wiring)
                .replace("${LB_ZONE}", &node.zone);
            assert_eq!(
                Haproxy::accepts(version, &config),
                Ok(()),
                "{version:?} {name}"
            );
        }
    }
}

#[test]
fn a_node_keeps_its_canary_closed_until_it_is_told_and_serves_its_own_zone() {
    let fleet = Fleet::example();
    let node = fleet.node("haproxy-main-02");
    let own = Backend::start("own");
    let other = Backend::start("other");
    let canary = Backend::start("canary");
    let address = |_: &str, server: &str| match server {
        name if name.contains("-cny-") => canary.address(),
        name if name.contains("us-east1-c") => own.address(),
        _ => other.address(),
    };
    let agent = Responder::start("unknown-directive");
    let front = Port::reserve(loopback(1));
    let front = SocketAddr::new(loopback(1), front.number());
    let inter = Duration::from_millis(200);
    let wiring = Wiring {
        front,
        agent: agent.address(),
        inter,
        address: &address,
        more: "",
    };
    for version in Version::ALL {
        agent.say("unknown-directive");
        let haproxy = fleet.start(version, node, &wiring);
        let get = || http::get(front, "/web/").map(|answer| answer.text());
        haproxy.await_server("web", "gke-cny-web", ("MAINT", None), SOON);
        for _ in 0..8 {
            assert_eq!(get().unwrap(), "own");
        }
        agent.say("up ready 100%");
        haproxy.await_server("web", "gke-cny-web", ("no check", Some(100)), SOON);
        eventually("the canary answers too", SOON, || {
            let text = get().map_err(|error| error.to_string())?;
            check(text == "canary", || text)
        });
        let request = agent.last_request();
        assert!(
            request.contains(" node=haproxy-main-02 zone=us-east1-c base=100\n"),
            "{request}"
        );
        assert_eq!(other.requests(), 0);
    }
}
