//! A node is enrolled and taken back under load, with the files that `tidegate render` makes.

use std::time::Duration;

use crate::harness::backend::Backend;
use crate::harness::consul::loopback;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{DEFAULTS, Haproxy, Version};
use crate::harness::load::Load;
use crate::harness::ports::Port;
use crate::harness::process::Output;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually, let_pass};

const SETTINGS: &str = r#"{"rows":[{"server":"web/gke-b"},{"server":"web/gke-c","backup":"always"},
    {"server":"web/gke-cny-web","groups":["canary"]},
    {"server":"canary_web/gke-cny-web","groups":["canary"]}]}"#;
/// How long the load goes on with nothing changed, in each mode.
const WHILE: Duration = Duration::from_secs(1);
const ROWS: [(&str, &str); 4] = [
    ("web", "gke-b"),
    ("web", "gke-c"),
    ("web", "gke-cny-web"),
    ("canary_web", "gke-cny-web"),
];

struct Scene {
    state: StateFolder,
    tidegate: Tidegate,
    haproxy: Haproxy,
    folder: Folder,
}

impl Scene {
    /// What becomes of a file.
    fn render(&self, text: &str, mode: &str) -> String {
        let agent = self.tidegate.agent().to_string();
        let file = self.folder.write("haproxy.cfg", text).display().to_string();
        let settings = self.state.file("settings").display().to_string();
        let inter = [
            "--inter",
            "300ms",
            "--agent",
            &agent,
            "--settings",
            &settings,
        ];
        let output = tidegate(
            &[&["render", &file, "--mode", mode], &inter[..]].concat(),
            &[],
        );
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (Some(0), ""),
            "{output:?}"
        );
        output.stdout
    }

    fn reload(&mut self, text: &str) {
        self.haproxy.configure(text);
        self.haproxy.reload();
    }

    fn compare(&self) -> Output {
        let (kv, url) = (self.state.kv(), format!("http://{}", self.tidegate.http()));
        let stats = format!("--stats=lb-01=unix:{}", self.haproxy.socket().display());
        let look = ["--env", "gprd", "--kv", &kv, "--replica", &url, &stats];
        tidegate(&[&["compare"], &look[..]].concat(), &[])
    }

    fn await_compared(&self, code: i32, text: &str) {
        eventually(text, PATIENCE, || {
            let output = self.compare();
            let fits = output.code == Some(code) && output.stdout.contains(text);
            check(fits, || format!("{output:?}"))
        });
    }

    /// Every row's agent was told a line that begins so.
    fn await_told(&self, begin: &str) {
        for (backend, server) in ROWS {
            eventually("each row was told", PATIENCE, || {
                let row = self.haproxy.server(backend, server);
                check(row.last_agt().contains(begin), || row.last_agt().to_owned())
            });
        }
    }

    fn await_canary(&self, status: &str) {
        for backend in ["web", "canary_web"] {
            self.haproxy
                .await_server(backend, "gke-cny-web", (status, Some(100)), PATIENCE);
        }
    }
}

fn file(front: u16, backends: &[Backend; 3]) -> String {
    let [b, c, canary] = backends.each_ref().map(Backend::address);
    format!(
        "{DEFAULTS}    option log-health-checks\n    default-server check inter 1s\n\n\
         frontend in # half of it by the canary's own backend\n    bind 127.0.0.1:{front}\n    \
         use_backend canary_web if {{ rand(2) eq 1 }} {{ nbsrv(canary_web) gt 0 }}\n    \
         default_backend web\n\n\
         backend web\n    option httpchk GET /health\n    server gke-b {b} weight 100   # this zone's\n    \
         server gke-c {c} backup weight 100\n    server gke-cny-web {canary} weight 100\n\n\
         backend canary_web\n    option httpchk GET /health\n    server gke-cny-web {canary} weight 100\n"
    )
}

fn check_version(version: Version) {
    let state = StateFolder::new();
    state.put("settings", SETTINGS);
    state.put("canary-state", "ready");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let backends = ["b", "c", "canary"].map(Backend::start);
    let port = Port::reserve(loopback(1));
    let original = file(port.number(), &backends);
    let haproxy = Haproxy::start(version, &original);
    let folder = Folder::new("enrolment");
    let mut scene = Scene {
        state,
        tidegate,
        haproxy,
        folder,
    };
    let load = Load::start(
        (loopback(1), port.number()).into(),
        4,
        Duration::from_millis(2),
    );
    let_pass(WHILE);

    let shadow = scene.render(&original, "shadow");
    scene.reload(&shadow);
    scene.await_told("shadow-ready-100");
    scene.await_compared(
        0,
        "lb-01: ready to switch: 4 rows in shadow, 0 follow, 0 outside",
    );
    scene.state.put("canary-state", "drain");
    scene.await_compared(10, "differs: it would go from UP to drain");
    scene.await_canary("UP");
    scene.state.put("canary-state", "ready");
    scene.await_compared(0, "lb-01: ready to switch");
    let_pass(WHILE);

    let on = scene.render(&shadow, "on");
    scene.reload(&on);
    scene.await_told("up");
    scene.await_canary("UP");
    scene.await_compared(
        10,
        "lb-01: follows already: 0 rows in shadow, 4 follow, 0 outside",
    );
    scene.state.put("canary-state", "drain");
    scene.await_canary("DRAIN");
    let_pass(WHILE);
    scene.state.put("canary-state", "ready");
    scene.await_canary("UP");

    let off = scene.render(&on, "off");
    assert_eq!(off, original);
    scene.reload(&off);
    let_pass(WHILE);
    assert_eq!(scene.haproxy.server("web", "gke-b").last_agt(), "");
    let counts = load.stop();
    println!("{version:?}: off, shadow, on, off: {counts:?}");
    assert_eq!(counts.failures, 0, "{counts:?}");
    assert!(
        counts.total() > 500 && counts.of("canary") > 100,
        "{counts:?}"
    );
}

#[test]
fn haproxy_2_6_goes_through_all_modes_and_back_without_a_failed_request() {
    check_version(Version::V26);
}

#[test]
fn haproxy_2_8_goes_through_all_modes_and_back_without_a_failed_request() {
    check_version(Version::V28);
}
