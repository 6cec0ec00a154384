//! What lint asks beside the files: a running HAProxy, and a replica.

use std::path::Path;

use crate::harness::folder::Folder;
use crate::harness::haproxy::{DEFAULTS, Haproxy, Version};
use crate::harness::process::Output;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

use super::NODE;

/// A node whose two servers poll.
struct Scene {
    tidegate: Tidegate,
    haproxy: Haproxy,
    config: String,
    folder: Folder,
    _state: StateFolder,
}

impl Scene {
    fn start(version: Version) -> Self {
        let state = StateFolder::new();
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        let agent = tidegate.agent();
        let server = |name: &str| {
            format!(
                " server {name} 127.0.0.1:8001 weight 100 check agent-check agent-addr {} \
                 agent-port {} agent-inter 300ms \
                 agent-send \"web/{name} node=${{HAPROXY_LOCALPEER}} base=100\\n\"\n",
                agent.ip(),
                agent.port()
            )
        };
        let config = format!(
            "global\n spread-checks 10\n max-spread-checks 50ms\n{DEFAULTS} option log-health-checks\n\
             backend web\n{}{}",
            server("a"),
            server("b")
        );
        let haproxy = Haproxy::start_node(version, NODE, &[], &config);
        Self {
            tidegate,
            haproxy,
            config,
            folder: Folder::new("lint-beside"),
            _state: state,
        }
    }

    /// Judges `config` beside what runs.
    fn lint(&self, config: &str) -> Output {
        let path = self.folder.write("haproxy.cfg", config);
        let running = format!("unix:{}", self.haproxy.socket().display());
        let replica = format!("http://{}", self.tidegate.http());
        let path = path.display().to_string();
        let beside = ["--running", &running, "--replica", &replica, "--node", NODE];
        let mut arguments = vec!["lint", "--strict", &path];
        arguments.extend(beside);
        tidegate(&arguments, &[])
    }

    fn expect(&self, config: &str, findings: &[&str]) {
        let output = self.lint(config);
        for finding in findings {
            assert!(
                output.stdout.contains(finding),
                "no {finding:?}: {output:?}"
            );
        }
        assert_eq!(
            output.stdout.matches("  why:").count(),
            findings.len(),
            "{output:?}"
        );
        assert_eq!(output.code, Some(10), "{output:?}");
    }
}

fn check_node(version: Version) {
    let scene = Scene::start(version);
    eventually("both servers poll", PATIENCE, || {
        let output = scene.lint(&scene.config);
        check(output.code == Some(0), || format!("{output:?}"))
    });
    let added = scene
        .config
        .replace("backend web\n", "backend web\n server c 127.0.0.1:1\n");
    scene.expect(&added, &["HAProxy has no web/c [running-missing]"]);
    let renamed = scene
        .config
        .replace("web/b", "web/c")
        .replace("server b", "server c");
    scene.expect(
        &renamed,
        &[
            "HAProxy has web/b, and the files do not [running-missing]",
            "web/c does not poll [not-polling]",
            "HAProxy has no web/c [running-missing]",
        ],
    );
    let heavier = scene
        .config
        .replace("weight 100", "weight 200")
        .replace("base=100", "base=200");
    scene.expect(
        &heavier,
        &[
            "web/a has weight 100 there",
            "web/b has weight 100 there [running-weight]",
        ],
    );
    scene.haproxy.stats("set server web/a agent-addr 127.0.0.9");
    scene.haproxy.stats("disable agent web/b");
    scene.expect(
        &scene.config,
        &[
            "web/a asks 127.0.0.9 port",
            "the agent check of web/b is switched off [running-agent-disabled]",
        ],
    );
}

#[test]
fn what_haproxy_2_6_runs_with_is_compared_with_the_files() {
    check_node(Version::V26);
}

#[test]
fn what_haproxy_2_8_runs_with_is_compared_with_the_files() {
    check_node(Version::V28);
}

#[test]
fn who_cannot_be_asked_is_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/nodes/backends.cfg");
    let path = path.display().to_string();
    let output = tidegate(
        &["lint", &path, "--running", "unix:/nowhere/haproxy.sock"],
        &[],
    );
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("/nowhere/haproxy.sock"),
        "{output:?}"
    );
    let output = tidegate(
        &[
            "lint",
            &path,
            "--replica",
            "http://127.0.0.1:1",
            "--node",
            NODE,
        ],
        &[],
    );
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("http://127.0.0.1:1"), "{output:?}");
}
