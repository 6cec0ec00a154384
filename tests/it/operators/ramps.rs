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
