//! The parts of a scene, and how each is started.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use super::{INTERVAL, Servers};
use crate::harness::balancer::{BALANCED, Backend};
use crate::harness::consul::Consul;
use crate::harness::consul_cluster::ConsulCluster;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::netns::{Net, Space, Way};
use crate::harness::tidegate::{Place, Tidegate};
use crate::harness::witness::Watched;

/// Longer than the balancer needs to notice: two probes and the time limit of the last.
const DRAIN_FOR: &str = "1250ms";

pub(super) const AGENT_PORT: u16 = 8790;
const HTTP_PORT: u16 = 8791;
pub(super) const SLOTS: [&str; 3] = ["a", "b", "c"];
pub(super) const NODES: &str = "10.77.2.0/24";
/// Everything of Consul: servers and client agents.
const CONSUL: &str = "10.77.3.0/24";
/// The secret of the token that replicas have with a cluster.
pub(crate) const REPLICA_TOKEN: &str = "22222222-3333-4444-5555-666666666666";

/// One replica and its machine.
pub(crate) struct Replica {
    pub(crate) tidegate: Tidegate,
    pub(crate) space: Space,
}

/// What stands for Consul.
pub(crate) enum Source {
    One(Box<Consul>),
    Three(ConsulCluster),
}

/// The secret of the replicas.
const PEERS_TOKEN: &str = "a-secret-of-three-replicas";

/// The arguments by which the replicas know each other.
fn membership(folder: &Folder) -> Vec<String> {
    let file = folder.join("peers-token");
    fs::write(&file, PEERS_TOKEN).expect("the folder takes files");
    let mut arguments = vec!["--peers-token-file".to_owned(), file.display().to_string()];
    for (number, slot) in (1..).zip(SLOTS) {
        let address = SocketAddr::from((replica_address(number), HTTP_PORT));
        arguments.extend(["--peer".to_owned(), format!("{slot}=http://{address}")]);
    }
    arguments
}

impl Replica {
    pub(super) fn backend(&self) -> Backend {
        Backend {
            agent: self.tidegate.agent(),
            http: self.tidegate.http(),
        }
    }

    /// Drops what comes from Consul and goes there; everything else passes.
    pub(crate) fn cut_from_consul(&self) {
        self.space.cut(CONSUL, Way::Both);
    }
}

impl Source {
    /// What the replicas ask, one each or one for all.
    pub(crate) fn agents(&self) -> Vec<SocketAddr> {
        match self {
            Self::One(consul) => vec![consul.http()],
            Self::Three(cluster) => cluster.clients.iter().map(Consul::http).collect(),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Three(_))
    }

    /// The agent for calls of the test.
    pub(crate) fn client(&self) -> &Consul {
        match self {
            Self::One(consul) => consul,
            Self::Three(cluster) => cluster.client(),
        }
    }

    pub(crate) fn cluster(&mut self) -> &mut ConsulCluster {
        match self {
            Self::Three(cluster) => cluster,
            Self::One(_) => panic!("this scene has one Consul server"),
        }
    }
}

/// Lets a replica list the environment.
pub(crate) fn give_rights(consul: &Consul) {
    consul.policy(
        "replica",
        r#"key_prefix "frontend/gprd/" { policy = "list" }"#,
    );
    consul.token_with_secret(REPLICA_TOKEN, &["replica"]);
}

pub(super) fn start_consul(net: &Net, servers: Servers) -> (Space, Source) {
    let address = |last| Ipv4Addr::new(10, 77, 3, last);
    // Servers, then client agents.
    let all = [11, 12, 13, 21, 22, 23].map(address);
    let space = net.add("consul", &all);
    let source = match servers {
        Servers::One => Source::One(Box::new(Consul::dev_in(&space))),
        Servers::Three => {
            let cluster = ConsulCluster::start_in(&space, &all);
            give_rights(cluster.client());
            Source::Three(cluster)
        }
    };
    (space, source)
}

pub(super) fn start_replicas(net: &Net, consul: &Source, folder: &Folder) -> Vec<Replica> {
    let agents = consul.agents();
    let places = (1..).zip(SLOTS).zip(agents.iter().cycle());
    let start = |((number, slot), agent): ((u8, &str), &SocketAddr)| {
        let space = net.add(slot, &[replica_address(number)]);
        let place = Place {
            launcher: space.launcher(),
            slot: slot.to_owned(),
            agent: SocketAddr::from((space.address(), AGENT_PORT)),
            http: SocketAddr::from((space.address(), HTTP_PORT)),
            membership: membership(folder),
        };
        let interval = format!("{}ms", INTERVAL.as_millis());
        let arguments = [
            ["--kv", "consul"],
            ["--poll-interval", &interval],
            ["--drain-for", DRAIN_FOR],
            ["--agent-workers", "1"],
        ];
        let mut environment = vec![("CONSUL_HTTP_ADDR".to_owned(), agent.to_string())];
        if consul.is_cluster() {
            environment.push(("CONSUL_HTTP_TOKEN".to_owned(), REPLICA_TOKEN.to_owned()));
        }
        let mut tidegate = Tidegate::prepare(place, &arguments.concat(), &environment);
        tidegate.remember();
        tidegate.relaunch();
        Replica { tidegate, space }
    };
    // All of them run before one is waited for: a replica may want to hear the others first.
    let mut replicas: Vec<_> = places.map(start).collect();
    for replica in &mut replicas {
        replica.tidegate.await_ready();
    }
    replicas
}

fn replica_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1, number)
}

/// Nodes `lb-1` and so on, of both versions of HAProxy in turn.
pub(super) fn start_nodes(
    net: &Net,
    count: usize,
    watched: &[Watched],
) -> (Vec<Haproxy>, Vec<Space>) {
    let agent = SocketAddr::from((BALANCED, AGENT_PORT));
    let mut config = format!(
        "global\n    nbthread 1\n    maxconn 100\n{DEFAULTS}\n\
         listen web\n    bind 127.0.0.1:8080\n"
    );
    for Watched { server, .. } in watched {
        let request = format!("{server} canary node=${{HAPROXY_LOCALPEER}} base=100");
        let line = AgentServer {
            name: server
                .strip_prefix("web/")
                .expect("all are of that backend"),
            address: SocketAddr::from(([127, 0, 0, 1], 9)),
            agent,
            request: &request,
            inter: INTERVAL,
            more: "",
        };
        writeln!(config, "{line}").expect("a string takes every byte");
    }
    let start = |number: usize| {
        let last = u8::try_from(number).expect("few nodes");
        let space = net.add(&format!("lb-{number}"), &[Ipv4Addr::new(10, 77, 2, last)]);
        let version = Version::ALL[number % Version::ALL.len()];
        (Haproxy::start_in(&space, version, &config), space)
    };
    (1..=count).map(start).unzip()
}

/// Servers `web/s01` and so on, all of them in the group `canary`.
pub(super) fn watched(number: usize) -> Watched {
    Watched {
        server: format!("web/s{number:02}"),
        keys: vec![override_of(number), "canary-state".to_owned()],
    }
}

/// The group, and a few servers by themselves.
pub(super) fn written_keys() -> Vec<String> {
    let mut keys = vec!["canary-state".to_owned()];
    keys.extend((1..=3).map(override_of));
    keys
}

fn override_of(number: usize) -> String {
    format!("server-overrides/web/s{number:02}")
}
