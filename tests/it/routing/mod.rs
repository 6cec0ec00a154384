//! `deploy/haproxy/edge.cfg` on real HAProxy, with a real Tidegate behind its agent checks. Only
//! addresses are replaced, through the environment.

mod accepted;
mod clients;
mod preflight;
mod ssh;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::harness::backend::Backend;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::http::{self, Response};
use crate::harness::ports::Port;
use crate::harness::state_folder::StateFolder;
use crate::harness::stats;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// What a kind of request is called in `backend`, `canary_backend` and `main_backend`, the variable
/// of its port, and its canary server. A zone's server is called after the kind and the zone.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("web", "PORT_WEB", "web-gke", "gke-cny-web"),
    ("api", "PORT_API", "api-gke", "gke-cny-api"),
    (
        "https_git",
        "PORT_GIT",
        "git-https-gke",
        "gke-cny-git-https",
    ),
];
/// Addresses of the zones b, c, d end so, and the canary's.
const ZONES: [(&str, u8); 3] = [("b", 2), ("c", 3), ("d", 4)];
const CANARY: u8 = 5;

/// What the canary is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canary {
    Ready,
    OnePercent,
    Drain,
    Maint,
    /// Meant to be ready, and its health checks fail.
    Down,
    /// The KV holds no word about it.
    Unsaid,
}

impl Canary {
    pub(crate) const ALL: [Self; 6] = [
        Self::Ready,
        Self::OnePercent,
        Self::Drain,
        Self::Maint,
        Self::Down,
        Self::Unsaid,
    ];

    fn directive(self) -> Option<&'static str> {
        match self {
            Self::Ready | Self::Down => Some("ready"),
            Self::OnePercent => Some("1%"),
            Self::Drain => Some("drain"),
            Self::Maint => Some("maint"),
            Self::Unsaid => None,
        }
    }

    /// Status, weight, and what the agent said last.
    fn stands(self) -> (&'static str, Option<u32>, &'static str) {
        match self {
            Self::Ready => ("UP", Some(100), "via agent : up"),
            Self::OnePercent => ("UP", Some(1), "via agent : up"),
            Self::Drain => ("DRAIN", None, "via agent : up"),
            Self::Maint => ("MAINT", None, "via agent : up"),
            Self::Down => ("DOWN", None, "via agent : up"),
            Self::Unsaid => ("MAINT", None, "unknown-group"),
        }
    }

    fn is_on(self) -> bool {
        match self {
            Self::Ready | Self::OnePercent => true,
            Self::Drain | Self::Maint | Self::Down | Self::Unsaid => false,
        }
    }
}

/// One node in `zone`, its servers, and the service that it asks.
pub(crate) struct Edge {
    node: Haproxy,
    zone: &'static str,
    canary: Canary,
    ports: Ports,
    _backends: Vec<Backend>,
    _tidegate: Tidegate,
    state: StateFolder,
    _folder: Folder,
}

/// By the variable that names each.
struct Ports(BTreeMap<&'static str, Port>);

impl Ports {
    fn reserve() -> Self {
        let names = [
            "PORT_WEB",
            "PORT_API",
            "PORT_GIT",
            "PORT_SSH",
            "BIND_HTTP",
            "BIND_SSH",
        ];
        Self(names.map(|name| (name, Port::reserve(host(1).ip()))).into())
    }

    /// The address of host `last` at this port.
    fn at(&self, last: u8, variable: &str) -> SocketAddr {
        let mut address = host(last);
        address.set_port(self.0[variable].number());
        address
    }

    fn environment(&self) -> Vec<(String, String)> {
        let value = |(&name, port): (&&str, &Port)| {
            let number = port.number();
            let value = if name.starts_with("BIND") {
                format!("127.0.0.1:{number}")
            } else {
                number.to_string()
            };
            (name.to_owned(), value)
        };
        let hosts = ZONES.iter().map(|&(zone, last)| {
            let name = format!("ZONE_{}", zone.to_uppercase());
            (name, host(last).ip().to_string())
        });
        let canary = ("CANARY".to_owned(), host(CANARY).ip().to_string());
        self.0
            .iter()
            .map(value)
            .chain(hosts)
            .chain([canary])
            .collect()
    }
}

/// An address of this machine without a port.
fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], 0))
}

impl Edge {
    /// Starts a node whose canary stands so, and waits until it does.
    fn start(version: Version, zone: &'static str, canary: Canary) -> Self {
        let state = StateFolder::new();
        if let Some(directive) = canary.directive() {
            state.put("canary-state", directive);
        }
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        let folder = Folder::new("edge");
        let ports = Ports::reserve();
        let agent = tidegate.agent();
        let mut environment = ports.environment();
        for (name, value) in [
            ("LB_ZONE", format!("us-east1-{zone}")),
            (
                "ADMIN_SOCKET",
                folder.join("admin.sock").display().to_string(),
            ),
            ("TIDEGATE", agent.ip().to_string()),
            ("TIDEGATE_PORT", agent.port().to_string()),
        ] {
            environment.push((name.to_owned(), value));
        }
        let environment: Vec<_> = environment.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let backends = backends(&ports, canary);
        let config = deployed("edge.cfg");
        let edge = Self {
            node: Haproxy::start_node(version, "lb-01", &environment, &config),
            zone,
            canary,
            ports,
            _backends: backends,
            _tidegate: tidegate,
            state,
            _folder: folder,
        };
        edge.await_canary();
        edge
    }

    /// Every canary server of the HTTP backends stands as it shall.
    fn await_canary(&self) {
        let (status, weight, said) = self.canary.stands();
        for (kind, _, _, server) in KINDS {
            for backend in [kind.to_owned(), format!("canary_{kind}")] {
                let what = format!("{backend}/{server} is {:?}", self.canary);
                eventually(&what, PATIENCE, || {
                    let row = self.node.server(&backend, server);
                    let fits = row.stands(status, weight) && row.last_agt().contains(said);
                    check(fits, || row.shown())
                });
            }
        }
    }

    /// One request, and the backends that got one by it.
    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (Response, Vec<String>) {
        let before = self.sessions();
        let target = self.ports.at(1, "BIND_HTTP");
        let answer = http::request(target, method, path, headers, b"", PATIENCE)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let after = self.sessions();
        let got = after
            .into_iter()
            .filter(|(name, count)| before[name] != *count);
        (answer, got.map(|(name, _)| name).collect())
    }

    /// Sessions that each backend has had so far.
    fn sessions(&self) -> BTreeMap<String, u32> {
        // 2: backends only.
        let rows = stats::parse_csv(&self.node.stats("show stat -1 2 -1"));
        let count = |row: &stats::Row| (row.field("pxname").to_owned(), row.number("stot"));
        rows.iter().map(count).collect()
    }

    /// The name of the zone's server of a kind.
    fn main_server(&self, prefix: &str) -> String {
        format!("{prefix}-us-east1-{}", self.zone)
    }
}

/// A server for each kind in each zone and in the canary, and those for SSH.
fn backends(ports: &Ports, canary: Canary) -> Vec<Backend> {
    let mut started = Vec::new();
    for (_, port, prefix, server) in KINDS {
        for (zone, last) in ZONES {
            let name = format!("{prefix}-us-east1-{zone}");
            started.push(Backend::start_at(&name, ports.at(last, port)));
        }
        let backend = Backend::start_at(server, ports.at(CANARY, port));
        backend.set_healthy(canary != Canary::Down);
        started.push(backend);
    }
    for (zone, last) in ZONES {
        let name = format!("shell-gke-us-east1-{zone}");
        started.push(Backend::start_ssh(&name, ports.at(last, "PORT_SSH")));
    }
    let canary = ports.at(CANARY, "PORT_SSH");
    started.push(Backend::start_ssh("gke-cny-ssh", canary));
    started
}

/// A file of `deploy/haproxy`.
pub(crate) fn deployed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/haproxy")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
