//! Three replicas with a ramp and an override, two nodes that ask them and have HAProxy's exporter,
//! and a Prometheus that scrapes them all as `deploy/grafana/README.md` says.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::consul::loopback;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::http;
use crate::harness::ports::Port;
use crate::harness::prometheus::Prometheus;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

/// `agent-inter` of the nodes.
const INTER: Duration = Duration::from_millis(500);
const SERVERS: [(&str, &str); 2] = [("gke-cny-web", " canary"), ("gke-b", "")];

pub(super) struct Scene {
    state: StateFolder,
    replicas: Replicas,
    exporters: Vec<SocketAddr>,
    pub(super) prometheus: Prometheus,
    _nodes: Vec<Haproxy>,
    _ports: Vec<Port>,
}

impl Scene {
    pub(super) fn start(rules: &str) -> Self {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let replicas = Replicas::start(3, &["--kv", &state.kv()], &[]);
        let ports: Vec<_> = Version::ALL
            .iter()
            .map(|_| Port::reserve(loopback(1)))
            .collect();
        let exporters = ports
            .iter()
            .map(|port| SocketAddr::new(loopback(1), port.number()));
        let exporters: Vec<_> = exporters.collect();
        let nodes = Version::ALL.iter().zip(&exporters).zip(&replicas.all);
        let nodes = nodes.enumerate().map(|(at, ((version, exporter), asked))| {
            let config = config(*exporter, asked.agent());
            Haproxy::start_node(*version, &format!("lb-{at}"), &[], &config)
        });
        let nodes = nodes.collect();
        let of_replicas: Vec<_> = replicas.all.iter().map(Tidegate::http).collect();
        let prometheus = Prometheus::of_fleet(&of_replicas, &exporters, rules);
        let targets = (of_replicas.len() + exporters.len()).to_string();
        // What was before the change is part of the picture.
        eventually("all are scraped", PATIENCE, || {
            let answer = prometheus.query("count(up == 1)")?;
            check(answer.contains(&format!("{targets:?}]")), || answer.clone())
        });
        Self {
            state,
            replicas,
            exporters,
            prometheus,
            _nodes: nodes,
            _ports: ports,
        }
    }

    /// A ramp of the canary by the command, and overrides by hand.
    pub(super) fn change(&self) {
        let kv = self.state.kv();
        let ramp = "by=weight,steps=5,50,every=1h";
        let ramp = [
            "canary", "--ready", "--ramp", ramp, "--env", "gprd", "--kv", &kv,
        ];
        let output = tidegate(&ramp, &[]);
        assert_eq!(output.code, Some(0), "{output:?}");
        for (key, value) in [
            ("server-overrides/web/gke-b", "40%"),
            ("zones/b/server-overrides/web/gke-b", "drain"),
            ("nodes/lb-9/server-overrides/web/gke-b", "maint"),
            ("zones/b/canary-state", "drain"),
            ("nodes/lb-9/canary-state", "maint"),
        ] {
            self.state.put(key, value);
        }
    }

    /// All that a scrape of each shows.
    pub(super) fn scrapes(&self) -> String {
        let replicas = self.replicas.all.iter().map(Tidegate::http);
        let all = replicas.chain(self.exporters.iter().copied());
        all.map(|at| http::get(at, "/metrics").expect("it answers").text())
            .collect()
    }
}

fn config(exporter: SocketAddr, agent: SocketAddr) -> String {
    let mut text = format!(
        "{DEFAULTS}\nfrontend exporter\n    bind {exporter}\n    \
         http-request use-service prometheus-exporter if {{ path /metrics }}\nbackend web\n"
    );
    for (name, groups) in SERVERS {
        let request = format!("web/{name}{groups} node=${{HAPROXY_LOCALPEER}} base=100");
        let line = AgentServer {
            name,
            address: SocketAddr::new(loopback(1), 1),
            agent,
            request: &request,
            inter: INTER,
            more: "",
        };
        writeln!(text, "{line}").expect("a string takes every byte");
    }
    text
}
