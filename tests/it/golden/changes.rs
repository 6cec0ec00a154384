//! Plans, changes and the history of them.

use super::Transcript;
use crate::follows::commands::Place;

const SETTINGS: &str = r#"{"rows":[
    {"server":"web/a","groups":["main"],"zone":"z-b"},{"server":"web/b","groups":["main"],"zone":"z-c"},
    {"server":"web/cny","groups":["canary"],"weight":5}],
    "nodes":[{"name":"lb-1","zone":"z-b"},{"name":"lb-2","zone":"z-c"}]}"#;
const WHO: [&str; 4] = ["--by", "ana", "--reason", "bad release"];

#[test]
fn what_changes_print_is_as_kept() {
    let place = Place::folder();
    let mut transcript = Transcript::default();
    let mut run = |command: &[&str]| {
        let output = place.run_as_it_is(command);
        transcript.add(command, &output);
        output
    };
    let nobody = ["--replica", "http://127.0.0.1:1"];
    let writes = |command: &[&'static str]| [command, &WHO, &nobody].concat();
    run(&["init", "--by", "ana", "--dry-run"]);
    run(&["init", "--by", "ana"]);
    place.put("settings", SETTINGS);
    place.put("group-states/main", "ready");
    run(&writes(&["canary", "--drain", "--dry-run"]));
    run(&writes(&["canary", "--drain"]));
    run(&writes(&["canary", "--drain"]));
    run(&writes(&["canary", "--slowly"]));
    run(&writes(&["canary", "--hold"]));
    run(&writes(&["canary", "--resume"]));
    run(&writes(&["canary", "--ready"]));
    run(&writes(&["canary", "--disable"]));
    run(&writes(&[
        "set",
        "40%",
        "server=cn.*",
        "-z",
        "b",
        "--ttl",
        "2h",
        "--yes",
    ]));
    run(&writes(&["set", "drain", "web/unknown", "--yes"]));
    let output = run(&writes(&["clear", "web/unknown", "--yes"]));
    let id = output
        .stdout
        .rsplit("undo ")
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    run(&[&["undo", &id, "--yes"], &WHO[..], &nobody].concat());
    run(&writes(&[
        "deploy",
        "start",
        "cny",
        "--url",
        "https://ci/7",
    ]));
    run(&writes(&["deploy", "finish", "cny"]));
    run(&["history", "--limit", "3"]);
    run(&["history", "server-overrides", "--output", "json"]);
    run(&["history", "nothing-like-that"]);
    transcript.expect_kept("changes");
}
