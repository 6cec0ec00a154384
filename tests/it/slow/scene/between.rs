//! What stands between the nodes and the replicas.

use super::parts::{AGENT_PORT, NODES, Replica};
use crate::harness::balancer::{BALANCED, Balancer, Carried};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::netns::{Net, Space};
use crate::harness::wait::{PATIENCE, check, eventually};

/// The servers of `deploy/onprem/balancer.cfg`, in the order of the replicas.
const SERVERS: [&str; 3] = ["a", "b", "c"];

pub(crate) enum Between {
    /// Packets go on as they are.
    Passthrough(Balancer),
    /// `deploy/onprem/balancer.cfg`, on a machine of its own.
    Haproxy { process: Box<Haproxy>, space: Space },
}

impl Between {
    pub(super) fn passthrough(net: &Net, replicas: &[Replica]) -> Self {
        let backends: Vec<_> = replicas.iter().map(Replica::backend).collect();
        Self::Passthrough(Balancer::start(net, NODES, &backends))
    }

    pub(super) fn haproxy(net: &Net, replicas: &[Replica], version: Version) -> Self {
        let space = net.add("balancer", &[BALANCED]);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/onprem/balancer.cfg");
        let file = std::fs::read_to_string(file).expect("the file is there");
        let mut config = "global\n".to_owned();
        for (name, replica) in SERVERS.iter().zip(replicas) {
            let variable = format!("REPLICA_{}", name.to_uppercase());
            let address = replica.space.address();
            config += &format!("    setenv {variable} {address}\n");
        }
        let process = Haproxy::start_in(&space, version, &(config + &file));
        Self::Haproxy {
            process: Box::new(process),
            space,
        }
    }

    /// Waits until exactly these get new connections, by their place.
    pub(crate) fn await_healthy(&self, wanted: &[usize]) {
        match self {
            Self::Passthrough(balancer) => balancer.await_healthy(wanted),
            Self::Haproxy { process, .. } => {
                let what = format!("HAProxy chooses among {wanted:?}");
                eventually(&what, PATIENCE, || {
                    let up = |place: &usize| {
                        let row = process.server("replicas", SERVERS[*place]);
                        row.status().starts_with("UP")
                    };
                    let healthy: Vec<_> = (0..SERVERS.len()).filter(up).collect();
                    check(healthy == wanted, || format!("{healthy:?}"))
                });
            }
        }
    }

    /// What went over it, if it tells answers from other bytes.
    pub(super) fn carried(&self) -> Option<Carried> {
        match self {
            Self::Passthrough(balancer) => Some(balancer.carried()),
            Self::Haproxy { .. } => None,
        }
    }

    /// Connections begun by the nodes.
    pub(crate) fn polls(&self) -> u64 {
        match self {
            Self::Passthrough(balancer) => balancer.carried().polls,
            Self::Haproxy { process, .. } => {
                let total = process.server("agent", "FRONTEND").number("stot");
                total.into()
            }
        }
    }

    /// Ports that it keeps busy for polls that are over; a passthrough balancer has none.
    pub(crate) fn ports_in_time_wait(&self) -> usize {
        match self {
            Self::Passthrough(_) => 0,
            Self::Haproxy { space, .. } => space.in_time_wait(AGENT_PORT),
        }
    }
}
