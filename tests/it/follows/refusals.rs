//! Commands that must not write, and two that write at once.

use std::thread;

use super::commands::Place;
use crate::harness::process::Output;
use crate::harness::tidegate::tidegate;

/// Races until a conflict has been seen; nearly every one has some.
const RACES_MAX: usize = 40;
const WRITERS: usize = 4;

fn check(what: &str, output: &Output, code: i32, text: &str) {
    assert_eq!(output.code, Some(code), "{what}: {output:?}");
    assert!(output.stderr.contains(text), "{what}: {output:?}");
}

#[test]
fn wrong_usage_ends_with_2_and_writes_nothing() {
    let place = Place::folder();
    place.done(&["init"]);
    let before = (place.get("_meta"), place.get("canary-state"));
    for (command, text) in [
        (&["canary", "--drian"][..], "unexpected argument '--drian'"),
        (&["canary", "--drain", "--ready"], "cannot be used with"),
        (&["canary", "--drain", "--gprd"], "cannot be used with"),
        (
            &["canary", "--drain", "--zone", "b", "--node", "lb-1"],
            "cannot be used with",
        ),
        (&["canary", "--drain", "--zone", "a b"], "--zone"),
        (&["set", "off", "web/a"], "is none of ready, drain, maint"),
        (&["set", "0%", "web/a"], "percentage of 1% to 100%"),
        (&["set", "drain"], "SELECTOR"),
        (&["set", "drain", "web"], "no row is known"),
        (&["set", "drain", "colour=web"], "colour"),
        (
            &["canary", "--drain", "--slowly"],
            "only --ready goes with them",
        ),
        (&["canary", "--ramp", "5,25"], "by=nodes,steps="),
        (&["clear", "web/a/b"], "\"web/a/b\""),
        (&["undrain"], "unrecognized subcommand"),
    ] {
        check(&command.join(" "), &place.run(command), 2, text);
    }
    assert_eq!((place.get("_meta"), place.get("canary-state")), before);
    let nowhere = ["canary", "--gprd", "--drain", "--kv", "dir:/nowhere/at-all"];
    check(
        "no such folder",
        &tidegate(&nowhere, &[]),
        2,
        "/nowhere/at-all",
    );
}

#[test]
fn an_environment_that_nobody_set_up_is_not_written_to() {
    let place = Place::folder();
    place.done(&["init"]);
    let Place::Folder(folder) = &place else {
        unreachable!("it is a folder")
    };
    let kv = format!("dir:{}", folder.path().display());
    let other = tidegate(&["canary", "--gstg", "--drain", "--kv", &kv], &[]);
    check("gstg", &other, 1, "tidegate init");
    assert!(!folder.join("frontend/gstg/canary-state").exists());
}

/// Several writers at once, each with a weight of its own for the same server.
fn race(place: &Place, round: usize) -> Vec<(String, Output)> {
    thread::scope(|scope| {
        let write = |writer: usize| {
            scope.spawn(move || {
                let weight = format!("{}%", 1 + (round * WRITERS + writer) % 100);
                let output = place.run(&["set", &weight, "web/s", "--by", &weight]);
                (weight, output)
            })
        };
        let running: Vec<_> = (0..WRITERS).map(write).collect();
        running
            .into_iter()
            .map(|w| w.join().expect("a writer does not panic"))
            .collect()
    })
}

fn check_races(place: &Place) {
    place.done(&["init"]);
    let mut conflicts = 0;
    for round in 0..RACES_MAX {
        let generation = place.generation();
        let outputs = race(place, round);
        let mut winners = Vec::new();
        for (weight, output) in &outputs {
            if output.code == Some(0) {
                winners.push(weight.clone());
            } else {
                check("the loser", output, 5, "somebody else wrote meanwhile");
                conflicts += 1;
            }
        }
        let won = u64::try_from(winners.len()).expect("few writers");
        assert!(won > 0, "one of them wins: {outputs:?}");
        assert_eq!(place.generation(), generation + won, "one generation each");
        let last = place.json("server-overrides/web/s")["by"].clone();
        assert!(winners.iter().any(|by| last == **by), "{last}: {outputs:?}");
        if conflicts > 0 {
            eprintln!("{WRITERS} writers at once: {won} won, {conflicts} refused");
            return;
        }
    }
    panic!("no conflict in {RACES_MAX} races of {WRITERS} writers");
}

#[test]
fn of_writers_at_once_the_losers_end_with_5_and_nothing_is_lost_in_a_folder() {
    check_races(&Place::folder());
}

#[test]
fn of_writers_at_once_the_losers_end_with_5_and_nothing_is_lost_in_consul() {
    check_races(&Place::consul());
}
