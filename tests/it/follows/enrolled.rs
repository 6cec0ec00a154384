//! One node through the steps of docs/migration.md and back, under load.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::backend::Backend;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{DEFAULTS, Haproxy, Version};
use crate::harness::load::Load;
use crate::harness::ports::Port;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(2);

/// How far the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Off,
    /// With the state file that the step before has left.
    Shadow,
    On,
    /// Without a state file, and without `disabled`.
    ShadowAgain,
}

struct Scene {
    agent: SocketAddr,
    front: SocketAddr,
    states: String,
    main: Backend,
    canary: Backend,
}

impl Scene {
    fn config(&self, step: Step) -> String {
        let Self {
            agent,
            states,
            front,
            ..
        } = self;
        let file = match step {
            Step::Off | Step::Shadow => (
                format!("server-state-file {states}"),
                "load-server-state-from-file global",
            ),
            Step::On | Step::ShadowAgain => (String::new(), ""),
        };
        let words = |row: &str| {
            let mode = match step {
                Step::Off => return String::new(),
                Step::Shadow | Step::ShadowAgain => " mode=shadow",
                Step::On => "",
            };
            let (ip, port) = (agent.ip(), agent.port());
            format!(
                "agent-check agent-addr {ip} agent-port {port} agent-inter 500ms \
                 agent-send \"{row} node=${{HAPROXY_LOCALPEER}} base=100{mode}\\n\""
            )
        };
        let (main, canary) = (words("web/main"), words("web/gke-cny-web canary"));
        let disabled = if step == Step::On { "disabled" } else { "" };
        let (to_main, to_canary) = (self.main.address(), self.canary.address());
        format!(
            "global\n {}\n max-spread-checks 50ms\n spread-checks 10\n{DEFAULTS}\n {}\n\
             listen web\n bind {front}\n balance roundrobin\n\
             server main {to_main} weight 100 check inter 500ms {main}\n\
             server gke-cny-web {to_canary} weight 100 check inter 500ms {canary} {disabled}\n",
            file.0, file.1
        )
    }

    fn go(&self, node: &mut Haproxy, step: Step) {
        node.configure(&self.config(step));
        node.reload();
    }
}

fn await_word(node: &Haproxy, status: &str, word: &str) {
    eventually(
        &format!("the canary is {status}, told {word:?}"),
        PATIENCE,
        || {
            let row = node.server("web", "gke-cny-web");
            let fits = row.stands(status, None) && row.last_agt().contains(word);
            check(fits, || row.shown())
        },
    );
}

fn enrol(version: Version) {
    let (_state, tidegate) = Tidegate::start_drained();
    let folder = Folder::new("enrolled");
    let (main, canary) = (Backend::start("main"), Backend::start("canary"));
    let port = Port::reserve(main.address().ip());
    let scene = Scene {
        agent: tidegate.agent(),
        front: (main.address().ip(), port.number()).into(),
        states: folder.write("states", "").display().to_string(),
        main,
        canary,
    };
    let mut node = Haproxy::start(version, &scene.config(Step::Off));
    node.stats("set server web/gke-cny-web state drain");
    node.await_server("web", "gke-cny-web", ("DRAIN", None), PATIENCE);
    let load = Load::start(scene.front, CLIENTS, PAUSE);

    let states = node.stats("show servers state");
    fs::write(&scene.states, states).expect("the folder is ours");
    let before = scene.canary.requests();
    scene.go(&mut node, Step::Shadow);
    await_word(&node, "DRAIN", "shadow-drain");
    assert_eq!(
        scene.canary.requests(),
        before,
        "{version:?}: the state file was not read"
    );

    scene.go(&mut node, Step::On);
    await_word(&node, "DRAIN", "via agent : up");
    assert_eq!(
        scene.canary.requests(),
        before,
        "{version:?}: it came up in service"
    );

    // As configured, whatever the KV says; a command writes it by socket then.
    scene.go(&mut node, Step::ShadowAgain);
    await_word(&node, "UP", "shadow-drain");
    eventually("the canary serves", PATIENCE, || {
        check(scene.canary.requests() > before, || "nothing".to_owned())
    });
    node.stats("set server web/gke-cny-web state drain");
    fs::write(&scene.states, "").expect("the folder is ours");
    scene.go(&mut node, Step::Off);
    let row = node.await_server("web", "gke-cny-web", ("UP", Some(100)), PATIENCE);
    assert_eq!(row.last_agt(), "");
    let counts = load.stop();
    assert_eq!(counts.failures, 0, "{version:?}: {counts:?}");
}

#[test]
fn a_node_goes_through_shadow_to_on_and_back_under_load_without_a_failed_request_on_haproxy_2_6() {
    enrol(Version::V26);
}

#[test]
fn a_node_goes_through_shadow_to_on_and_back_under_load_without_a_failed_request_on_haproxy_2_8() {
    enrol(Version::V28);
}
