//! A command that is killed in the middle: each transaction is whole or not there.

use std::process::Command;

use super::*;
use crate::harness::between::{Between, Treat};
use crate::harness::folder::Folder;
use crate::harness::process::Process;
use crate::harness::wait::{check, eventually};

/// How many servers: more than two transactions hold.
pub(crate) const SERVERS: usize = 150;
pub(crate) const SET: [&str; 6] = ["set", "40%", "backend=many", "--yes", "--reason", "r"];

/// An environment with many servers.
pub(crate) fn set_up_many(place: &Place) {
    place.done(&["init"]);
    put_many(place);
    place.put("group-states/main", "ready");
}

/// Writes settings with so many servers.
pub(crate) fn put_many(place: &Place) {
    let rows: Vec<_> = (0..SERVERS)
        .map(|n| format!(r#"{{"server":"many/s{n:03}","groups":["main"]}}"#))
        .collect();
    let settings = format!(
        r#"{{"rails":{{"unattended":true,"many_rows":1000}},"rows":[{}],
            "nodes":[{{"name":"lb-1","zone":"z-b"}}]}}"#,
        rows.join(",")
    );
    place.put("settings", &settings);
}

/// Starts the command with these variables.
pub(crate) fn start(folder: &Folder, environment: &[(String, String)]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args([&SET[..], &["--env", "gprd", "--kv", "consul"]].concat())
        .envs(environment.iter().cloned());
    Process::start("killed", folder.path(), &command)
}

/// The command at work behind something that passes its first part on, and treats the second so.
fn second_part_met(treat: Treat) -> (Place, Between, Folder, Process) {
    let place = Place::consul();
    set_up_many(&place);
    let Place::Consul(consul) = &place else {
        unreachable!("it is a Consul")
    };
    let between = Between::new(consul.http(), move |number| match number {
        1 => Treat::Pass,
        _ => treat,
    });
    let folder = Folder::new("killed");
    let command = start(&folder, &between.environment());
    (place, between, folder, command)
}

/// What stands is what the history says, part by part; gives how many parts.
pub(crate) fn parts_written(place: &Place) -> usize {
    let records = history(place, &[]);
    let paths = records.iter().flat_map(|record| {
        let changed = record["changed"].as_array().expect("a list");
        changed.iter().map(|changed| changed["path"].to_string())
    });
    let Place::Consul(consul) = place else {
        unreachable!("these tests are about Consul")
    };
    let keys = consul.kv_keys("frontend/gprd/server-overrides/");
    assert_eq!(paths.count(), keys.len(), "{keys:?}");
    let parts = records.len();
    let written = u64::try_from(parts).expect("there are few");
    assert_eq!(place.generation(), 1 + written, "a generation for each");
    parts
}

/// The same command, run again, leaves what it would have left.
pub(crate) fn complete(place: &Place) {
    place.done(&SET);
    for n in 0..SERVERS {
        let key = format!("server-overrides/many/s{n:03}");
        assert_eq!(place.json(&key)["weight"], 40, "{key}");
    }
    assert!(place.done(&SET).contains("already so"));
}

#[test]
fn between_two_parts_the_first_stands_the_history_says_so_and_the_command_completes_it() {
    let (place, between, _folder, mut command) = second_part_met(Treat::Hold);
    eventually("the second part is on its way", WRITTEN, || {
        check(between.transactions() == 2, || command.log_text())
    });
    command.kill();
    assert_eq!(parts_written(&place), 1);
    let shown = place.done(&["history"]);
    let change = history(&place, &[])[0]["change"].clone();
    let change = change.as_str().expect("an id");
    let warning = format!(
        "WARNING: change {change} has 1 of 3 parts so far. If its command has ended, run it again \
         for the others, or `tidegate undo {change}`"
    );
    assert!(shown.contains(&warning), "{shown}");
    complete(&place);
}

/// Its client never hears of it.
#[test]
fn while_a_part_is_applied_that_part_is_whole() {
    let (place, _between, _folder, mut command) = second_part_met(Treat::LoseAnswer);
    eventually("the second part is applied", WRITTEN, || {
        check(history(&place, &[]).len() == 2, || command.log_text())
    });
    command.kill();
    assert_eq!(parts_written(&place), 2);
    let change = history(&place, &[])[0]["change"].clone();
    place.done(&[
        "undo",
        change.as_str().expect("an id"),
        "--yes",
        "--reason",
        "r",
    ]);
    assert_eq!(place.get("server-overrides/many/s000"), None);
    complete(&place);
}
