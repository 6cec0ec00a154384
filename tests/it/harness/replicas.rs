//! Several replicas on this machine, which know each other.

use std::net::SocketAddr;

use super::consul::loopback;
use super::ports::Port;
use super::tidegate::{Place, Tidegate};

/// The names of the replicas, in their order.
pub(crate) const SLOTS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// Services that run, in the order of their slots.
pub(crate) struct Replicas {
    pub(crate) all: Vec<Tidegate>,
    /// Held for their locks.
    _ports: Vec<Port>,
}

impl Replicas {
    /// Starts so many, and waits until each is ready.
    pub(crate) fn start(
        count: usize,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        Self::start_behind(&[], count, arguments, environment)
    }

    /// The same behind the words that start them somewhere else; they must end in exec.
    pub(crate) fn start_behind(
        launcher: &[&str],
        count: usize,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let mut replicas = Self::prepare(launcher, count, &[], arguments, environment);
        for replica in &mut replicas.all {
            replica.relaunch();
        }
        for replica in &mut replicas.all {
            replica.await_ready();
        }
        replicas
    }

    /// One that waits for nothing, and `others`: peers that the test plays itself.
    pub(crate) fn launch_among(
        others: &[SocketAddr],
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let mut replicas = Self::prepare(&[], 1, others, arguments, environment);
        replicas.all[0].relaunch();
        replicas
    }

    fn prepare(
        launcher: &[&str],
        count: usize,
        others: &[SocketAddr],
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let address = loopback(1);
        let ports: Vec<_> = (0..count * 2).map(|_| Port::reserve(address)).collect();
        let addresses = ports
            .iter()
            .map(|port| SocketAddr::new(address, port.number()));
        let addresses: Vec<_> = addresses.collect();
        let (agents, https) = addresses.split_at(count);
        let members = SLOTS.iter().zip(https.iter().chain(others));
        let membership: Vec<_> = members
            .flat_map(|(slot, http)| ["--peer".to_owned(), format!("{slot}=http://{http}")])
            .collect();
        let replica = |at: usize| {
            let place = Place {
                launcher: launcher.iter().map(|&word| word.to_owned()).collect(),
                slot: SLOTS[at].to_owned(),
                agent: agents[at],
                http: https[at],
                membership: membership.clone(),
            };
            Tidegate::prepare(place, arguments, environment)
        };
        Self {
            all: (0..count).map(replica).collect(),
            _ports: ports,
        }
    }
}
