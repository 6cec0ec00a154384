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

#[test]
fn what_refusals_print_is_as_kept() {
    let place = Place::folder();
    let mut transcript = Transcript::default();
    transcript.add(&["canary", "--drain"], &place.run(&["canary", "--drain"]));
    place.done(&["init"]);
    place.put("group-states/main", "ready");
    place.put("group-states/kept", "ready");
    let before = ["--yes", "--by", "ana", "--replica", "http://127.0.0.1:1"];
    let mut case = |what: &str, rails: &str, command: &[&str]| {
        place.put("settings", &settings(rails));
        transcript.say(what);
        let output = place.run_as_it_is(&[command, &before[..]].concat());
        transcript.add(command, &output);
        assert_ne!(output.code, Some(0), "{what}: {output:?}");
    };
    case("settings", r#""floors":1"#, &["canary", "--drain"]);
    place.put("server-overrides/api/a", "drain");
    case("floor", "", &["set", "drain", "api/b"]);
    case(
        "canary-alone",
        "",
        &["set", "drain", "web/a", "--node", "lb-1"],
    );
    place.put("server-overrides/web/a", "drain");
    case(
        "second-zone",
        "",
        &["set", "drain", "web/b", "--canary-alone", "--reason", "r"],
    );
    case(
        "many-rows",
        r#""many_rows":1"#,
        &["set", "90%", "backend=(api|web)", "group=main"],
    );
    case(
        "maint-from-ready",
        "",
        &["set", "maint", "api/b", "--below-floor", "--reason", "r"],
    );
    place.put(
        "deploys/cny",
        r#"{"active":true,"url":"https://ci/7","by":"ana"}"#,
    );
    case("deploy-lock", "", &["canary", "--drain"]);
    place.put("deploys/cny", "soon");
    case(
        "deploy-lock that cannot be read",
        "",
        &["canary", "--maint"],
    );
    place.put("deploys/cny", r#"{"active":false}"#);
    case(
        "ttl, none given",
        r#""ttl":{"required":true}"#,
        &[
            "set",
            "drain",
            "web/b",
            "--canary-alone",
            "--second-zone",
            "--reason",
            "r",
        ],
    );
    case(
        "ttl, too long",
        r#""ttl":{"max":"1h"}"#,
        &[
            "set",
            "drain",
            "web/b",
            "--canary-alone",
            "--second-zone",
            "--reason",
            "r",
            "--ttl",
            "2h",
        ],
    );
    case("reason", r#""reason":"always""#, &["canary", "--drain"]);
    case("guard", "", &["set", "drain", "ssh/a"]);
    place.put(
        "server-overrides/web/cny",
        r#"{"state":"ready","by":"bob","since":"2026-01-02T03:04:05Z","reason":"a test"}"#,
    );
    case("stronger directives", "", &["canary", "--drain"]);
    case("no ramp", "", &["canary", "--hold"]);
    case("nothing matches", "", &["set", "drain", "nobody"]);
    case("an unknown tag", "", &["set", "drain", "colour=red"]);
    case(
        "no change of that id",
        "",
        &["undo", "01J00000000000000000000000"],
    );
    transcript.say("nobody to ask");
    for command in [&["set", "drain", "api/x"][..], &["accept"]] {
        let output = place.run_as_it_is(&[command, &before[1..]].concat());
        transcript.add(command, &output);
    }
    transcript.expect_kept("refusals");
}
