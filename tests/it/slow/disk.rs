//! A disk that takes nothing any more.

use std::fs;
use std::time::Duration;

use crate::harness::consul::Consul;
use crate::harness::small_disk::SmallDisk;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{PATIENCE, check, eventually};

const CANARY: &str = "web/cny canary node=lb-1";
const LATE: &str = "web/cny canary node=lb-2";
const KEY: &str = "frontend/gprd/canary-state";
const SENTINEL: &str = r#"{"schema":1,"epoch":1,"gen":1}"#;
const ERRORS: &str = "tidegate_memory_errors_total";
const NOT_KEPT: &str = "the listing cannot be kept over a restart; answering goes on";
/// What could not be kept is tried again every 5 s.
const KEPT_AGAIN_MAX: Duration = Duration::from_secs(12);

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Full,
    ReadOnly,
}

impl Trouble {
    fn begin(self, disk: &SmallDisk) {
        match self {
            Self::Full => disk.fill(),
            Self::ReadOnly => disk.make_read_only(),
        }
    }

    fn end(self, disk: &SmallDisk) {
        match self {
            Self::Full => disk.make_room(),
            Self::ReadOnly => disk.make_writable(),
        }
    }

    /// What the system says.
    const fn text(self) -> &'static str {
        match self {
            Self::Full => "No space left on device",
            Self::ReadOnly => "Read-only file system",
        }
    }
}

/// A service on a real Consul whose `data_dir` is the disk.
struct OnSmallDisk {
    consul: Consul,
    disk: SmallDisk,
    tidegate: Tidegate,
}

impl OnSmallDisk {
    /// The canary is drained, and everything is kept, `lb-1` of the fleet as well.
    fn start() -> Self {
        let (consul, disk) = (Consul::single(), SmallDisk::new());
        consul.kv_put("frontend/gprd/_meta", SENTINEL);
        consul.kv_put(KEY, "drain");
        let folder = disk.inside("data").display().to_string();
        let arguments = ["--kv", "consul", "--data-dir", &folder];
        let environment = consul_environment(&consul);
        let mut tidegate = Tidegate::launch_behind(&disk.launcher(), &arguments, &environment);
        tidegate.await_ready();
        assert_eq!(tidegate.ask_line(CANARY), "up drain");
        // The fleet is kept at the end.
        assert_eq!(tidegate.stop(), Some(0));
        tidegate.start_again();
        Self {
            consul,
            disk,
            tidegate,
        }
    }

    fn kept(&self, name: &str) -> Vec<u8> {
        fs::read(self.disk.outside(&format!("data/{name}"))).expect("it was kept")
    }

    fn knows(&self, node: &str) -> bool {
        String::from_utf8_lossy(&self.kept("fleet")).contains(node)
    }
}

#[test]
fn a_full_disk_stops_nobody_and_what_it_did_not_take_is_kept_when_there_is_room() {
    check_memory(Trouble::Full);
}

#[test]
fn a_disk_that_becomes_read_only_stops_nobody_and_is_written_when_it_may_be() {
    check_memory(Trouble::ReadOnly);
}

fn check_memory(trouble: Trouble) {
    let mut at = OnSmallDisk::start();
    let before = at.kept("memory");
    trouble.begin(&at.disk);
    for (desired, answer) in [("maint", "up maint"), ("40%", "up ready 40%")] {
        at.consul.kv_put(KEY, desired);
        at.tidegate.await_answer(CANARY, answer, PATIENCE);
    }
    eventually("each failure is counted", PATIENCE, || {
        let errors = at.tidegate.count(ERRORS);
        check(errors >= 2, || errors.to_string())
    });
    let log = at.tidegate.process().log_text();
    assert_eq!(log.matches(NOT_KEPT).count(), 1, "{log}");
    assert!(log.contains(trouble.text()), "{log}");
    assert_eq!(at.kept("memory"), before, "the old memory was touched");
    assert!(!at.disk.outside("data/memory.new").exists());

    // Nothing changes any more in Consul: it is the disk alone that is waited for.
    trouble.end(&at.disk);
    at.tidegate
        .process()
        .await_log("the listing is kept again", KEPT_AGAIN_MAX);
    at.consul.kill();
    at.tidegate.kill();
    at.tidegate.start_again();
    assert_eq!(at.tidegate.ask_line(CANARY), "up ready 40%");
}

#[test]
fn a_start_on_a_full_disk_answers_what_consul_says_now() {
    check_start(Trouble::Full);
}

#[test]
fn a_start_on_a_read_only_disk_answers_what_consul_says_now() {
    check_start(Trouble::ReadOnly);
}

fn check_start(trouble: Trouble) {
    let mut at = OnSmallDisk::start();
    let before = at.kept("memory");
    trouble.begin(&at.disk);
    at.tidegate.kill();
    at.consul.kv_put(KEY, "maint");
    at.tidegate.start_again();
    at.tidegate.await_answer(CANARY, "up maint", PATIENCE);
    at.tidegate.await_readyz(200, "current: ", PATIENCE);
    let log = at.tidegate.process().log_text();
    assert!(log.contains("known from before the start"), "{log}");
    at.tidegate.process().await_log(NOT_KEPT, PATIENCE);
    assert_eq!(at.kept("memory"), before);
}

#[test]
fn a_fleet_that_finds_no_room_at_the_end_leaves_the_one_of_before() {
    check_fleet(Trouble::Full);
}

#[test]
fn a_fleet_that_may_not_be_written_at_the_end_leaves_the_one_of_before() {
    check_fleet(Trouble::ReadOnly);
}

fn check_fleet(trouble: Trouble) {
    let mut at = OnSmallDisk::start();
    let before = at.kept("fleet");
    assert!(at.knows("lb-1") && !at.knows("lb-2"));
    trouble.begin(&at.disk);
    assert_eq!(at.tidegate.ask_line(LATE), "up drain");
    at.tidegate.process().signal(rustix::process::Signal::TERM);
    at.tidegate
        .process()
        .await_log("the fleet cannot be kept over a restart", PATIENCE);
    assert_eq!(at.tidegate.stop(), Some(0));
    assert_eq!(at.kept("fleet"), before);
    assert!(!at.disk.outside("data/fleet.new").exists());

    trouble.end(&at.disk);
    at.tidegate.start_again();
    assert_eq!(at.tidegate.ask_line(LATE), "up drain");
    assert_eq!(at.tidegate.stop(), Some(0));
    assert!(at.knows("lb-1") && at.knows("lb-2"));
}

#[test]
fn a_log_that_nobody_takes_stops_nobody() {
    let to_full = ["sh", "-c", r#"exec "$@" 2>/dev/full"#, "sh"].map(str::to_owned);
    let state = crate::harness::state_folder::StateFolder::new();
    let mut tidegate = Tidegate::launch_behind(&to_full, &["--kv", &state.kv()], &[]);
    tidegate.await_ready();
    state.put("canary-state", "drain");
    tidegate.await_answer(CANARY, "up drain", PATIENCE);
    assert_eq!(tidegate.process().log_text(), "");
    assert_eq!(tidegate.stop(), Some(0));
}
