//! The program under test.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use super::consul::{Consul, loopback};
use super::folder::Folder;
use super::http::{self, Response};
use super::ports::Port;
use super::process::{Output, Process, behind, run};
use super::state_folder::{ENVIRONMENT, StateFolder};
use super::wait::{PATIENCE, check, eventually};

/// More than the service takes for any answer: 100 ms of silence and 500 ms for the peer's close.
const ASK_MAX: Duration = Duration::from_secs(3);
const COMMAND_MAX: Duration = Duration::from_mins(1);

/// A running `tidegate serve`, on ports that stay its own over restarts.
pub(crate) struct Tidegate {
    /// `None` between an end and the next start.
    process: Option<Process>,
    /// What stands before the program on the command line.
    launcher: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    agent: SocketAddr,
    http: SocketAddr,
    /// Held for their locks.
    ports: Vec<Port>,
    folder: Folder,
}

/// Where one replica runs, and how it is told from the others.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// What stands before the program on the command line; it must end in exec.
    pub(crate) launcher: Vec<String>,
    pub(crate) slot: String,
    pub(crate) agent: SocketAddr,
    pub(crate) http: SocketAddr,
    /// The arguments by which replicas know each other.
    pub(crate) membership: Vec<String>,
}

impl Tidegate {
    /// Starts a standalone service for `gprd` and waits until it is ready. `arguments` say at
    /// least where the state is: `&["--kv", &state.kv()]`.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut tidegate = Self::launch(arguments, &[]);
        tidegate.await_ready();
        tidegate
    }

    /// The same on a folder in which the canary is drained.
    pub(crate) fn start_drained() -> (StateFolder, Self) {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let tidegate = Self::start(&["--kv", &state.kv()]);
        (state, tidegate)
    }

    /// The same on a Consul agent, found and asked as Consul's own programs do.
    pub(crate) fn start_on(consul: &Consul) -> Self {
        Self::start_in(&consul_environment(consul))
    }

    /// The same with a token of its own.
    pub(crate) fn start_as(consul: &Consul, secret: &str) -> Self {
        Self::start_in(&consul_environment_as(consul, secret))
    }

    fn start_in(environment: &[(String, String)]) -> Self {
        let mut tidegate = Self::launch(&["--kv", "consul"], environment);
        tidegate.await_ready();
        tidegate
    }

    /// The same with an agent port on every address of the machine, IPv6 included.
    pub(crate) fn start_on_all_addresses(arguments: &[&str]) -> Self {
        let all = Ipv6Addr::UNSPECIFIED.into();
        let mut tidegate = Self::launch_at(all, &[], arguments, &[]);
        tidegate.await_ready();
        tidegate
    }

    /// The same with a limit of open files that it cannot raise.
    pub(crate) fn start_with_descriptors(count: u32, arguments: &[&str]) -> Self {
        let limit = format!("--nofile={count}:{count}");
        let mut tidegate = Self::launch_at(loopback(1), &["prlimit", &limit], arguments, &[]);
        tidegate.await_ready();
        tidegate
    }

    /// Starts it and waits for nothing: for tests in which it does not become ready.
    pub(crate) fn launch(arguments: &[&str], environment: &[(String, String)]) -> Self {
        Self::launch_at(loopback(1), &[], arguments, environment)
    }

    /// The same behind the words that start it somewhere else: on a disk of its own.
    pub(crate) fn launch_behind(
        launcher: &[String],
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let launcher: Vec<_> = launcher.iter().map(String::as_str).collect();
        Self::launch_at(loopback(1), &launcher, arguments, environment)
    }

    /// `launcher` is what stands before the program on the command line; it must end in exec.
    fn launch_at(
        agent: IpAddr,
        launcher: &[&str],
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let addresses = [agent, loopback(1)];
        let ports = addresses.map(Port::reserve);
        let [agent, http] = [0, 1].map(|at| SocketAddr::new(addresses[at], ports[at].number()));
        let place = Place {
            launcher: launcher.iter().map(|&word| word.to_owned()).collect(),
            slot: "a".to_owned(),
            agent,
            http,
            membership: vec!["--standalone".to_owned()],
        };
        let mut tidegate = Self::prepare(place, arguments, environment);
        tidegate.ports = ports.into();
        tidegate.relaunch();
        tidegate
    }

    /// A service at any place; nothing runs yet. Its folder stays the same over restarts.
    pub(crate) fn prepare(
        place: Place,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let mut all = vec!["serve".to_owned()];
        for (flag, value) in [
            ("--env", ENVIRONMENT.to_owned()),
            ("--agent-listen", place.agent.to_string()),
            ("--http-listen", place.http.to_string()),
            ("--slot", place.slot),
        ] {
            all.extend([flag.to_owned(), value]);
        }
        all.extend(place.membership);
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Self {
            process: None,
            launcher: place.launcher,
            arguments: all,
            environment: environment.to_vec(),
            agent: place.agent,
            http: place.http,
            ports: Vec::new(),
            folder: Folder::new("tidegate"),
        }
    }

    /// Has it keep what it read in its own folder, from the next start on.
    pub(crate) fn remember(&mut self) {
        let folder = self.data();
        self.add_arguments(&["--data-dir", &folder.display().to_string()]);
    }

    /// The folder in which it then keeps it.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Gives it further arguments, from the next start on.
    pub(crate) fn add_arguments(&mut self, more: &[&str]) {
        let more = more.iter().map(|&argument| argument.to_owned());
        self.arguments.extend(more);
    }

    /// Gives it another value of a variable, from the next start on.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Starts it again after an end, on the same ports, and waits until it is ready.
    pub(crate) fn start_again(&mut self) {
        self.relaunch();
        self.await_ready();
    }

    /// Starts it again after an end and waits for nothing.
    pub(crate) fn relaunch(&mut self) {
        assert!(self.process.is_none(), "this service runs already");
        let mut command = program_behind(&self.launcher);
        command
            .args(&self.arguments)
            // No balancer waits here; a test that drains says so with the flag, which counts first.
            .env("TIDEGATE_DRAIN_FOR", "0s")
            .envs(self.environment.iter().cloned());
        self.process = Some(Process::start("tidegate", self.folder.path(), &command));
    }

    /// Waits until `/readyz` answers 200.
    pub(crate) fn await_ready(&mut self) {
        let http = self.http;
        let process = self.process();
        eventually("tidegate is ready", PATIENCE, || {
            process.assert_running();
            let answer = http::get(http, "/readyz").map_err(|error| error.to_string())?;
            check(answer.status == 200, || {
                format!("{} {}", answer.status, answer.text())
            })
        });
    }

    /// The running process, for signals and the log.
    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the service was started")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// SIGKILL, if it runs.
    pub(crate) fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// SIGTERM; gives the exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let status = self.process().stop();
        self.process = None;
        status.code()
    }

    /// Where HAProxy asks.
    pub(crate) fn agent(&self) -> SocketAddr {
        self.agent
    }

    /// Where `/readyz` and the API are.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    /// Sends `request` as it is and reads as HAProxy does: up to a line end, then it closes. What
    /// came in the same segment after the line end is there too. Empty: closed without a byte.
    pub(crate) fn ask(&self, request: impl AsRef<[u8]>) -> Vec<u8> {
        let mut stream = self.connect();
        self.exchange(&mut stream, request.as_ref(), |answer| {
            answer.contains(&b'\n')
        })
    }

    /// The same, up to the service's own close, which comes half a second after the answer.
    pub(crate) fn ask_to_end(&self, request: impl AsRef<[u8]>) -> Vec<u8> {
        let mut stream = self.connect();
        self.exchange(&mut stream, request.as_ref(), |_| false)
    }

    /// What comes on a connection up to its end.
    pub(crate) fn read_to_end(&self, stream: &mut TcpStream) -> Vec<u8> {
        self.exchange(stream, b"", |_| false)
    }

    /// An open connection to the agent port, with a time limit on its reads.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.agent, ASK_MAX)
            .unwrap_or_else(|error| panic!("cannot connect to tidegate: {error}"));
        stream
            .set_read_timeout(Some(ASK_MAX))
            .expect("the limit is not zero");
        stream
    }

    fn exchange(
        &self,
        stream: &mut TcpStream,
        request: &[u8],
        is_whole: impl Fn(&[u8]) -> bool,
    ) -> Vec<u8> {
        exchange(stream, request, is_whole)
            .unwrap_or_else(|error| panic!("no answer from {}: {error}", self.agent))
    }

    /// Asks one line and gives the answer's words before the comment: `up ready 100%`.
    pub(crate) fn ask_line(&self, line: &str) -> String {
        let answer = String::from_utf8_lossy(&self.ask(format!("{line}\n"))).into_owned();
        answer
            .split('#')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// Waits until the answer to a line is `expected`, comment left out.
    pub(crate) fn await_answer(&self, line: &str, expected: &str, limit: Duration) {
        eventually(&format!("{line:?} is answered {expected:?}"), limit, || {
            let answer = self.ask_line(line);
            check(answer == expected, || format!("{answer:?}"))
        });
    }

    /// Waits until `/readyz` has this status and a body that contains `text`; gives the body.
    pub(crate) fn await_readyz(&self, status: u16, text: &str, limit: Duration) -> String {
        eventually(&format!("/readyz says {status} {text:?}"), limit, || {
            let answer = http::get(self.http, "/readyz").map_err(|error| error.to_string())?;
            let body = answer.text();
            check(answer.status == status && body.contains(text), || {
                format!("{} {body}", answer.status)
            })?;
            Ok(body)
        })
    }

    /// Waits until this replica counts a peer as this: `current`, `out-of-sight`.
    pub(crate) fn await_counted(&self, peer: &str, counted: &str) {
        let what = format!("peer {peer} is counted as {counted}");
        eventually(&what, PATIENCE, || self.check_counted(peer, counted));
    }

    /// It does so now.
    pub(crate) fn expect_counted(&self, peer: &str, counted: &str) {
        let seen = self.check_counted(peer, counted);
        seen.unwrap_or_else(|seen| panic!("peer {peer} is not counted as {counted}: {seen}"));
    }

    fn check_counted(&self, peer: &str, counted: &str) -> Result<(), String> {
        let series = format!(r#"tidegate_peer_counted{{peer="{peer}",as="{counted}"}}"#);
        check(self.count(&series) == 1, || {
            self.get("/api/v1/replicas").text()
        })
    }

    /// The problems that `/api/v1/snapshot` shows, as (kind, path).
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let body = self.get("/api/v1/snapshot").body;
        let view: serde_json::Value = serde_json::from_slice(&body).expect("the API says JSON");
        let problems = view["problems"].as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        problems
            .iter()
            .map(|problem| (text(&problem["kind"]), text(&problem["path"])))
            .collect()
    }

    /// The value of one series of `/metrics`, named as a scrape shows it.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        self.series(series)
    }

    /// The same of a series that counts.
    pub(crate) fn count(&self, series: &str) -> u64 {
        self.series(series)
    }

    fn series<T: FromStr>(&self, series: &str) -> T {
        let text = self.get("/metrics").text();
        let value = text.lines().find_map(|line| {
            let value = line.strip_prefix(series)?.strip_prefix(' ')?;
            value.parse().ok()
        });
        value.unwrap_or_else(|| panic!("/metrics has no series {series}:\n{text}"))
    }

    /// `GET` on the HTTP listener, whatever the status.
    pub(crate) fn get(&self, path: &str) -> Response {
        http::get(self.http, path).unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }
}

/// Asks one line at an address and gives the answer's words before the comment; empty when it was
/// closed without a byte.
pub(crate) fn poll(agent: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&agent, ASK_MAX)?;
    stream.set_read_timeout(Some(ASK_MAX))?;
    let request = format!("{line}\n");
    let answer = exchange(&mut stream, request.as_bytes(), |a| a.contains(&b'\n'))?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let words = answer.split('#').next().unwrap_or_default();
    Ok(words.trim().to_owned())
}

/// Runs one command of the program to its end, with `environment` added.
pub(crate) fn tidegate(arguments: &[&str], environment: &[(String, String)]) -> Output {
    tidegate_behind(&[], arguments, environment)
}

/// The same behind the words that start it somewhere else: in a namespace.
pub(crate) fn tidegate_behind(
    launcher: &[String],
    arguments: &[&str],
    environment: &[(String, String)],
) -> Output {
    let mut command = program_behind(launcher);
    command.args(arguments).envs(environment.iter().cloned());
    run("tidegate-command", &command, COMMAND_MAX)
}

/// Consul's documented variables for clients of this agent.
pub(crate) fn consul_environment(consul: &Consul) -> Vec<(String, String)> {
    environment_with(consul, consul.token())
}

/// The same with a token of their own.
pub(crate) fn consul_environment_as(consul: &Consul, secret: &str) -> Vec<(String, String)> {
    environment_with(consul, Some(secret))
}

/// The same over HTTPS, with a client's certificate.
pub(crate) fn consul_environment_over_tls(consul: &Consul) -> [(String, String); 4] {
    let tls = consul.tls();
    [
        ("CONSUL_HTTP_ADDR", format!("https://{}", tls.https)),
        ("CONSUL_CACERT", tls.ca.display().to_string()),
        ("CONSUL_CLIENT_CERT", tls.client_cert.display().to_string()),
        ("CONSUL_CLIENT_KEY", tls.client_key.display().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// A service with more arguments on a folder in which the canary is drained.
pub(crate) fn drained(arguments: &[&str]) -> (StateFolder, Tidegate) {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let kv = state.kv();
    let tidegate = Tidegate::start(&[&["--kv", &kv], arguments].concat());
    (state, tidegate)
}

/// `tidegate status` of gprd in the folder `kv`, which asks this replica.
pub(crate) fn status_of(kv: &str, replica: &str, more: &[&str]) -> Output {
    let common = ["status", "--env", "gprd", "--kv", kv, "--replica", replica];
    tidegate(&[&common[..], more].concat(), &[])
}

fn environment_with(consul: &Consul, token: Option<&str>) -> Vec<(String, String)> {
    let token = token.map(|token| ("CONSUL_HTTP_TOKEN".to_owned(), token.to_owned()));
    let address = ("CONSUL_HTTP_ADDR".to_owned(), consul.url());
    std::iter::once(address).chain(token).collect()
}

/// The program, without the variables that the developer's shell may have set for it.
fn program_behind(launcher: &[String]) -> Command {
    let mut command = behind(launcher, env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars_os() {
        let ours = ["CONSUL_", "TIDEGATE_", "OTEL_", "TRACEPARENT"];
        let of_ours = |name: &str| ours.iter().any(|begin| name.starts_with(begin));
        if name.to_str().is_some_and(of_ours) {
            command.env_remove(name);
        }
    }
    command
}

fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&answer) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            // Closed before the request was read whole: what came before is the answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}
