//! The example files, made from the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::json;

use crate::harness::fleet::{Active, Fleet, Node, Server, Wiring};
use crate::harness::haproxy::DEFAULTS;

/// The nodes of the demonstration: one of each zone, and one of another role. Each listens on its
/// own loopback address.
pub(crate) const NODES: [(&str, SocketAddr); 4] = [
    ("haproxy-main-01", at(1, 8080)),
    ("haproxy-main-02", at(2, 8080)),
    ("haproxy-main-03", at(3, 8080)),
    ("haproxy-ci-01", at(4, 8080)),
];

/// Where the demonstration's service listens for agent checks.
pub(crate) const AGENT: SocketAddr = at(10, 8790);
/// The first of the backends; each has a port of its own.
const BACKENDS: SocketAddr = at(20, 9000);

/// One command may take away all canary rows, and not much more.
const ROWS_MAX: usize = 12;

/// An address of 127.0.7.0/24: apart from what other programs use on the machine.
const fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(
        std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 7, last)),
        port,
    )
}

/// The configuration of one node.
pub(crate) fn node(fleet: &Fleet, name: &str) -> String {
    let node = fleet.node(name);
    let (_, front) = NODES
        .into_iter()
        .find(|(own, _)| *own == name)
        .expect("one of the four");
    let addresses = addresses(fleet);
    let address = |_: &str, server: &str| addresses[server];
    let wiring = Wiring {
        front,
        agent: AGENT,
        inter: humantime::parse_duration(&fleet.agent_inter).expect("the fleet's interval"),
        address: &address,
        more: "check inter 2s",
    };
    format!(
        "# The node {name} of examples/fleet.json, wired for scripts/demo: requests for /<backend>/\n\
         # go to that backend. HAPROXY_LOCALPEER is the node's name (haproxy -L {name}).\n\
         global\n    presetenv LB_ZONE {zone}\n    presetenv DEMO_RUN /run/haproxy\n    \
         stats socket \"${{DEMO_RUN}}/{name}.sock\" mode 600 level admin\n\n{config}",
        zone = node.zone,
        config = fleet.config(node, &wiring)
    )
}

/// Servers that answer with their name: listeners of another HAProxy.
pub(crate) fn backends(fleet: &Fleet) -> String {
    let mut text = format!(
        "# The servers behind the four nodes of scripts/demo: each answers with its name.\n{DEFAULTS}"
    );
    for (name, address) in addresses(fleet) {
        write!(
            text,
            "\nfrontend {name}\n    bind {address}\n    http-request return status 200 \
             content-type text/plain string \"{name}\\n\"\n"
        )
        .expect("a string takes every byte");
    }
    text
}

/// The key `settings`: each enrolled server with its groups and where it stands, the nodes, and a
/// guard. Every enrolled row is configured with the weight that is the default.
pub(crate) fn settings(fleet: &Fleet) -> String {
    let mut rows: BTreeMap<String, (&Server, BTreeSet<&str>)> = BTreeMap::new();
    for (node, backend, server) in fleet.enrolled_rows() {
        let id = format!("{backend}/{}", server.name);
        let (_, roles) = rows.entry(id).or_insert((server, BTreeSet::new()));
        roles.insert(&node.role);
    }
    let row = |(id, (server, roles)): (&String, &(&Server, BTreeSet<&str>))| {
        let groups: Vec<_> = server.group.iter().collect();
        let mut row = json!({ "server": id, "groups": groups, "roles": roles });
        if server.active == Active::OwnZone {
            row["zone"] = json!(server.zone);
        }
        row.to_string()
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let node = |node: &Node| {
        json!({ "name": node.name, "zone": node.zone, "role": node.role }).to_string()
    };
    let nodes: Vec<_> = fleet.nodes.iter().map(node).collect();
    let guard = json!({ "rows_max": ROWS_MAX });
    let rails = json!({ "floors": { "default": 1 } });
    format!(
        "{{\"guard\":{guard},\n \"rails\":{rails},\n \"rows\":[\n  {}\n],\n \"nodes\":[\n  {}\n]}}\n",
        rows.join(",\n  "),
        nodes.join(",\n  ")
    )
}

/// Where each server of the four nodes is: each name once, in order.
fn addresses(fleet: &Fleet) -> BTreeMap<String, SocketAddr> {
    let names: BTreeSet<_> = NODES
        .iter()
        .flat_map(|(node, _)| fleet.backends_of(fleet.node(node)).values())
        .flat_map(|backend| backend.servers.iter().map(|server| server.name.clone()))
        .collect();
    names
        .into_iter()
        .zip(BACKENDS.port()..)
        .map(|(name, port)| (name, SocketAddr::new(BACKENDS.ip(), port)))
        .collect()
}
