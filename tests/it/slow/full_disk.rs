//! A disk that stays full while the fleet is kept each half minute.

use std::time::Duration;

use tidegate::fleet::SAVE_EVERY;

use crate::harness::small_disk::SmallDisk;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, eventually};

const ERRORS: &str = "tidegate_fleet_save_errors_total";
const LATE: Duration = Duration::from_secs(10);

#[test]
fn a_fleet_that_finds_no_room_is_logged_once_and_kept_when_there_is_room() {
    let (state, disk) = (StateFolder::new(), SmallDisk::new());
    let folder = disk.inside("data").display().to_string();
    let arguments = ["--kv", &state.kv(), "--data-dir", &folder];
    let mut tidegate = Tidegate::launch_behind(&disk.launcher(), &arguments, &[]);
    tidegate.await_ready();
    disk.fill();
    eventually("two tries failed", SAVE_EVERY * 2 + LATE, || {
        assert_eq!(
            tidegate.ask_line("web/cny canary node=lb-1"),
            "unknown-group"
        );
        let errors = tidegate.count(ERRORS);
        check(errors >= 2, || errors.to_string())
    });
    let log = tidegate.process().log_text();
    let told = "the fleet cannot be kept over a restart; answering goes on";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    disk.make_room();
    let text = "the fleet is kept again";
    tidegate.process().await_log(text, SAVE_EVERY + LATE);
    let kept = std::fs::read(disk.outside("data/fleet")).expect("it is kept");
    assert!(String::from_utf8_lossy(&kept).contains("lb-1"));
}
