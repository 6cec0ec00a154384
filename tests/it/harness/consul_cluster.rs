//! Three Consul servers and client agents, as in production.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::consul::{AgentPorts, Consul, ROOT_TOKEN, expect_ok, loopback, merge};
use super::folder::Folder;
use super::netns::Space;
use super::ports::Port;
use super::wait::{PATIENCE, check, eventually};

const SERVERS: usize = 3;
/// The servers are 127.0.0.11 and up, the client comes after them: one set of ports for all.
const FIRST_ADDRESS: u8 = 11;

/// A cluster with its data on disk. Ready in about 2 s.
pub(crate) struct ConsulCluster {
    /// The agents that replicas talk to: at least one.
    pub(crate) clients: Vec<Consul>,
    pub(crate) servers: Vec<Consul>,
    /// Held for their locks.
    ports: Vec<Port>,
}

impl ConsulCluster {
    /// Starts three servers and one client at once, and waits until the client's reads reach a
    /// quorum of three.
    pub(crate) fn start() -> Self {
        let addresses: Vec<_> = (FIRST_ADDRESS..).map(loopback).take(SERVERS + 1).collect();
        Self::start_at(&[], &addresses, &json!({}), None)
    }

    /// The same in a namespace that has these addresses: three of servers, the others of clients.
    /// It denies by default; `ROOT_TOKEN` may do everything.
    pub(crate) fn start_in(space: &Space, addresses: &[Ipv4Addr]) -> Self {
        let addresses: Vec<_> = addresses.iter().copied().map(IpAddr::V4).collect();
        let acl = json!({ "acl": {
            "enabled": true,
            "default_policy": "deny",
            "enable_key_list_policy": true,
            // 1.8's name of what became `initial_management`.
            "tokens": { "master": ROOT_TOKEN, "agent": ROOT_TOKEN },
        }});
        Self::start_at(&space.launcher(), &addresses, &acl, Some(ROOT_TOKEN))
    }

    fn start_at(
        launcher: &[String],
        addresses: &[IpAddr],
        more: &Value,
        token: Option<&str>,
    ) -> Self {
        let outside = if launcher.is_empty() {
            addresses[0]
        } else {
            loopback(1)
        };
        let ports = AgentPorts::reserve(outside);
        let mut common = json!({
            "retry_join": addresses[..SERVERS],
            "retry_interval": "1s",
            // Otherwise a killed server comes back without a vote for ten seconds, and killing a
            // second one meanwhile loses the quorum for good.
            "autopilot": { "cleanup_dead_servers": false },
        });
        merge(&mut common, more);
        let mut agents: Vec<_> = addresses
            .iter()
            .enumerate()
            .map(|(place, &address)| {
                prepare(place, address, &ports, common.clone()).placed(launcher, token)
            })
            .collect();
        agents.iter_mut().for_each(Consul::launch);
        agents.iter_mut().for_each(Consul::await_ready);
        let cluster = Self {
            clients: agents.split_off(SERVERS),
            servers: agents,
            ports: ports.into_all().collect(),
        };
        cluster.await_voters();
        cluster
    }

    /// The first of the agents that replicas talk to.
    pub(crate) fn client(&self) -> &Consul {
        &self.clients[0]
    }

    /// Place of the leader among `servers`, as the servers themselves agree.
    pub(crate) fn leader(&self) -> usize {
        eventually("the cluster has a leader", PATIENCE, || {
            let answer = self.client().call("GET", "/v1/status/leader", b"");
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
                .client()
                .call("GET", "/v1/operator/raft/configuration", b"");
            expect_ok("raft configuration", &answer);
            let text = answer.text();
            let count = text.matches("\"Voter\":true").count();
            check(count == SERVERS, || text)
        });
    }
}

fn prepare(place: usize, address: IpAddr, ports: &AgentPorts, mut config: Value) -> Consul {
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
    Consul::prepare(Folder::new(&name), address, ports, &config, false)
}
