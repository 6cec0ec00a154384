//! Ramps by the command line.

use super::*;

fn ramp(place: &Place) -> Value {
    place.json("canary-state")["ramp"].clone()
}

#[test]
fn a_ramp_is_begun_held_resumed_and_ended() {
    let place = Place::consul();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    place.done(&["canary", "--slowly"]);
    let begun = place.get("canary-state");
    assert_eq!(ramp(&place)["steps"], serde_json::json!([5, 25, 50]));
    assert_eq!(ramp(&place)["nodes"], serde_json::json!(["lb-1", "lb-2"]));
    // Twice restarts nothing.
    assert!(place.done(&["canary", "--slowly"]).contains("already so"));
    assert_eq!(place.get("canary-state"), begun);

    place.done(&["canary", "--hold"]);
    assert_eq!(ramp(&place)["steps"], serde_json::json!([5]));
    assert_eq!(ramp(&place)["every"], Value::Null);
    expect(
        &place.run(&["canary", "--resume", "--dry-run"]),
        0,
        &["[5,25,50]"],
    );
    place.done(&["canary", "--resume"]);
    assert_eq!(ramp(&place)["steps"], serde_json::json!([5, 25, 50]));
    assert_eq!(ramp(&place)["nodes"], serde_json::json!(["lb-1", "lb-2"]));
    expect(&place.run(&["canary", "--resume"]), 3, &["no ramp is held"]);

    // Ready ends it at full weight; a drain takes the canary out at any moment.
    place.done(&["canary", "--ready"]);
    assert_eq!(ramp(&place), Value::Null);
    let shown = place.done(&["canary", "--slowly"]);
    assert!(shown.contains("ready at full weight"), "{shown}");
    expect(
        &place.run(&["canary", "--hold"]),
        3,
        &["no ramp is running"],
    );
    place.done(&["canary", "--drain"]);
    place.done(&["canary", "--ramp", "by=weight,steps=10,every=1m"]);
    assert_eq!(ramp(&place)["by"], "weight");
    place.done(&["canary", "--drain"]);
    assert_eq!(ramp(&place), Value::Null);
}

#[test]
fn another_end_restarts_no_ramp_and_no_plan() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    for way in ["--slowly", "--disable"] {
        place.done(&["canary", way, "--ttl", "1h"]);
        let first = place.json("canary-state");
        place.done(&["canary", way, "--ttl", "2h"]);
        let second = place.json("canary-state");
        assert_eq!(first["since"], second["since"], "{way}");
        assert_ne!(first["until"], second["until"], "{way}");
    }
}

#[test]
fn a_hold_and_a_resume_keep_the_weight_and_the_end() {
    let place = Place::folder();
    set_up(&place);
    let by_hand = r#"{"v":1,"state":"ready","weight":40,"since":"2026-01-01T00:00:00Z",
        "ramp":{"by":"nodes","steps":[5,25],"every":"366days","nodes":["lb-2","lb-1"]},
        "until":"2100-01-01T00:00:00Z","on_expiry":"lift"}"#;
    place.put("canary-state", by_hand);
    for way in ["--hold", "--resume"] {
        place.done(&["canary", way]);
        let stands = place.json("canary-state");
        assert_eq!(stands["weight"], 40, "{way}");
        assert_eq!(stands["until"], "2100-01-01T00:00:00Z", "{way}");
        assert_eq!(stands["on_expiry"], "lift", "{way}");
    }
    // The end may be moved with it.
    place.done(&["canary", "--hold", "--ttl", "1h"]);
    let stands = place.json("canary-state");
    assert_ne!(stands["until"], "2100-01-01T00:00:00Z");
}

#[test]
fn no_ramp_begins_with_less_than_one_that_stands_has_reached() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    let by = |spec: &str| place.run(&["canary", "--ramp", spec]);
    expect(&by("by=weight,steps=50,every=1h"), 0, &[]);
    place.done(&["canary", "--hold"]);
    let held = place.get("canary-state");
    let texts = ["has reached 50%", "--resume", "nothing was written"];
    expect(&place.run(&["canary", "--slowly"]), 3, &texts);
    expect(&by("by=weight,steps=10,every=1h"), 3, &texts);
    assert_eq!(place.get("canary-state"), held);
    expect(&by("by=weight,steps=60,every=1h"), 0, &[]);
    // Over nodes: those that are in stay in.
    let by_hand = r#"{"v":1,"state":"ready","since":"2026-01-01T00:00:00Z",
        "ramp":{"by":"nodes","steps":[5],"nodes":["lb-2","lb-1"]}}"#;
    place.put("canary-state", by_hand);
    place.done(&["canary", "--slowly"]);
    assert_eq!(ramp(&place)["nodes"], serde_json::json!(["lb-2", "lb-1"]));
}

#[test]
fn the_nodes_that_wait_stay_in_the_maintenance_that_a_plan_has_made() {
    let place = Place::folder();
    set_up(&place);
    let over = r#"{"v":1,"state":"drain","since":"2026-01-01T00:00:00Z",
        "then":{"state":"maint","after":"1m"}}"#;
    place.put("canary-state", over);
    place.done(&["canary", "--slowly"]);
    assert_eq!(ramp(&place)["rest"], "maint");
}

#[test]
fn what_makes_no_sense_is_wrong_usage_and_writes_nothing() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    let before = place.generation();
    let long = "x".repeat(1_025);
    for (arguments, text) in [
        // Written, no replica could read it, and the canary would freeze.
        (
            &["canary", "--ramp", "by=nodes,steps=50,5,every=1m"][..],
            "does not grow",
        ),
        (
            &["canary", "--ramp", "by=nodes,steps=5,every=0s"],
            "1s to 366days",
        ),
        (
            &[
                "canary",
                "--ready",
                "--verify",
                "http://127.0.0.1:1",
                "--verify-times",
                "0",
            ],
            "0 is not in 1..=100",
        ),
        (
            &["canary", "--maint", "--verify", "http://127.0.0.1:1"],
            "comes back",
        ),
        (&["canary", "--ready", "--ttl", "0s"], "1s to 366days"),
        (
            &["canary", "--ready", "--reason", " \u{1b}"],
            "says nothing",
        ),
        (
            &["canary", "--ready", "--reason", &long],
            "more than 1024 characters",
        ),
        (&["canary", "--ready", "--by", "\n"], "says nothing"),
        (&["deploy", "start", "cny", "--ttl", "0s"], "1s to 366days"),
    ] {
        expect(&place.run(arguments), 2, &[text]);
    }
    assert_eq!(place.generation(), before);
}

#[test]
fn nothing_is_written_before_the_probes_pass() {
    let place = Place::folder();
    set_up(&place);
    place.done(&["canary", "--drain"]);
    let before = place.generation();
    let verify = ["canary", "--ready", "--verify"];
    let run = |url: &str| place.run(&[&verify[..], &[url]].concat());
    expect(
        &run("http://127.0.0.1:1/"),
        3,
        &["does not answer well", "nothing was written"],
    );
    expect(&run("no url"), 2, &["--verify"]);
    assert_eq!(place.generation(), before);
    let tidegate = place.serve();
    let url = format!("http://{}/livez", tidegate.http());
    expect(&run(&url), 0, &["written to gprd"]);
}

#[test]
fn without_a_state_the_canary_is_shown() {
    let place = Place::folder();
    set_up(&place);
    let shown = place.done(&["canary"]);
    assert!(
        shown.starts_with(":canary:") && shown.contains("--drain"),
        "{shown}"
    );
}
