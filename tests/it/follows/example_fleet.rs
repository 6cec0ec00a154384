//! Nodes of the example fleet, with all their enrolled rows.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{MARGIN, WRITTEN, describe};
use crate::harness::consul::loopback;
use crate::harness::fleet::{Fleet, Node, Wiring};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::ports::Port;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{check, eventually};

/// One node of each zone, the versions in turn.
const NODES: [(&str, Version); 3] = [
    ("haproxy-main-01", Version::V26),
    ("haproxy-main-02", Version::V28),
    ("haproxy-main-03", Version::V26),
];

struct Running<'a> {
    fleet: &'a Fleet,
    node: &'a Node,
    haproxy: Haproxy,
    /// Held for its lock.
    _front: Port,
}

impl<'a> Running<'a> {
    fn start(fleet: &'a Fleet, name: &str, version: Version, agent: SocketAddr) -> Self {
        let nowhere = |_: &str, _: &str| SocketAddr::from(([127, 0, 0, 1], 1));
        let front = Port::reserve(loopback(1));
        let wiring = Wiring {
            front: SocketAddr::new(loopback(1), front.number()),
            agent,
            inter: inter(fleet),
            address: &nowhere,
            more: "",
        };
        let node = fleet.node(name);
        let haproxy = fleet.start(version, node, &wiring);
        Self {
            fleet,
            node,
            haproxy,
            _front: front,
        }
    }

    /// How many of the node's enrolled rows stand otherwise than `expected` says of their group;
    /// the error shows the first.
    fn stands(&self, expected: impl Fn(bool) -> (&'static str, u32)) -> Result<usize, String> {
        let rows = self.haproxy.show_stat();
        let mut count = 0;
        for (backend, content) in self.fleet.backends_of(self.node) {
            for server in content.servers.iter().filter(|server| server.agent) {
                let row = rows
                    .iter()
                    .find(|r| r.field("pxname") == backend && r.field("svname") == server.name)
                    .expect("the fleet's row is in the configuration");
                let (status, weight) = expected(server.group.is_some());
                let fits = row.status().starts_with(status)
                    && (status == "DRAIN" || row.weight() == weight)
                    && row.last_agt().starts_with("via agent : up (i=");
                check(fits, || {
                    format!("{}: {backend} {}", self.node.name, describe(row))
                })?;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn inter(fleet: &Fleet) -> Duration {
    humantime::parse_duration(&fleet.agent_inter).expect("the fleet's interval is a time")
}

#[test]
fn nodes_of_the_fleet_follow_one_command_and_a_zones_command_on_its_nodes_only() {
    let fleet = Fleet::example();
    let state = StateFolder::new();
    state.put("canary-state", "5%");
    let service = Tidegate::start(&["--kv", &state.kv()]);
    let canary = |arguments: &[&str]| {
        let kv = state.kv();
        let output = tidegate(
            &[&["canary", "--gprd", "--kv", &kv], arguments].concat(),
            &[],
        );
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    };
    let begin = Instant::now();
    let nodes = NODES.map(|(name, version)| Running::start(&fleet, name, version, service.agent()));
    let await_all = |expected: &dyn Fn(&Node, bool) -> (&'static str, u32)| {
        eventually(
            "every row of the fleet's nodes stands",
            inter(&fleet) + MARGIN,
            || {
                let count =
                    |node: &Running<'_>| node.stands(|is_canary| expected(node.node, is_canary));
                nodes.iter().map(count).sum::<Result<usize, _>>()
            },
        )
    };
    let with_canary = |status, weight| {
        move |_: &Node, is_canary| {
            if is_canary {
                (status, weight)
            } else {
                ("no check", 100)
            }
        }
    };
    let rows = await_all(&with_canary("no check", 5));
    eprintln!(
        "{} nodes, {rows} rows: all answered {:?} after the first start",
        nodes.len(),
        begin.elapsed()
    );

    let service_says = |answer| service.await_answer("web/gke-cny-web canary", answer, WRITTEN);
    canary(&["--drain"]);
    service_says("up drain");
    let begin = Instant::now();
    await_all(&with_canary("DRAIN", 0));
    eprintln!(
        "canary drained on all of them {:?} after the service's answer",
        begin.elapsed()
    );

    canary(&["--ready"]);
    canary(&["--drain", "--zone", "us-east1-c"]);
    service_says("up ready 100%");
    await_all(&|node, is_canary| match (is_canary, node.zone.as_str()) {
        (true, "us-east1-c") => ("DRAIN", 0),
        (true | false, _) => ("no check", 100),
    });
}
