//! A real HAProxy, with any configuration.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::folder::Folder;
use super::netns::Space;
use super::process::{Output, Process, behind, run};
use super::stats::{self, Row};
use super::tools::tool;
use super::wait::{PATIENCE, check, eventually};

/// The version of Debian 12, and the next long-term one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V26,
    V28,
}

impl Version {
    pub(crate) const ALL: [Self; 2] = [Self::V26, Self::V28];

    fn program(self) -> PathBuf {
        tool(match self {
            Self::V26 => "haproxy-2.6",
            Self::V28 => "haproxy-2.8",
        })
    }
}

/// A `defaults` section for HTTP whose limits are short beside a test's patience.
pub(crate) const DEFAULTS: &str = "
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
";

/// One HAProxy node in master-worker mode, as systemd runs it.
pub(crate) struct Haproxy {
    /// The master. `None` between an end and the next start.
    process: Option<Process>,
    /// What stands before the program on its command line.
    launcher: Vec<String>,
    version: Version,
    node: String,
    environment: Vec<(String, String)>,
    /// Files and folders that are read behind `haproxy.cfg`.
    more: Vec<PathBuf>,
    folder: Folder,
}

impl Haproxy {
    /// Starts a node called `lb-01`; `config` is everything but the stats socket.
    pub(crate) fn start(version: Version, config: &str) -> Self {
        Self::start_node(version, "lb-01", &[], config)
    }

    /// Starts a node whose configuration may use `${HAPROXY_LOCALPEER}`, which is `node`, and the
    /// variables of `environment`.
    pub(crate) fn start_node(
        version: Version,
        node: &str,
        environment: &[(&str, &str)],
        config: &str,
    ) -> Self {
        let mut haproxy = Self::prepare(version, node, environment);
        haproxy.configure(config);
        haproxy.start_again();
        haproxy
    }

    /// The same with more files and folders, read behind `config`.
    pub(crate) fn start_with(
        version: Version,
        environment: &[(&str, &str)],
        config: &str,
        more: &[PathBuf],
    ) -> Self {
        let mut haproxy = Self::prepare(version, "lb-01", environment);
        haproxy.more = more.to_vec();
        haproxy.configure(config);
        haproxy.start_again();
        haproxy
    }

    /// What `haproxy -c` says of one file, which it may refuse.
    pub(crate) fn says(version: Version, file: &Path, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(version.program());
        command.arg("-c").arg("-f").arg(file).args(["-L", "lb-01"]);
        command.envs(environment.iter().copied());
        run("haproxy-check", &command, PATIENCE)
    }

    /// Starts a node in a namespace; its name is the part's.
    pub(crate) fn start_in(space: &Space, version: Version, config: &str) -> Self {
        let mut haproxy = Self::prepare(version, space.name(), &[]);
        haproxy.launcher = space.launcher();
        haproxy.configure(config);
        haproxy.start_again();
        haproxy
    }

    /// Whether HAProxy accepts a configuration (`haproxy -c`); the error is what it says.
    pub(crate) fn accepts(version: Version, config: &str) -> Result<(), String> {
        Self::prepare(version, "lb-01", &[]).try_configure(config)
    }

    /// Writes the configuration that the next start or reload takes, after HAProxy's own check.
    pub(crate) fn configure(&mut self, config: &str) {
        self.try_configure(config)
            .unwrap_or_else(|message| panic!("{message}"));
    }

    fn prepare(version: Version, node: &str, environment: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            process: None,
            launcher: Vec::new(),
            version,
            node: node.to_owned(),
            environment: environment.iter().map(own).collect(),
            more: Vec::new(),
            folder: Folder::new("haproxy"),
        }
    }

    fn try_configure(&self, config: &str) -> Result<(), String> {
        let text = format!(
            "global\n    stats socket {} mode 600 level admin expose-fd listeners\n{config}\n",
            self.socket().display()
        );
        self.folder.write("haproxy.cfg", &text);
        let output = run("haproxy-check", self.command().arg("-c"), PATIENCE);
        check(output.code == Some(0), || {
            let Output { stdout, stderr, .. } = output;
            format!("HAProxy refuses this configuration:\n{text}\n{stdout}{stderr}")
        })
    }

    /// Starts a stopped or killed node, and waits until its worker answers.
    pub(crate) fn start_again(&mut self) {
        assert!(self.process.is_none(), "this node runs already");
        let mut command = self.command();
        command.args(["-W", "-S"]).arg(self.master_socket());
        self.process = Some(Process::start("haproxy", self.folder.path(), &command));
        self.await_worker_other_than(None);
    }

    /// Reloads as `systemctl reload` does: a new worker takes the listeners over, the old one
    /// finishes its sessions. Returns when the new one answers.
    pub(crate) fn reload(&mut self) {
        let old = self.worker();
        self.process().signal(Signal::USR2);
        self.await_worker_other_than(old);
    }

    /// Stops the node in order and starts it again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(&mut self) {
        self.process().stop();
        self.process = None;
    }

    /// The master's process, for signals and the log.
    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the node was started")
    }

    /// Process id of the worker that answers now.
    pub(crate) fn worker(&self) -> Option<u32> {
        let info = stats::command(&self.socket(), "show info").ok()?;
        info.lines()
            .find_map(|line| line.strip_prefix("Pid: "))?
            .parse()
            .ok()
    }

    /// One command on the stats socket, for example `disable agent web/a`.
    pub(crate) fn stats(&self, command: &str) -> String {
        stats::command(&self.socket(), command)
            .unwrap_or_else(|error| panic!("stats socket, {command:?}: {error}"))
    }

    /// All rows of `show stat`: frontends, backends, servers.
    pub(crate) fn show_stat(&self) -> Vec<Row> {
        stats::parse_csv(&self.stats("show stat"))
    }

    /// The row of one server in `show stat`.
    pub(crate) fn server(&self, backend: &str, server: &str) -> Row {
        let rows = self.show_stat();
        rows.into_iter()
            .find(|row| row.field("pxname") == backend && row.field("svname") == server)
            .unwrap_or_else(|| panic!("HAProxy knows no server {backend}/{server}"))
    }

    /// All rows of `show servers state`.
    pub(crate) fn servers_state(&self) -> Vec<Row> {
        stats::parse_servers_state(&self.stats("show servers state"))
    }

    /// Waits until the server's status begins with `status` and its weight is `weight`.
    pub(crate) fn await_server(
        &self,
        backend: &str,
        server: &str,
        (status, weight): (&str, Option<u32>),
        limit: Duration,
    ) -> Row {
        let what = format!("{backend}/{server} is {status} at {weight:?}");
        eventually(&what, limit, || {
            let row = self.server(backend, server);
            check(row.stands(status, weight), || row.shown())?;
            Ok(row)
        })
    }

    /// The node's name.
    pub(crate) fn name(&self) -> &str {
        &self.node
    }

    /// Path of the stats socket, the same over reloads and restarts.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("haproxy.sock")
    }

    fn master_socket(&self) -> PathBuf {
        self.folder.join("master.sock")
    }

    fn command(&self) -> Command {
        let mut command = behind(&self.launcher, self.version.program());
        command
            .arg("-f")
            .arg(self.folder.join("haproxy.cfg"))
            .args(["-L", &self.node]);
        for path in &self.more {
            command.arg("-f").arg(path);
        }
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Waits for the master too: until its loop runs it ignores the signal to reload.
    fn await_worker_other_than(&mut self, old: Option<u32>) {
        eventually("a new HAProxy worker answers", PATIENCE, || {
            self.process().assert_running();
            let worker = self.worker();
            check(worker.is_some() && worker != old, || {
                format!("worker {worker:?}")
            })?;
            let processes = stats::command(&self.master_socket(), "show proc")
                .map_err(|error| format!("no answer from the master: {error}"))?;
            let id = worker.map(|id| id.to_string()).unwrap_or_default();
            let is_known = processes
                .lines()
                .any(|line| line.split(' ').next() == Some(&id));
            check(is_known, || {
                format!("worker {id}, and the master knows of:\n{processes}")
            })
        });
    }
}

/// A `server` line with an agent check; written out by `Display`.
pub(crate) struct AgentServer<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: SocketAddr,
    /// Who is asked.
    pub(crate) agent: SocketAddr,
    /// What is sent, without its line end, for example `web/a canary node=lb-01 base=100`.
    pub(crate) request: &'a str,
    pub(crate) inter: Duration,
    /// Further words, for example `disabled` or `check inter 500ms`.
    pub(crate) more: &'a str,
}

impl fmt::Display for AgentServer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "    server {} {} weight 100 agent-check agent-addr {} agent-port {} agent-inter {}ms \
             agent-send \"{}\\n\" {}",
            self.name,
            self.address,
            self.agent.ip(),
            self.agent.port(),
            self.inter.as_millis(),
            self.request,
            self.more
        )
    }
}
