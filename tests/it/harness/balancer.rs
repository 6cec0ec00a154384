//! A passthrough load balancer, as a cloud's internal one: it picks a backend for each connection
//! by a hash of the source, keeps established connections where they are, and leaves the source's
//! address as it is. A prober per backend asks `/readyz` and edits the choice.
//!
//! With no healthy backend, new connections go to all of them (the last resort of Google's).

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::http;
use super::netns::Net;
use super::process::{behind, run};
use super::tools::tool;
use super::wait::{PATIENCE, check, eventually, let_pass};

/// What HAProxy nodes ask.
pub(crate) const BALANCED: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);

/// A quarter of what production has, as the agent's interval of the tests is.
const PROBE_EVERY: Duration = Duration::from_millis(250);
const PROBE_MAX: Duration = Duration::from_millis(250);
/// So many probes in a row change a backend's state.
const THRESHOLD: usize = 2;

/// How long a backend that answers no probe still gets connections, at most.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// The balancer of one scene; it ends with this.
pub(crate) struct Balancer {
    shared: Arc<Shared>,
    probers: Vec<JoinHandle<()>>,
}

/// One of those among whom it chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    pub(crate) agent: SocketAddr,
    /// Where it is probed.
    pub(crate) http: SocketAddr,
}

/// What went over the balancer so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// Connections begun by the nodes.
    pub(crate) polls: u64,
    /// Segments with data that came back: an answer is one.
    pub(crate) answers: u64,
}

struct Shared {
    backends: Vec<Backend>,
    healthy: Mutex<BTreeSet<usize>>,
    stop: AtomicBool,
    /// To run `nft` in the router's namespace.
    router: Vec<String>,
}

impl Balancer {
    /// Begins with every backend unhealthy: until the first probes, all get connections. `clients`
    /// is the network of the nodes.
    pub(crate) fn start(net: &Net, clients: &str, backends: &[Backend]) -> Self {
        let port = backends.first().expect("a backend").agent.port();
        let rule = choice(backends, &BTreeSet::new());
        net.router().nft(&format!(
            "table ip balancer {{\n\
             counter polls {{ }}\n\
             counter answers {{ }}\n\
             chain choose {{\n{rule}\n}}\n\
             chain arriving {{\n\
                 type nat hook prerouting priority dstnat; policy accept;\n\
                 ip daddr {BALANCED} tcp dport {port} counter name polls jump choose\n\
             }}\n\
             chain passing {{\n\
                 type filter hook forward priority filter; policy accept;\n\
                 ip daddr {clients} tcp sport {port} tcp flags & psh == psh counter name answers\n\
             }}\n}}\n"
        ));
        let shared = Arc::new(Shared {
            backends: backends.to_vec(),
            healthy: Mutex::default(),
            stop: AtomicBool::new(false),
            router: net.router().launcher(),
        });
        let probers = (0..backends.len())
            .map(|place| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.probe(place))
            })
            .collect();
        Self { shared, probers }
    }

    /// The backends that get new connections now, by their place.
    pub(crate) fn healthy(&self) -> BTreeSet<usize> {
        self.shared.lock_healthy().clone()
    }

    /// Waits until exactly these are healthy.
    pub(crate) fn await_healthy(&self, wanted: &[usize]) {
        eventually(
            &format!("the balancer chooses among {wanted:?}"),
            PATIENCE,
            || {
                let healthy = self.healthy();
                check(healthy.iter().eq(wanted), || format!("{healthy:?}"))
            },
        );
    }

    /// Both counters at one moment, polls in flight included.
    pub(crate) fn carried(&self) -> Carried {
        let text = self
            .shared
            .nft(&["-j", "list", "counters", "table", "ip", "balancer"]);
        let all: serde_json::Value = serde_json::from_str(&text).expect("nft says JSON");
        let packets = |name: &str| {
            let all = all["nftables"].as_array().into_iter().flatten();
            all.map(|entry| &entry["counter"])
                .find(|counter| counter["name"] == name)
                .and_then(|counter| counter["packets"].as_u64())
                .unwrap_or_else(|| panic!("no counter {name}: {text}"))
        };
        Carried {
            polls: packets("polls"),
            answers: packets("answers"),
        }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for prober in self.probers.drain(..) {
            // Its panic has been printed; a second one in a drop would hide the first.
            prober.join().ok();
        }
    }
}

impl Shared {
    fn probe(&self, place: usize) {
        let http = self.backends[place].http;
        let (mut is_healthy, mut differing) = (false, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let answer = http::request(http, "GET", "/readyz", &[], b"", PROBE_MAX);
            let is_ready = answer.is_ok_and(|answer| answer.status == 200);
            differing = if is_ready == is_healthy {
                0
            } else {
                differing + 1
            };
            if differing >= THRESHOLD {
                (is_healthy, differing) = (is_ready, 0);
                self.change(place, is_healthy);
            }
            let_pass(PROBE_EVERY.saturating_sub(begin.elapsed()));
        }
    }

    fn change(&self, place: usize, is_healthy: bool) {
        let mut healthy = self.lock_healthy();
        if is_healthy {
            healthy.insert(place);
        } else {
            healthy.remove(&place);
        }
        let rule = choice(&self.backends, &healthy);
        self.nft(&[&format!(
            "flush chain ip balancer choose; add rule ip balancer choose {rule}"
        )]);
    }

    fn nft(&self, arguments: &[&str]) -> String {
        let mut command = behind(&self.router, tool("nft"));
        command.args(arguments);
        let output = run("nft", &command, PATIENCE);
        assert_eq!(output.code, Some(0), "nft {arguments:?}: {}", output.stderr);
        output.stdout
    }

    fn lock_healthy(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        self.healthy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rule that sends a connection to one of the healthy backends, or of all when none is.
fn choice(backends: &[Backend], healthy: &BTreeSet<usize>) -> String {
    let all: BTreeSet<_> = (0..backends.len()).collect();
    let among = if healthy.is_empty() { &all } else { healthy };
    let map: Vec<_> = among
        .iter()
        .enumerate()
        .map(|(at, &place)| format!("{at} : {}", backends[place].agent.ip()))
        .collect();
    format!(
        "dnat to jhash ip saddr . tcp sport mod {} map {{ {} }}",
        among.len(),
        map.join(", ")
    )
}
