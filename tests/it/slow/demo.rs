//! `scripts/demo` shows where requests go, and leaves nothing running.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::examples::render::{AGENT, NODES};
use crate::harness::folder::Folder;
use crate::harness::process::{Process, run};
use crate::harness::tidegate::tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

fn demo(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/demo");
    let mut command = Command::new(script);
    command
        .args(arguments)
        .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"));
    command
}

/// The demonstration's addresses are fixed: one at a time on this machine.
fn alone() -> File {
    let path = std::env::temp_dir().join("tidegate-test-demo.lock");
    let file = File::create(path).expect("the machine's temporary folder is writable");
    file.lock().expect("a lock on a local file is granted");
    file
}

fn assert_nothing_runs() {
    for address in NODES.map(|(_, address)| address).into_iter().chain([AGENT]) {
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} is still open"
        );
    }
}

#[test]
fn the_demo_shows_each_second_who_answers_on_each_node_and_ends_by_itself() {
    let _alone = alone();
    let output = run("demo", &demo(&["--seconds", "3"]), PATIENCE);
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines: Vec<_> = output.stdout.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.starts_with("second"))
        .expect("a head line");
    for (name, _) in NODES {
        assert!(lines[head].contains(name), "{}", lines[head]);
    }
    let rows = &lines[head + 1..];
    assert_eq!(rows.len(), 3, "{output:?}");
    for (row, second) in rows.iter().zip(1..) {
        assert_eq!(
            row.split_whitespace().next(),
            Some(second.to_string().as_str()),
            "{row}"
        );
        for part in [" b ", " c ", " d "] {
            assert!(row.contains(part), "each node serves its own zone: {row}");
        }
        assert_eq!(
            row.matches("canary ").count(),
            NODES.len(),
            "5 % on each: {row}"
        );
        assert!(!row.contains("failed"), "{row}");
    }
    assert_nothing_runs();
}

#[test]
fn in_the_demo_one_command_takes_the_canary_out_and_a_signal_ends_everything() {
    let _alone = alone();
    let folder = Folder::new("demo");
    let mut process = Process::start("demo", folder.path(), &demo(&[]));
    process.await_log("canary ", PATIENCE);
    let text = process.log_text();
    let kv = text
        .split_whitespace()
        .find(|word| word.starts_with("dir:"))
        .expect("the demo says where its state is")
        .to_owned();
    let last_row = |process: &Process| process.log_text().lines().last().unwrap_or("").to_owned();
    eventually("the canary answers on each node", PATIENCE, || {
        let row = last_row(&process);
        check(row.matches("canary ").count() == NODES.len(), || row)
    });
    let output = tidegate(&["canary", "--gprd", "--drain", "--kv", &kv], &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    eventually("the canary answers nowhere", Duration::from_secs(6), || {
        let row = last_row(&process);
        let without = row.contains(" b 40") && !row.contains("canary");
        check(without, || row)
    });
    process.stop();
    assert_nothing_runs();
    let state = kv.trim_start_matches("dir:");
    assert!(
        !fs::exists(state).expect("the parent is there"),
        "{state} is left"
    );
}

#[test]
fn the_demo_refuses_what_it_does_not_know() {
    for arguments in [
        &["--minutes", "3"][..],
        &["--seconds"],
        &["--seconds", "soon"],
    ] {
        let output = run("demo", &demo(arguments), PATIENCE);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains("usage: scripts/demo"), "{output:?}");
    }
}
