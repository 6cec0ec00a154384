//! What a poll of a real HAProxy costs the network, and whether they all come.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::netns::{Net, Space};
use crate::harness::process::run;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Place, Tidegate};
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const AGENT_PORT: u16 = 8790;
const HTTP_PORT: u16 = 8791;
const ANSWERED: &str = r#"tidegate_agent_answers_total{answer="drain"}"#;
const MEASURED: Duration = Duration::from_secs(3);
const WINDOWS: usize = 3;
/// `TIME_WAIT` in /proc/net/tcp.
const TIME_WAIT: &str = "06";

/// One HAProxy.
struct Plan {
    version: Version,
    servers: u32,
    inter: Duration,
}

#[test]
fn a_poll_takes_five_segments_and_leaves_no_time_wait_on_either_side() {
    let stage = Stage::new();
    for version in Version::ALL {
        let rate = stage.measure(&Plan {
            version,
            servers: 500,
            inter: Duration::from_millis(200),
        });
        println!("{version:?}: {:.1} % of the nominal rate", rate * 100.0);
    }
}

/// The rate is required of a release build: `cargo nextest run --release --profile all slow::segments`.
#[test]
fn five_thousand_servers_at_half_a_second_are_polled_and_told() {
    let rate = Stage::new().measure(&Plan {
        version: Version::V28,
        servers: 5_000,
        inter: Duration::from_millis(500),
    });
    println!("{:.1} % of the nominal rate", rate * 100.0);
    assert!(rate >= 0.97 || cfg!(debug_assertions), "{rate}");
}

/// What a few seconds showed.
#[derive(Debug)]
struct Window {
    /// For each poll.
    segments: f64,
    /// Polls a second.
    rate: f64,
}

/// The service, on a machine of its own.
struct Stage {
    net: Net,
    space: Space,
    tidegate: Tidegate,
    _state: StateFolder,
}

impl Stage {
    fn new() -> Self {
        let net = Net::new();
        let space = net.add("service", &[SERVICE]);
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let place = Place {
            launcher: space.launcher(),
            slot: "a".to_owned(),
            agent: (SERVICE, AGENT_PORT).into(),
            http: (SERVICE, HTTP_PORT).into(),
            membership: vec!["--standalone".to_owned()],
        };
        let mut tidegate = Tidegate::prepare(place, &["--kv", &state.kv()], &[]);
        tidegate.start_again();
        Self {
            net,
            space,
            tidegate,
            _state: state,
        }
    }

    /// Gives the part of the nominal rate at which polls came.
    fn measure(&self, plan: &Plan) -> f64 {
        let node = match plan.version {
            Version::V26 => ("node-26", Ipv4Addr::new(10, 77, 2, 26)),
            Version::V28 => ("node-28", Ipv4Addr::new(10, 77, 2, 28)),
        };
        let node = self.net.add(node.0, &[node.1]);
        let haproxy = Haproxy::start_in(&node, plan.version, &config(plan));
        eventually("every server was told", PATIENCE, || {
            let rows = haproxy.show_stat();
            let drained = rows.iter().filter(|row| row.status().starts_with("DRAIN"));
            let drained = drained.count();
            check(drained == plan.servers as usize, || drained.to_string())
        });
        let windows: Vec<_> = (0..WINDOWS).map(|_| self.window()).collect();
        println!("{:?}: {windows:.3?}", plan.version);
        // The two counters are not read at one moment, and whoever is kept from running for 40 ms
        // acknowledges by a segment of its own: the machine's part. One more for each poll is 6.
        let mut segments: Vec<_> = windows.iter().map(|it| it.segments).collect();
        segments.sort_by(f64::total_cmp);
        let median = segments[WINDOWS / 2];
        assert!((4.8..5.2).contains(&median), "{median}");
        assert_eq!([&self.space, &node].map(time_waits), [0, 0]);
        let most = windows.iter().map(|it| it.rate).fold(0.0, f64::max);
        most * plan.inter.as_secs_f64() / f64::from(plan.servers)
    }

    fn window(&self) -> Window {
        let (begun, polls, before) = (Instant::now(), self.polls(), segments(&self.space));
        // Nobody looks meanwhile: reading a counter takes some ten segments as well.
        let_pass(MEASURED);
        let (took, all) = (begun.elapsed(), segments(&self.space) - before);
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        let polls = (self.polls() - polls) as f64;
        Window {
            segments: all / polls,
            rate: polls / took.as_secs_f64(),
        }
    }

    fn polls(&self) -> u64 {
        self.tidegate.count(ANSWERED)
    }
}

fn config(plan: &Plan) -> String {
    let agent = (SERVICE, AGENT_PORT).into();
    let server = |number| {
        let name = format!("s{number}");
        let request = format!("web/{name} canary node=lb-1 base=100");
        let server = AgentServer {
            name: &name,
            address: (Ipv4Addr::LOCALHOST, 9).into(),
            agent,
            request: &request,
            inter: plan.inter,
            more: "",
        };
        format!("{server}\n")
    };
    let servers: String = (0..plan.servers).map(server).collect();
    format!("{DEFAULTS}\nbackend web\n{servers}")
}

/// TCP segments that a machine has received and sent.
fn segments(space: &Space) -> f64 {
    let text = read(space, "/proc/net/snmp");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next(), lines.next());
    let names = names.unwrap_or_default().split(' ');
    let values = values.unwrap_or_default().split(' ');
    let wanted = names
        .zip(values)
        .filter(|(name, _)| ["InSegs", "OutSegs"].contains(name));
    wanted
        .map(|(_, value)| value.parse::<f64>().expect("it is a number"))
        .sum()
}

/// Connections of the agent's port that a machine keeps in `TIME_WAIT`.
fn time_waits(space: &Space) -> usize {
    let port = format!(":{AGENT_PORT:04X}");
    let text = read(space, "/proc/net/tcp");
    let of_agent = text.lines().filter(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let ends = [fields.next(), fields.next()];
        let ours = ends.iter().flatten().any(|end| end.ends_with(&port));
        ours && fields.next() == Some(TIME_WAIT)
    });
    of_agent.count()
}

/// A file of /proc, as it is on that machine.
fn read(space: &Space, path: &str) -> String {
    let output = run("cat", space.command("cat").arg(path), PATIENCE);
    assert_eq!(output.code, Some(0), "{path}: {}", output.stderr);
    output.stdout
}
