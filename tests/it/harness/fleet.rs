//! The example fleet, and the HAProxy configuration of each of its nodes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};

/// A fleet as `examples/fleet.json` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fleet {
    #[serde(rename = "about")]
    _about: String,
    pub(crate) environment: String,
    pub(crate) zones: Vec<String>,
    /// How often each enrolled row asks: `2s`.
    pub(crate) agent_inter: String,
    /// Rows (node, backend, server), enrolled or not, and those of them in the group `canary`.
    pub(crate) rows: usize,
    pub(crate) canary_rows: usize,
    pub(crate) nodes: Vec<Node>,
    /// By role of the node, then by name.
    pub(crate) backends: BTreeMap<String, BTreeMap<String, Backend>>,
}

/// One HAProxy host; `zone` is where it stands.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) zone: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backend {
    pub(crate) mode: String,
    pub(crate) balance: String,
    pub(crate) servers: Vec<Server>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) group: Option<String>,
    pub(crate) zone: Option<String>,
    /// The weight in force when all is well, in HAProxy's own numbers.
    pub(crate) weight: u32,
    pub(crate) active: Active,
    /// Whether the row is enrolled.
    #[serde(default = "enrolled")]
    pub(crate) agent: bool,
}

/// On which nodes a server takes part; on the others it is `backup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Active {
    #[serde(rename = "always")]
    Always,
    #[serde(rename = "own zone")]
    OwnZone,
}

fn enrolled() -> bool {
    true
}

/// What the fleet leaves open about one node.
pub(crate) struct Wiring<'a> {
    /// Where the node listens: the first segment of a request's path names the backend.
    pub(crate) front: SocketAddr,
    /// Who is asked.
    pub(crate) agent: SocketAddr,
    pub(crate) inter: Duration,
    /// Where the server of a backend is: `(backend, server)`.
    pub(crate) address: &'a dyn Fn(&str, &str) -> SocketAddr,
    /// Further words of each enrolled line, for example `check inter 500ms`.
    pub(crate) more: &'a str,
}

impl Fleet {
    /// Reads `examples/fleet.json`.
    pub(crate) fn example() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet.json");
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The node of that name.
    pub(crate) fn node(&self, name: &str) -> &Node {
        let found = self.nodes.iter().find(|node| node.name == name);
        found.unwrap_or_else(|| panic!("the fleet has no node {name}"))
    }

    /// What a node of this role has, by name.
    pub(crate) fn backends_of(&self, node: &Node) -> &BTreeMap<String, Backend> {
        let found = self.backends.get(&node.role);
        found.unwrap_or_else(|| panic!("the fleet has no backends for the role {}", node.role))
    }

    /// Every row: node, backend, server.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = (&Node, &str, &Server)> {
        self.nodes.iter().flat_map(|node| {
            self.backends_of(node)
                .iter()
                .flat_map(move |(backend, content)| {
                    content
                        .servers
                        .iter()
                        .map(move |server| (node, backend.as_str(), server))
                })
        })
    }

    /// Every row that asks.
    pub(crate) fn enrolled_rows(&self) -> impl Iterator<Item = (&Node, &str, &Server)> {
        self.all_rows().filter(|(_, _, server)| server.agent)
    }

    /// Starts one node of the fleet.
    pub(crate) fn start(&self, version: Version, node: &Node, wiring: &Wiring<'_>) -> Haproxy {
        let config = self.config(node, wiring);
        Haproxy::start_node(version, &node.name, &[("LB_ZONE", &node.zone)], &config)
    }

    /// The configuration of one node. It reads the node's name and zone from `HAPROXY_LOCALPEER`
    /// and `LB_ZONE`, as a file that is the same on each node of a zone does.
    pub(crate) fn config(&self, node: &Node, wiring: &Wiring<'_>) -> String {
        // The first polls of a new worker come within 50 ms instead of one interval: until its
        // first poll a server has its configured state.
        let mut text = format!(
            "global\n    spread-checks 10\n    max-spread-checks 50ms\n{DEFAULTS}    \
             option log-health-checks\n\n\
             frontend in\n    bind {}\n    use_backend %[path,field(2,/)]\n",
            wiring.front
        );
        for (name, backend) in self.backends_of(node) {
            let Backend {
                mode,
                balance,
                servers,
            } = backend;
            write!(
                text,
                "\nbackend {name}\n    mode {mode}\n    balance {balance}\n"
            )
            .expect("a string takes every byte");
            for server in servers {
                text.push_str(&server.line(name, node, wiring));
                text.push('\n');
            }
        }
        text
    }
}

impl Server {
    /// The request line that this row's `agent-send` holds, without its line end.
    pub(crate) fn request(&self, backend: &str) -> String {
        let group = self
            .group
            .as_ref()
            .map(|group| format!(" {group}"))
            .unwrap_or_default();
        let name = &self.name;
        format!("{backend}/{name}{group} node=${{HAPROXY_LOCALPEER}} zone=${{LB_ZONE}} base=100")
    }

    fn line(&self, backend: &str, node: &Node, wiring: &Wiring<'_>) -> String {
        let address = (wiring.address)(backend, &self.name);
        let backup = if self.is_active_on(node) {
            ""
        } else {
            " backup"
        };
        if !self.agent {
            return format!(
                "    server {} {address} weight {}{backup}",
                self.name, self.weight
            );
        }
        // A canary comes up closed: it waits for the service's word. Any other server comes up
        // open, or an outage of the service at a reboot would close the whole farm.
        let disabled = if self.group.as_deref() == Some("canary") {
            " disabled"
        } else {
            ""
        };
        let more = format!("{}{backup}{disabled}", wiring.more);
        let request = self.request(backend);
        let line = AgentServer {
            name: &self.name,
            address,
            agent: wiring.agent,
            request: &request,
            inter: wiring.inter,
            more: &more,
        };
        line.to_string()
    }

    fn is_active_on(&self, node: &Node) -> bool {
        match self.active {
            Active::Always => true,
            Active::OwnZone => self.zone.as_ref() == Some(&node.zone),
        }
    }
}
