//! `tidegate forget`.

use crate::harness::http::request;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::PATIENCE;

use super::{fleet, url};

/// Runs `tidegate forget` and expects its exit code, and a text on one of its outputs.
pub(super) fn check(arguments: &[&str], code: i32, text: &str) {
    let output = tidegate(&[&["forget"], arguments].concat(), &[]);
    let shown = format!("{arguments:?}\n{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(code), "{shown}");
    assert!(shown.contains(text), "no {text:?} in {shown}");
}

#[test]
fn a_node_is_forgotten_by_its_whole_name_until_it_polls_again() {
    let (_state, tidegate) = Tidegate::start_drained();
    for line in ["web/a node=lb-1", "web/b node=lb-1", "web/a node=lb-10"] {
        tidegate.ask_line(line);
    }
    let here = url(&tidegate);
    check(&["lb", "--replica", &here], 2, "no node is called lb");
    let all = [
        "lb-1",
        "--replica",
        &here,
        "--replica",
        "http://127.0.0.1:1",
    ];
    check(&all, 1, "http://127.0.0.1:1: Connection refused");
    // What could be done was done.
    assert_eq!(fleet(&tidegate)["nodes"][0]["node"], "lb-10");
    tidegate.ask_line("web/a node=lb-1");
    super::await_fleet(&tidegate, "it is known again", |fleet| {
        super::list(fleet, "nodes").len() == 2
    });
    // Without --replica: where this machine's configuration says.
    let listen = tidegate.http().to_string();
    let by_configuration = ["lb-1", "--env", "gprd", "--http-listen", &listen];
    check(&by_configuration, 0, "a: 1 rows of lb-1 forgotten");
    check(&by_configuration, 2, "no node is called lb-1");
}

#[test]
fn wrong_usage_of_forget_is_said_before_anybody_is_asked() {
    check(
        &["lb 1", "--replica", "http://127.0.0.1:1"],
        2,
        "\"lb 1\" is no node",
    );
    check(
        &["lb-1", "--replica", "127.0.0.1:1"],
        2,
        "write http://HOST:PORT",
    );
    check(&["lb-1"], 2, "environment");
    check(&[], 2, "NODE");
}

#[test]
fn forgetting_is_a_post_of_one_name() {
    let (_state, tidegate) = Tidegate::start_drained();
    for (method, path, status) in [
        ("GET", "/api/v1/fleet/forget?node=lb-1", 405),
        ("POST", "/api/v1/fleet/forget", 400),
        ("POST", "/api/v1/fleet/forget?node=", 400),
        ("POST", "/api/v1/fleet/forget?node=lb-1&all=true", 400),
        ("POST", "/api/v1/fleet/forget?node=lb-1", 200),
    ] {
        let answer = request(tidegate.http(), method, path, &[], b"", PATIENCE).unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
}
