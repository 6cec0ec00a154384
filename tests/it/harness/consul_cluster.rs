//! Three Consul servers and one client agent, as in production.

use serde_json::{Value, json};

use super::consul::{AgentPorts, Consul, expect_ok, loopback};
use super::folder::Folder;
use super::ports::Port;
use super::wait::{PATIENCE, check, eventually};

const SERVERS: u8 = 3;
/// The servers are 127.0.0.11 and up, the client comes after them: one set of ports for all.
const FIRST_ADDRESS: u8 = 11;

/// A cluster with its data on disk. Ready in about 2 s.
pub(crate) struct ConsulCluster {
    /// The agent that Tidegate talks to.
    pub(crate) client: Consul,
    pub(crate) servers: Vec<Consul>,
    /// Held for their locks.
    ports: Vec<Port>,
}

impl ConsulCluster {
    /// Starts all four at once and waits until the client's reads reach a quorum of three.
    pub(crate) fn start() -> Self {
        let ports = AgentPorts::reserve(loopback(FIRST_ADDRESS));
        let joins: Vec<_> = (FIRST_ADDRESS..FIRST_ADDRESS + SERVERS)
            .map(loopback)
            .collect();
        let common = json!({
            "retry_join": joins,
            "retry_interval": "1s",
            // Otherwise a killed server comes back without a vote for ten seconds, and killing a
            // second one meanwhile loses the quorum for good.
            "autopilot": { "cleanup_dead_servers": false },
        });
        let mut agents: Vec<_> = (0..=SERVERS)
            .map(|place| prepare(place, &ports, common.clone()))
            .collect();
        agents.iter_mut().for_each(Consul::launch);
        agents.iter_mut().for_each(Consul::await_ready);
        let client = agents.pop().expect("four agents were prepared");
        let cluster = Self {
            client,
            servers: agents,
            ports: ports.into_all().collect(),
        };
        cluster.await_voters();
        cluster
    }

    /// Place of the leader among `servers`, as the servers themselves agree.
    pub(crate) fn leader(&self) -> usize {
        eventually("the cluster has a leader", PATIENCE, || {
            let answer = self.client.call("GET", "/v1/status/leader", b"");
            let text = answer.text();
            self.servers
                .iter()
                .position(|server| text.contains(&format!("\"{}:", server.http().ip())))
                .ok_or(text)
        })
    }

    fn await_voters(&self) {
        eventually("three servers have a vote", PATIENCE, || {
            let answer = self
                .client
                .call("GET", "/v1/operator/raft/configuration", b"");
            expect_ok("raft configuration", &answer);
            let text = answer.text();
            let count = text.matches("\"Voter\":true").count();
            check(count == usize::from(SERVERS), || text)
        });
    }
}

fn prepare(place: u8, ports: &AgentPorts, mut config: Value) -> Consul {
    let is_server = place < SERVERS;
    config["server"] = json!(is_server);
    if is_server {
        config["bootstrap_expect"] = json!(SERVERS);
    }
    let name = if is_server {
        format!("consul-server-{place}")
    } else {
        "consul-client".into()
    };
    Consul::prepare(
        Folder::new(&name),
        loopback(FIRST_ADDRESS + place),
        ports,
        &config,
        false,
    )
}
