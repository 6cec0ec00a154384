//! A server that dies and comes back behind `deploy/haproxy/api-vip.cfg`: it passes its health check
//! long before it can serve. All times are a tenth of the file's.

use std::fmt;
use std::time::Duration;

use crate::follows::commands::Place;
use crate::harness::backend::Backend;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::http;
use crate::harness::load::{Counts, Load};
use crate::harness::ports::Port;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};
use crate::routing::deployed;

const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than any of the settings takes to see a death.
const DEAD: Duration = Duration::from_secs(5);
/// From the first good health check to the first good answer.
const WARM: Duration = Duration::from_secs(4);
/// Under load afterwards: the ramp of `slowstart` is over then.
const AFTER: Duration = Duration::from_secs(3);
const SERVER: &str = "api/api-1";

/// How the server is watched and held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// HAProxy's own defaults for rise, fall, weight, and no other knob.
    Before,
    /// The file's knobs.
    Tuned,
    /// Drained before it dies, ready as soon as its health check passes.
    UntilHealthy,
    /// The same, ready when two requests to the server itself were answered.
    UntilVerified,
}

/// Requests that were not answered well.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    dying: u64,
    joining: u64,
    of: u64,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dying, joining, of } = self;
        write!(
            f,
            "{dying} while it dies, {joining} after it is back, of {of} requests"
        )
    }
}

/// The file at a tenth of its times, for lines that are about checks.
fn config(held: Held) -> String {
    let tenth = |word: &str| {
        let seconds: Option<u32> = word.strip_suffix('s').and_then(|n| n.parse().ok());
        seconds.map_or_else(|| word.to_owned(), |seconds| format!("{}ms", seconds * 100))
    };
    let knobs = ["fastinter 2s", "rise 3", "fall 2", "weight 256"];
    let line = |line: &str| {
        let mut line = line.to_owned();
        if held == Held::Before && line.contains("default-server") {
            assert!(
                !line.contains("agent-check") || !line.contains("rise"),
                "{line}"
            );
            for knob in knobs {
                line = line.replace(knob, "");
            }
            line = line.replace(
                "slowstart 60s on-marked-down shutdown-sessions",
                "weight 100",
            );
        }
        if line.contains("default-server") {
            let words: Vec<_> = line.split_whitespace().map(tenth).collect();
            line = words.join(" ");
        }
        line
    };
    let text = deployed("api-vip.cfg");
    for knob in knobs {
        assert!(text.contains(knob), "the file has no {knob}");
    }
    let lines: Vec<_> = text.lines().map(line).collect();
    lines.join("\n")
}

struct Scene {
    held: Held,
    place: Place,
    server: Backend,
    node: Haproxy,
    front: Port,
    _others: [Backend; 2],
    _tidegate: Tidegate,
    _folder: Folder,
}

impl Scene {
    fn start(version: Version, held: Held) -> Self {
        let place = Place::folder();
        place.done(&["init"]);
        let tidegate = place.serve();
        let folder = Folder::new("vip");
        let server = Backend::start("api-1");
        let others = ["api-2", "api-3"].map(Backend::start);
        let front = Port::reserve(server.address().ip());
        let socket = folder.join("admin.sock").display().to_string();
        let agent = tidegate.agent();
        let environment = [
            ("ADMIN_SOCKET", socket),
            ("VIRTUAL_IP", format!("127.0.0.1:{}", front.number())),
            ("TIDEGATE", agent.ip().to_string()),
            ("TIDEGATE_PORT", agent.port().to_string()),
            ("API_1", server.address().to_string()),
            ("API_2", others[0].address().to_string()),
            ("API_3", others[1].address().to_string()),
        ];
        let environment = environment
            .each_ref()
            .map(|(name, value)| (*name, &value[..]));
        let node = Haproxy::start_node(version, "lb-01", &environment, &config(held));
        let scene = Self {
            held,
            place,
            server,
            node,
            front,
            _others: others,
            _tidegate: tidegate,
            _folder: folder,
        };
        scene.await_status("UP");
        scene
    }

    fn await_status(&self, status: &str) {
        self.node
            .await_server("api", "api-1", (status, None), PATIENCE);
    }

    fn is_held(&self) -> bool {
        match self.held {
            Held::Before | Held::Tuned => false,
            Held::UntilHealthy | Held::UntilVerified => true,
        }
    }

    fn load(&self) -> Load {
        let address = (self.server.address().ip(), self.front.number());
        Load::start(address.into(), CLIENTS, PAUSE)
    }

    /// The server reboots.
    fn dies(&self) -> Counts {
        let load = self.load();
        if self.is_held() {
            self.place
                .done(&["set", "drain", SERVER, "--reason", "reboot"]);
            self.await_status("DRAIN");
            eventually("nothing runs on it", PATIENCE, || {
                let sessions = self.node.server("api", "api-1").number("scur");
                check(sessions == 0, || sessions.to_string())
            });
        }
        self.server.set_serving(false);
        self.server.set_healthy(false);
        let_pass(DEAD);
        load.stop()
    }

    /// It is healthy at once, and serves after [`WARM`].
    fn comes_back(&self) -> Counts {
        let load = self.load();
        self.server.set_healthy(true);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let_pass(WARM);
                self.server.set_serving(true);
            });
            self.is_let_in();
        });
        self.await_status("UP");
        let_pass(AFTER);
        load.stop()
    }

    fn is_let_in(&self) {
        match self.held {
            Held::Before | Held::Tuned => return,
            Held::UntilHealthy => eventually("its health check passes", PATIENCE, || {
                let row = self.node.server("api", "api-1");
                let (passed, agent) = (row.field("check_status"), row.status());
                check(passed == "L7OK" && agent.starts_with("DRAIN"), || {
                    format!("{passed}, {agent}")
                })
            }),
            Held::UntilVerified => eventually("two probes in a row pass", PATIENCE, || {
                for _ in 0..2 {
                    let answer = http::get(self.server.address(), "/api/v4/version");
                    let status = answer.map_err(|error| error.to_string())?.status;
                    check(status == 200, || status.to_string())?;
                }
                Ok(())
            }),
        }
        self.place.done(&["clear", SERVER]);
    }
}

fn measure(version: Version, held: Held) -> Failed {
    let scene = Scene::start(version, held);
    let dying = scene.dies();
    let before = scene.server.requests();
    let joining = scene.comes_back();
    assert!(
        joining.of("api-1") > 0,
        "{held:?}: it never came back: {joining:?}"
    );
    assert!(scene.server.requests() > before);
    let failed = Failed {
        dying: dying.failures,
        joining: joining.failures,
        of: dying.total() + joining.total(),
    };
    println!("{version:?} {held:?}: {failed}");
    failed
}

fn compare(version: Version) {
    let before = measure(version, Held::Before);
    let tuned = measure(version, Held::Tuned);
    let healthy = measure(version, Held::UntilHealthy);
    let verified = measure(version, Held::UntilVerified);
    assert!(tuned.dying < before.dying, "{tuned} against {before}");
    assert!(tuned.joining < before.joining, "{tuned} against {before}");
    // What the verification is for: without it a drained server fails requests too.
    assert!(healthy.dying == 0 && healthy.joining > 0, "{healthy}");
    assert_eq!((verified.dying, verified.joining), (0, 0), "{verified}");
}

#[test]
fn a_server_held_until_it_was_seen_to_serve_fails_no_request_on_haproxy_2_6() {
    compare(Version::V26);
}

#[test]
fn a_server_held_until_it_was_seen_to_serve_fails_no_request_on_haproxy_2_8() {
    compare(Version::V28);
}
