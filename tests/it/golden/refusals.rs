//! Each refusal: every rail, the guard, stronger directives, and questions that nobody answers.

use super::Transcript;
use crate::follows::commands::Place;

/// Settings with these rails.
fn settings(rails: &str) -> String {
    format!(
        r#"{{"rails":{{{rails}}},"guard":{{"groups":["kept"]}},"rows":[
        {{"server":"web/a","groups":["main"],"zone":"z-b"}},{{"server":"web/b","groups":["main"],"zone":"z-c"}},
        {{"server":"web/c","groups":["main"],"zone":"z-d"}},{{"server":"web/cny","groups":["canary"],"weight":5}},
        {{"server":"api/a","groups":["main"]}},{{"server":"api/b","groups":["main"]}},
        {{"server":"ssh/a","groups":["kept"]}},{{"server":"ssh/b","groups":["kept"]}}],
        "nodes":[{{"name":"lb-1","zone":"z-b"}},{{"name":"lb-2","zone":"z-c"}}]}}"#
    )
}

/// What refuses, the rails of the settings, a key that is written before, and the command.
type Case = (
    &'static str,
    &'static str,
    Option<(&'static str, &'static str)>,
    &'static [&'static str],
);

const BOB: &str =
    r#"{"state":"ready","by":"bob","since":"2026-01-02T03:04:05Z","reason":"a test"}"#;
const DEPLOY: &str = r#"{"active":true,"url":"https://ci/7","by":"ana"}"#;

#[rustfmt::skip]
const CASES: [Case; 17] = [
    ("settings", r#""floors":1"#, None, &["canary", "--drain"]),
    ("floor", "", Some(("server-overrides/api/a", "drain")), &["set", "drain", "api/b"]),
    ("canary-alone", "", None, &["set", "drain", "web/a", "--node", "lb-1"]),
    ("second-zone", "", Some(("server-overrides/web/a", "drain")),
        &["set", "drain", "web/b", "--canary-alone", "--reason", "r"]),
    ("many-rows", r#""many_rows":1"#, None, &["set", "90%", "backend=(api|web)", "group=main"]),
    ("maint-from-ready", "", None, &["set", "maint", "api/b", "--below-floor", "--reason", "r"]),
    ("deploy-lock", "", Some(("deploys/cny", DEPLOY)), &["canary", "--drain"]),
    ("deploy-lock that cannot be read", "", Some(("deploys/cny", "soon")), &["canary", "--maint"]),
    ("ttl, none given", r#""ttl":{"required":true}"#, Some(("deploys/cny", r#"{"active":false}"#)),
        &["set", "drain", "web/b", "--canary-alone", "--second-zone", "--reason", "r"]),
    ("ttl, too long", r#""ttl":{"max":"1h"}"#, None,
        &["set", "drain", "web/b", "--canary-alone", "--second-zone", "--reason", "r", "--ttl", "2h"]),
    ("reason", r#""reason":"always""#, None, &["canary", "--drain"]),
    ("guard", "", None, &["set", "drain", "ssh/a"]),
    ("stronger directives", "", Some(("server-overrides/web/cny", BOB)), &["canary", "--drain"]),
    ("no ramp", "", None, &["canary", "--hold"]),
    ("nothing matches", "", None, &["set", "drain", "nobody"]),
    ("an unknown tag", "", None, &["set", "drain", "colour=red"]),
    ("no change of that id", "", None, &["undo", "01J00000000000000000000000"]),
];

#[test]
fn what_refusals_print_is_as_kept() {
    let place = Place::folder();
    let mut transcript = Transcript::default();
    transcript.add(&["canary", "--drain"], &place.run(&["canary", "--drain"]));
    place.done(&["init"]);
    place.put("group-states/main", "ready");
    place.put("group-states/kept", "ready");
    let more = ["--yes", "--by", "ana", "--replica", "http://127.0.0.1:1"];
    for (what, rails, before, command) in CASES {
        place.put("settings", &settings(rails));
        if let Some((key, value)) = before {
            place.put(key, value);
        }
        transcript.say(what);
        let output = place.run_as_it_is(&[command, &more].concat());
        assert_ne!(output.code, Some(0), "{what}: {output:?}");
        transcript.add(command, &output);
    }
    transcript.say("nobody to ask");
    for command in [&["set", "drain", "api/x"][..], &["accept"]] {
        let output = place.run_as_it_is(&[command, &more[1..]].concat());
        transcript.add(command, &output);
    }
    transcript.expect_kept("refusals");
}
