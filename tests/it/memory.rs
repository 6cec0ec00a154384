//! What is remembered over a restart, with a real Consul.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{PATIENCE, check, eventually};

const CANARY: &str = "web/cny canary";
const SENTINEL: &str = r#"{"schema":1,"epoch":1,"gen":5}"#;

struct Remembering {
    consul: Consul,
    tidegate: Tidegate,
    data: Folder,
}

impl Remembering {
    /// A service with a drained canary on a Consul that keeps its data.
    fn drained() -> Self {
        let consul = Consul::single();
        consul.kv_put("frontend/gprd/_meta", SENTINEL);
        consul.kv_put("frontend/gprd/canary-state", "drain");
        let data = Folder::new("data");
        let folder = data.path().display().to_string();
        let arguments = ["--kv", "consul", "--data-dir", &folder];
        let mut tidegate = Tidegate::launch(&arguments, &consul_environment(&consul));
        tidegate.await_ready();
        assert_eq!(tidegate.ask_line(CANARY), "up drain");
        Self {
            consul,
            tidegate,
            data,
        }
    }

    fn file(&self) -> PathBuf {
        self.data.join("memory")
    }
}

#[test]
fn a_restart_while_consul_is_gone_answers_the_same() {
    let mut at = Remembering::drained();
    at.consul.kill();
    at.tidegate.kill();
    at.tidegate.start_again();
    assert_eq!(at.tidegate.ask_line(CANARY), "up drain");
    at.tidegate
        .await_readyz(200, "agreed: the source is out of reach (", PATIENCE);
    at.tidegate
        .await_readyz(200, "the listing is from before the start", PATIENCE);
    at.consul.start();
    at.tidegate.await_readyz(200, "current: ", PATIENCE);
    at.consul.kv_put("frontend/gprd/canary-state", "ready");
    at.tidegate.await_answer(CANARY, "up ready 100%", PATIENCE);
}

#[test]
fn without_a_memory_a_restart_while_consul_is_gone_is_silent() {
    let mut at = Remembering::drained();
    at.consul.kill();
    at.tidegate.kill();
    fs::remove_file(at.file()).unwrap();
    at.tidegate.relaunch();
    at.tidegate
        .await_readyz(503, "starting: no listing yet: ", PATIENCE);
    assert_eq!(at.tidegate.ask_line(CANARY), "");
}

#[test]
fn a_history_that_went_back_while_nobody_looked_is_seen_after_the_restart() {
    let mut at = Remembering::drained();
    at.tidegate.kill();
    at.consul
        .kv_put("frontend/gprd/_meta", r#"{"schema":1,"epoch":1,"gen":4}"#);
    at.consul.kv_put("frontend/gprd/canary-state", "ready");
    at.tidegate.relaunch();
    let text = "held: the store's history went back (generation 1.4, it was 1.5)";
    at.tidegate.await_readyz(503, text, PATIENCE);
    assert_eq!(at.tidegate.ask_line(CANARY), "");
    // It stays so over the next restart, and a higher epoch ends it.
    at.tidegate.kill();
    at.tidegate.relaunch();
    at.tidegate
        .await_readyz(503, "held: the store's history went back", PATIENCE);
    at.consul
        .kv_put("frontend/gprd/_meta", r#"{"schema":1,"epoch":2,"gen":1}"#);
    at.tidegate.await_readyz(200, "current: ", PATIENCE);
    assert_eq!(at.tidegate.ask_line(CANARY), "up ready 100%");
}

#[test]
fn a_torn_memory_is_named_and_set_aside() {
    let mut at = Remembering::drained();
    at.tidegate.kill();
    let whole = fs::read(at.file()).unwrap();
    fs::write(at.file(), &whole[..whole.len() - 9]).unwrap();
    at.tidegate.start_again();
    at.tidegate.process().await_log("it is torn", PATIENCE);
    assert_eq!(
        fs::read(at.data.join("memory.refused")).unwrap().len(),
        whole.len() - 9
    );
    assert_eq!(at.tidegate.ask_line(CANARY), "up drain");
    eventually("a new memory is kept", PATIENCE, || {
        let kept = fs::read(at.file()).unwrap_or_default();
        check(kept.starts_with(b"tidegate-memory 1 "), || {
            format!("{} bytes", kept.len())
        })
    });
}

#[test]
fn a_disk_that_takes_nothing_stops_nobody() {
    let state = StateFolder::new();
    let data = Folder::new("data");
    // What cannot be written over stands in the way: root may write everywhere else.
    fs::create_dir(data.join("memory.new")).unwrap();
    let folder = data.path().display().to_string();
    let mut tidegate = Tidegate::start(&["--kv", &state.kv(), "--data-dir", &folder]);
    state.put("canary-state", "drain");
    tidegate.await_answer(CANARY, "up drain", PATIENCE);
    state.put("canary-state", "maint");
    tidegate.await_answer(CANARY, "up maint", PATIENCE);
    assert!(tidegate.metric("tidegate_memory_errors_total") >= 2.0);
    let log = tidegate.process().log_text();
    assert_eq!(
        log.matches("cannot be kept over a restart").count(),
        1,
        "{log}"
    );
    fs::remove_dir(data.join("memory.new")).unwrap();
    state.put("canary-state", "ready");
    tidegate
        .process()
        .await_log("the listing is kept again", Duration::from_secs(10));
}
