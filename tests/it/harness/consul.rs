//! A real Consul agent: alone in development mode, alone with its data on disk, with ACLs, with TLS.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::certificates::Certificates;
use super::folder::Folder;
use super::http::{self, Response};
use super::netns::Space;
use super::ports::Port;
use super::process::{Output, Process, behind, run};
use super::tools::tool;
use super::wait::{PATIENCE, check, eventually};

/// The token with all rights of an agent that was started with ACLs.
pub(crate) const ROOT_TOKEN: &str = "11111111-2222-3333-4444-555555555555";

/// A consistent read, a write or a snapshot on a loaded machine.
const CALL_MAX: Duration = Duration::from_secs(10);

/// One agent, in its own folder, on ports that stay its own over restarts.
pub(crate) struct Consul {
    /// `None` between an end and the next start.
    process: Option<Process>,
    /// What stands before the program on its command line.
    launcher: Vec<String>,
    /// The agent's command line after `consul agent`.
    arguments: Vec<String>,
    http: SocketAddr,
    token: Option<String>,
    tls: Option<(Tls, Certificates)>,
    /// Held for their locks.
    ports: Vec<Port>,
    folder: Folder,
}

/// Certificates of an agent that demands one from its clients on its HTTPS port.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// Where it speaks HTTPS.
    pub(crate) https: SocketAddr,
    pub(crate) ca: PathBuf,
    pub(crate) client_cert: PathBuf,
    pub(crate) client_key: PathBuf,
}

impl Consul {
    /// A `-dev` agent: its data is in memory and gone with it. Ready in 0.2 s.
    pub(crate) fn dev() -> Self {
        Self::alone("consul-dev", &json!({}), true, None)
    }

    /// A `-dev` agent that denies by default; `ROOT_TOKEN` may do everything. Listing needs the
    /// `list` right (`enable_key_list_policy`).
    pub(crate) fn dev_with_acl() -> Self {
        Self::dev_with_acl_and(&json!({ "enable_key_list_policy": true }))
    }

    /// As `dev_with_acl`, with Consul's default for listings: what the token may not read is
    /// left out without a word.
    pub(crate) fn dev_with_filtering_acl() -> Self {
        Self::dev_with_acl_and(&json!({}))
    }

    fn dev_with_acl_and(more: &Value) -> Self {
        let mut acl = json!({
            "enabled": true,
            "default_policy": "deny",
            // 1.8's name of what became `initial_management`.
            "tokens": { "master": ROOT_TOKEN },
        });
        merge(&mut acl, more);
        Self::alone("consul-acl", &json!({ "acl": acl }), true, Some(ROOT_TOKEN))
    }

    /// A `-dev` agent in a namespace, on the part's own address.
    pub(crate) fn dev_in(space: &Space) -> Self {
        let address = IpAddr::V4(space.address());
        // Whatever is free outside is free in a namespace of its own.
        let ports = AgentPorts::reserve(loopback(1));
        let folder = Folder::new("consul-dev");
        let mut agent = Self::prepare(folder, address, &ports, &json!({}), true);
        agent.launcher = space.launcher();
        agent.ports = ports.into_all().collect();
        agent.start();
        agent
    }

    /// A single server with its data on disk: it comes back with it. Ready in 1 to 2 s.
    pub(crate) fn single() -> Self {
        Self::alone(
            "consul-single",
            &json!({ "server": true, "bootstrap_expect": 1 }),
            false,
            None,
        )
    }

    /// A `-dev` agent with an HTTPS port that demands a client's certificate, beside the plain one
    /// that the harness uses.
    pub(crate) fn dev_with_tls() -> Self {
        let address = loopback(1);
        let folder = Folder::new("consul-tls");
        let https = Port::reserve(address);
        let certificates = Certificates::make();
        let config = json!({
            "ports": { "https": https.number() },
            "verify_incoming": true,
            "verify_outgoing": true,
            "ca_file": certificates.authority(),
            "cert_file": certificates.server(),
            "key_file": certificates.server_key(),
        });
        let tls = Tls {
            https: SocketAddr::new(address, https.number()),
            ca: certificates.authority(),
            client_cert: certificates.client(),
            client_key: certificates.client_key(),
        };
        let ports = AgentPorts::reserve(address);
        let mut agent = Self::prepare(folder, address, &ports, &config, true);
        agent.tls = Some((tls, certificates));
        agent.ports = ports.into_all().chain([https]).collect();
        agent.start();
        agent
    }

    fn alone(name: &str, config: &Value, dev: bool, token: Option<&str>) -> Self {
        let address = loopback(1);
        let ports = AgentPorts::reserve(address);
        let mut agent = Self::prepare(Folder::new(name), address, &ports, config, dev);
        agent.token = token.map(str::to_owned);
        agent.ports = ports.into_all().collect();
        agent.start();
        agent
    }

    /// Writes the configuration; nothing runs yet. The caller keeps the ports reserved.
    pub(crate) fn prepare(
        folder: Folder,
        address: IpAddr,
        ports: &AgentPorts,
        more: &Value,
        dev: bool,
    ) -> Self {
        let mut config = json!({
            "node_name": format!("node-{}", address.to_string().replace('.', "-")),
            "bind_addr": address,
            "client_addr": address.to_string(),
            "ports": {
                "dns": -1, "grpc": -1, "serf_wan": -1,
                "server": ports.server.number(),
                "serf_lan": ports.serf.number(),
                "http": ports.http.number(),
            },
            "disable_update_check": true,
            "disable_host_node_id": true,
            "leave_on_terminate": false,
            "performance": { "raft_multiplier": 1 },
        });
        if !dev {
            merge(&mut config, &json!({ "data_dir": folder.join("data") }));
        }
        merge(&mut config, more);
        let file = folder.write("agent.json", &config.to_string());
        let mut arguments = vec![format!("-config-file={}", file.display())];
        arguments.extend(dev.then(|| "-dev".to_owned()));
        let http = SocketAddr::new(address, ports.http.number());
        Self {
            process: None,
            launcher: Vec::new(),
            arguments,
            http,
            token: None,
            tls: None,
            ports: Vec::new(),
            folder,
        }
    }

    /// Has a prepared agent start in a namespace, and its calls made with a token.
    pub(crate) fn placed(mut self, launcher: &[String], token: Option<&str>) -> Self {
        self.launcher = launcher.to_vec();
        self.token = token.map(str::to_owned);
        self
    }

    /// Starts the agent, again on the same ports, and waits until it answers consistent reads.
    pub(crate) fn start(&mut self) {
        self.launch();
        self.await_ready();
    }

    /// Starts the agent and waits for nothing.
    pub(crate) fn launch(&mut self) {
        assert!(self.process.is_none(), "this agent runs already");
        let mut command = behind(&self.launcher, tool("consul"));
        command.arg("agent").args(&self.arguments);
        self.process = Some(Process::start("consul", self.folder.path(), &command));
    }

    /// An open port says nothing: a consistent read that has an index proves leader and quorum.
    pub(crate) fn await_ready(&mut self) {
        let (http, token) = (self.http, self.token.clone());
        let process = self.process();
        eventually("Consul answers consistent reads", PATIENCE, || {
            process.assert_running();
            let headers: Vec<_> = token
                .iter()
                .map(|t| ("X-Consul-Token", t.as_str()))
                .collect();
            let limit = Duration::from_secs(2);
            match http::request(
                http,
                "GET",
                "/v1/kv/_ready?consistent",
                &headers,
                b"",
                limit,
            ) {
                Ok(answer) if answer.header("X-Consul-Index").is_some() => Ok(()),
                Ok(answer) => Err(format!("{} {}", answer.status, answer.text())),
                Err(error) => Err(error.to_string()),
            }
        });
    }

    /// The running agent's process, for signals: pause, resume, and the log.
    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the agent was started")
    }

    /// SIGKILL, as a machine that loses its power.
    pub(crate) fn kill(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(&mut self) {
        self.process().stop();
        self.process = None;
    }

    /// Where it speaks plain HTTP.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    /// The same as `CONSUL_HTTP_ADDR` takes it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.http)
    }

    /// The token of this harness's own calls.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Files and address for clients of an agent started by `dev_with_tls`.
    pub(crate) fn tls(&self) -> &Tls {
        let (tls, _) = self.tls.as_ref().expect("this agent was started with TLS");
        tls
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// One call of the HTTP API with the harness's own token, whatever the answer's status.
    pub(crate) fn call(&self, method: &str, path: &str, body: &[u8]) -> Response {
        self.call_as(self.token.as_deref(), method, path, body)
    }

    /// The same with another token, or with none.
    pub(crate) fn call_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Response {
        let headers: Vec<_> = token
            .iter()
            .map(|token| ("X-Consul-Token", *token))
            .collect();
        http::request(self.http, method, path, &headers, body, CALL_MAX)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Runs the real `consul` command line against this agent.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(tool("consul"));
        command.args(arguments).env("CONSUL_HTTP_ADDR", self.url());
        if let Some(token) = &self.token {
            command.env("CONSUL_HTTP_TOKEN", token);
        }
        run("consul-cli", &command, PATIENCE)
    }
}

/// What one agent listens on.
pub(crate) struct AgentPorts {
    pub(crate) server: Port,
    pub(crate) serf: Port,
    pub(crate) http: Port,
}

impl AgentPorts {
    pub(crate) fn reserve(address: IpAddr) -> Self {
        let reserve = || Port::reserve(address);
        Self {
            server: reserve(),
            serf: reserve(),
            http: reserve(),
        }
    }

    pub(crate) fn into_all(self) -> impl Iterator<Item = Port> {
        [self.server, self.serf, self.http].into_iter()
    }
}

/// 127.0.0.`last`.
pub(crate) fn loopback(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

/// Lays the fields of `more` over `base`, objects into objects.
pub(crate) fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (name, value) in more {
                merge(base.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

/// Fails with the answer's own words when its status is not 200.
pub(crate) fn expect_ok(what: &str, answer: &Response) {
    check(answer.status == 200, || {
        format!("{what}: {} {}", answer.status, answer.text())
    })
    .unwrap_or_else(|message| panic!("{message}"));
}
