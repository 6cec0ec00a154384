//! What the reading commands show of real HAProxy nodes, and what they decide by it.

mod decisions;
mod groups;
mod prometheus;
mod recorded;
mod shown;
mod sockets;
pub(crate) mod watched;

use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::consul::loopback;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::ports::Port;
use crate::harness::process::Output;
use crate::harness::prometheus::Prometheus;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::PATIENCE;

/// `agent-inter` of the nodes here.
const INTER: Duration = Duration::from_millis(300);
/// Drained by somebody, for a reason.
pub(crate) const DRAIN: &str =
    r#"{"state":"drain","by":"alice","reason":"bad release","since":"2026-01-02T03:04:05Z"}"#;

/// A service, and a node of each version that it answers.
pub(crate) struct Fleet {
    state: StateFolder,
    tidegate: Tidegate,
    pub(crate) nodes: Vec<Node>,
}

/// A node, where its exporter is and where its stats sockets are besides the unix one.
pub(crate) struct Node {
    pub(crate) haproxy: Haproxy,
    pub(crate) exporter: SocketAddr,
    /// `level admin`.
    pub(crate) admin: SocketAddr,
    /// `level user`: it may look.
    pub(crate) user: SocketAddr,
    _ports: [Port; 3],
}

impl Fleet {
    /// `lb-1` (2.6) and `lb-2` (2.8). The canary is drained; the main server asks no agent.
    pub(crate) fn start() -> Self {
        let state = StateFolder::new();
        state.put("canary-state", DRAIN);
        let tidegate = Tidegate::start(&["--kv", &state.kv(), "--poll-interval", "300ms"]);
        let nodes = [("lb-1", Version::V26), ("lb-2", Version::V28)];
        let nodes = nodes.map(|(name, version)| Node::start(name, version, Some(tidegate.agent())));
        let fleet = Self {
            state,
            tidegate,
            nodes: nodes.into(),
        };
        fleet.await_canary("DRAIN");
        fleet
    }

    /// Writes the canary's directive, and waits until every node has the canary so.
    pub(crate) fn put_canary(&self, directive: &str, status: &str) {
        self.state.put("canary-state", directive);
        self.await_canary(status);
    }

    /// Waits until every node has the canary so.
    fn await_canary(&self, status: &str) {
        for node in &self.nodes {
            for backend in ["web", "canary_web"] {
                let wanted = (status, None);
                let haproxy = &node.haproxy;
                haproxy.await_server(backend, "gke-cny-web", wanted, PATIENCE);
            }
        }
    }

    /// Runs a reading command on this fleet; without `more`, nobody asks HAProxy.
    pub(crate) fn run(&self, arguments: &[&str], more: &[String]) -> Output {
        let (kv, url) = (self.state.kv(), format!("http://{}", self.tidegate.http()));
        let mut all = arguments.to_vec();
        all.extend(["--env", "gprd", "--kv", &kv, "--replica", &url]);
        all.extend(more.iter().map(String::as_str));
        tidegate(&all, &[])
    }

    /// Where its state is.
    pub(crate) fn kv(&self) -> String {
        self.state.kv()
    }

    /// The flags that have every node asked over its unix socket.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let nodes = self.nodes.iter();
        let flag = |node: &Node| {
            let (name, path) = (node.haproxy.name(), node.haproxy.socket());
            format!("--stats={name}=unix:{}", path.display())
        };
        nodes.map(flag).collect()
    }

    /// A Prometheus that scrapes them, each under its name in full.
    pub(crate) fn prometheus(&self) -> Prometheus {
        let full = |node: &Node| format!("{}.example.org", node.haproxy.name());
        let names: Vec<_> = self.nodes.iter().map(full).collect();
        let exporters = names.iter().zip(&self.nodes);
        let exporters = exporters.map(|(name, node)| (name.as_str(), node.exporter));
        Prometheus::start(&exporters.collect::<Vec<_>>())
    }
}

impl Node {
    /// The canary's rows ask `agent`, or nobody: then the node is not enrolled.
    pub(crate) fn start(name: &str, version: Version, agent: Option<SocketAddr>) -> Self {
        let ports = [0; 3].map(|_| Port::reserve(loopback(1)));
        let [exporter, admin, user] = [0, 1, 2].map(|at: usize| {
            let port: &Port = &ports[at];
            SocketAddr::new(loopback(1), port.number())
        });
        let config = config([exporter, admin, user], agent);
        Self {
            haproxy: Haproxy::start_node(version, name, &[], &config),
            exporter,
            admin,
            user,
            _ports: ports,
        }
    }

    /// The same node after a reload with its canary's rows asking `agent`.
    pub(crate) fn enrol(&mut self, agent: SocketAddr) {
        let addresses = [self.exporter, self.admin, self.user];
        self.haproxy.configure(&config(addresses, Some(agent)));
        self.haproxy.reload();
    }
}

fn config([exporter, admin, user]: [SocketAddr; 3], agent: Option<SocketAddr>) -> String {
    let row = |backend: &str| {
        let address = SocketAddr::new(loopback(1), 1);
        let Some(agent) = agent else {
            return format!("    server gke-cny-web {address} weight 100");
        };
        let request = format!("{backend}/gke-cny-web canary node=${{HAPROXY_LOCALPEER}}");
        let line = AgentServer {
            name: "gke-cny-web",
            address,
            agent,
            request: &request,
            inter: INTER,
            more: "",
        };
        line.to_string()
    };
    format!(
        "global\n    max-spread-checks 50ms\n    stats socket {admin} level admin\n    \
         stats socket {user} level user\n{DEFAULTS}\n\
         frontend exporter\n    bind {exporter}\n    \
         http-request use-service prometheus-exporter\n\
         backend web\n    server gke-b 127.0.0.1:1 weight 100\n{}\n\
         backend canary_web\n{}\n",
        row("web"),
        row("canary_web")
    )
}

/// Expects an exit code and these texts on standard output.
pub(crate) fn expect(output: &Output, code: i32, texts: &[&str]) {
    let shown = format!("{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(code), "{shown}");
    for text in texts {
        assert!(output.stdout.contains(text), "no {text:?} in {shown}");
    }
}
