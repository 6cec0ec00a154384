//! A reload, a restart and a new node while the canary is drained: how many requests reach it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::follows::MARGIN;
use crate::harness::backend::Backend;
use crate::harness::consul::loopback;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::load::Load;
use crate::harness::ports::Port;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, throughout};

const INTER: Duration = Duration::from_secs(2);
/// Rows of one node; the canary is the last, so that its first poll comes last.
const ROWS: usize = 32;
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(10);
/// What may come within 50 ms and a moment for the answers: some 190 requests a second would be the
/// canary's.
const HANDFUL: u64 = 40;

/// What keeps requests from a drained canary while its new process has not polled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Disabled,
    ShortSpread,
    None,
}

struct Scene {
    tidegate: Tidegate,
    /// Read by the service.
    _state: StateFolder,
    stable: Backend,
    canary: Backend,
}

impl Scene {
    fn start() -> Self {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        Self {
            tidegate,
            _state: state,
            stable: Backend::start("stable"),
            canary: Backend::start("canary"),
        }
    }

    fn config(&self, guard: Guard, front: SocketAddr) -> String {
        let global = match guard {
            Guard::ShortSpread => "global\n    max-spread-checks 50ms\n",
            Guard::Disabled | Guard::None => "",
        };
        let mut text = format!("{global}{DEFAULTS}\nbackend others\n");
        for i in 0..ROWS - 2 {
            self.row(&mut text, &format!("others/s{i}"), "", &self.stable);
        }
        write!(
            text,
            "\nlisten web\n    bind {front}\n    balance roundrobin\n"
        )
        .expect("a string takes every byte");
        self.row(&mut text, "web/stable", "", &self.stable);
        let more = if guard == Guard::Disabled {
            "disabled"
        } else {
            ""
        };
        self.row(&mut text, "web/canary canary", more, &self.canary);
        text
    }

    fn row(&self, text: &mut String, request: &str, more: &str, target: &Backend) {
        let id = request.split(' ').next().unwrap_or_default();
        let server = AgentServer {
            name: id.split('/').nth(1).unwrap_or_default(),
            address: target.address(),
            agent: self.tidegate.agent(),
            request,
            inter: INTER,
            more,
        };
        writeln!(text, "{server}").expect("a string takes every byte");
    }

    /// Requests that reach the canary from the event until one interval after it is drained, of
    /// how many in all, and how long it took to be drained.
    fn measure(&self, front: SocketAddr, event: impl FnOnce() -> Haproxy) -> (Haproxy, Measured) {
        let before = self.canary.requests();
        let load = Load::start(front, CLIENTS, PAUSE);
        let haproxy = event();
        let answers = Instant::now();
        haproxy.await_server("web", "canary", ("DRAIN", None), INTER + MARGIN);
        let drained = answers.elapsed();
        let reached = self.canary.requests();
        throughout("drained for good", INTER, || {
            check(self.canary.requests() <= reached + CLIENTS as u64, || {
                "requests go on".to_owned()
            })
        });
        let requests = load.stop().total();
        let on_canary = self.canary.requests() - before;
        (
            haproxy,
            Measured {
                on_canary,
                requests,
                drained,
            },
        )
    }
}

#[derive(Debug)]
struct Measured {
    on_canary: u64,
    requests: u64,
    drained: Duration,
}

fn check_guard(scene: &Scene, version: Version, guard: Guard) {
    let fronts = [Port::reserve(loopback(1)), Port::reserve(loopback(1))];
    let [front, new_front] = fronts
        .each_ref()
        .map(|p| SocketAddr::new(loopback(1), p.number()));
    let mut haproxy = Haproxy::start(version, &scene.config(guard, front));
    haproxy.await_server("web", "canary", ("DRAIN", None), INTER + MARGIN);
    let mut figures = Vec::new();
    for event in ["reload", "restart", "new node"] {
        let (now, measured) = match event {
            "new node" => scene.measure(new_front, || {
                Haproxy::start_node(version, "lb-02", &[], &scene.config(guard, new_front))
            }),
            _ => scene.measure(front, move || {
                match event {
                    "reload" => haproxy.reload(),
                    _ => haproxy.restart(),
                }
                haproxy
            }),
        };
        haproxy = now;
        eprintln!(
            "{version:?} {guard:?} {event}: {} of {} requests reached the drained canary, drained {:.2} s after the new process answers",
            measured.on_canary,
            measured.requests,
            measured.drained.as_secs_f64()
        );
        figures.push((event, measured));
    }
    for (event, measured) in figures {
        let allowed = match guard {
            Guard::Disabled => 0..=0,
            Guard::ShortSpread => 0..=HANDFUL,
            // The same load, so that the zeros above count something.
            Guard::None => HANDFUL + 1..=u64::MAX,
        };
        assert!(
            allowed.contains(&measured.on_canary),
            "{version:?} {guard:?} {event}: {measured:?}"
        );
    }
}

#[test]
fn a_drained_canary_is_drained_within_one_agent_inter_of_a_reload_a_restart_and_on_a_new_node() {
    let scene = Scene::start();
    for version in Version::ALL {
        for guard in [Guard::Disabled, Guard::ShortSpread, Guard::None] {
            check_guard(&scene, version, guard);
        }
    }
}
