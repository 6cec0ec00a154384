//! The harness keeps its promises: what it starts is real, ready, and gone at the end.

mod fleet;
mod haproxy;
mod netns;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::consul::{Consul, ROOT_TOKEN};
use crate::harness::folder::Folder;
use crate::harness::ports::Port;
use crate::harness::process::{Process, run};
use crate::harness::state_folder::StateFolder;
use crate::harness::tools;
use crate::harness::wait::{check, eventually};

/// Long beside what is awaited here, even on a loaded machine.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_missing_program_is_an_error_that_names_scripts_setup() {
    let folder = Folder::new("no-tools");
    let message = tools::find(folder.path(), "consul").unwrap_err();
    assert!(message.contains("run scripts/setup"), "{message}");
    assert!(message.contains("bin/consul"), "{message}");
}

#[test]
fn a_port_is_reserved_once_and_free_again_afterwards() {
    let address = crate::harness::consul::loopback(1);
    let ports: Vec<_> = (0..20).map(|_| Port::reserve(address)).collect();
    let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ports.len());

    let first = ports[0].number();
    drop(ports);
    let again: Vec<_> = (0..20).map(|_| Port::reserve(address)).collect();
    assert!(
        again.iter().any(|port| port.number() == first),
        "{first} was not given back"
    );
}

#[test]
fn a_child_is_gone_after_drop_even_when_it_is_paused() {
    let folder = Folder::new("children");
    let mut command = Command::new("sleep");
    command.arg("600");
    let mut child = Process::start("sleeper", folder.path(), &command);
    let id = child.id();
    assert!(is_alive(id));
    child.pause();
    drop(child);
    assert!(!is_alive(id));
}

#[test]
fn a_child_that_ignores_sigterm_is_killed() {
    let folder = Folder::new("children");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"]);
    let mut child = Process::start("deaf", folder.path(), &command);
    child.await_log("deaf", Duration::from_secs(5));
    let status = child.stop_within(Duration::from_millis(200));
    assert_eq!(status.signal(), Some(9));
    assert!(!is_alive(child.id()));
}

/// The test runs itself once more as the parent that it kills.
#[test]
fn a_child_dies_with_the_process_that_started_it() {
    const FOLDER: &str = "TIDEGATE_TEST_ORPHAN_FOLDER";
    let own = "harness_holds::a_child_dies_with_the_process_that_started_it";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("600");
        let child = Process::start("sleeper", Path::new(&folder), &sleeper);
        std::fs::write(Path::new(&folder).join("id"), format!("{}\n", child.id())).unwrap();
        std::thread::park();
    }
    // Killed once the child is itself, and as early as can be: while its launchers still run.
    for is_settled in [true, false] {
        let folder = Folder::new("orphan");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", own, "--nocapture"])
            .env(FOLDER, folder.path());
        let mut parent = Process::start("parent", folder.path(), &command);
        let id: u32 = eventually("the parent starts its child", SOON, || {
            let text = std::fs::read_to_string(folder.join("id")).map_err(|e| e.to_string())?;
            text.strip_suffix('\n')
                .and_then(|id| id.parse().ok())
                .ok_or(text)
        });
        if is_settled {
            eventually("the child is itself", SOON, || {
                let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
                check(name == "sleep\n", || name)
            });
        }
        parent.kill();
        eventually("the child is gone", SOON, || {
            check(!is_alive(id), || format!("{id} lives"))
        });
    }
}

#[test]
fn a_command_that_ran_gives_its_exit_code_and_both_outputs() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo out; echo err >&2; exit 3"]);
    let output = run("sh", &command, Duration::from_secs(5));
    assert_eq!(output.code, Some(3));
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out\n", "err\n")
    );
}

#[test]
fn a_dev_consul_keeps_keys_and_gives_them_back() {
    let consul = Consul::dev();
    assert_eq!(consul.kv_get("a/none"), None);
    consul.kv_put("a/one", "1");
    consul.kv_put("a/one with space", [0xff, 0]);
    assert_eq!(consul.kv_get("a/one").as_deref(), Some(&b"1"[..]));
    assert_eq!(consul.kv_keys("a/"), ["a/one", "a/one with space"]);
    assert_eq!(consul.cli(&["kv", "get", "a/one"]).stdout, "1\n");

    let snapshot = consul.snapshot_save();
    consul.kv_delete("a/one");
    assert_eq!(consul.kv_keys("a/"), ["a/one with space"]);
    consul.kv_delete_recurse("a");
    assert!(consul.kv_keys("").is_empty());
    consul.snapshot_restore(&snapshot);
    assert_eq!(consul.kv_get("a/one").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_single_consul_comes_back_with_its_data_on_the_same_address() {
    let mut consul = Consul::single();
    let http = consul.http();
    consul.kv_put("a/one", "1");
    consul.kill();
    assert!(crate::harness::http::get(http, "/v1/status/leader").is_err());
    consul.start();
    assert_eq!(consul.http(), http);
    assert_eq!(consul.kv_get("a/one").as_deref(), Some(&b"1"[..]));
    consul.stop();
}

#[test]
fn a_consul_with_acls_lets_each_token_do_what_its_policy_says() {
    let consul = Consul::dev_with_acl();
    assert_eq!(consul.token(), Some(ROOT_TOKEN));
    consul.kv_put("a/one", "1");
    consul.policy("reader", r#"key_prefix "a/" { policy = "list" }"#);
    let token = consul.token_for(&["reader"]);
    let status = |token: Option<&str>, method: &str, path: &str| {
        consul.call_as(token, method, path, b"2").status
    };
    assert_eq!(status(Some(&token), "GET", "/v1/kv/a/?recurse"), 200);
    assert_eq!(status(Some(&token), "PUT", "/v1/kv/a/one"), 403);
    assert_eq!(status(None, "GET", "/v1/kv/a/?recurse"), 403);

    consul.policy("reader", r#"key_prefix "b/" { policy = "list" }"#);
    assert_eq!(status(Some(&token), "GET", "/v1/kv/a/?recurse"), 403);
    consul.delete_token(&token);
    assert_eq!(status(Some(&token), "GET", "/v1/kv/b/?recurse"), 403);

    let filtering = Consul::dev_with_filtering_acl();
    filtering.kv_put("a/one", "1");
    assert_eq!(
        filtering
            .call_as(None, "GET", "/v1/kv/a/?recurse", b"")
            .status,
        404
    );
}

#[test]
fn a_consul_with_tls_wants_a_certificate_from_its_clients() {
    let consul = Consul::dev_with_tls();
    consul.kv_put("a/one", "1");
    let tls = consul.tls();
    let url = format!("https://{}/v1/kv/a/one?raw", tls.https);
    let mut with_certificate = Command::new("curl");
    with_certificate
        .args(["-sS", "--cacert"])
        .arg(&tls.ca)
        .arg("--cert")
        .arg(&tls.client_cert);
    with_certificate.arg("--key").arg(&tls.client_key).arg(&url);
    let output = run("curl", &with_certificate, Duration::from_secs(10));
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), "1"),
        "{}",
        output.stderr
    );

    let mut without = Command::new("curl");
    without.args(["-sS", "--cacert"]).arg(&tls.ca).arg(&url);
    let output = run("curl", &without, Duration::from_secs(10));
    assert_ne!(output.code, Some(0), "{}", output.stdout);
}

#[test]
fn a_state_folder_holds_each_key_as_a_whole_file() {
    let state = StateFolder::new();
    state.put("server-overrides/web/a", "drain");
    state.put("server-overrides/web/a", "maint");
    assert_eq!(
        std::fs::read(state.file("server-overrides/web/a")).unwrap(),
        b"maint"
    );
    assert!(
        state
            .file("server-overrides/web/a")
            .ends_with("frontend/gprd/server-overrides/web/a")
    );
    let files = std::fs::read_dir(state.file("server-overrides/web")).unwrap();
    assert_eq!(files.count(), 1, "nothing unfinished stays");
    state.remove("server-overrides/web/a");
    state.remove_all("server-overrides");
    assert_eq!(
        std::fs::read_dir(state.file("")).unwrap().count(),
        1,
        "the sentinel"
    );
}

fn is_alive(id: u32) -> bool {
    // One that is dead and not yet waited for still has its folder in /proc.
    std::fs::read_to_string(format!("/proc/{id}/status"))
        .is_ok_and(|text| !text.contains("State:\tZ") && !text.contains("State:\tX"))
}
