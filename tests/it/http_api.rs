//! The HTTP port: health, metrics and the read-only API.

use serde_json::Value;

use crate::harness::http::Response;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

mod metrics;

#[test]
fn a_page_that_is_not_there_says_which_are() {
    let (_state, tidegate) = Tidegate::start_drained();
    let answer = tidegate.get("/api/v1/snapshots");
    assert_eq!(answer.status, 404);
    for page in answer.text().trim().split(": ").nth(1).unwrap().split(", ") {
        let status = tidegate.get(page).status;
        assert!(matches!(status, 200 | 400), "{page}: {status}");
    }
}

#[test]
fn readiness_says_why_from_the_first_listing_to_the_loss_of_the_sentinel() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    state.remove("_meta");
    let mut tidegate = Tidegate::launch(&["--kv", &state.kv()], &[]);
    await_readiness(&mut tidegate, 503, "held: ", "_meta");
    assert_eq!(tidegate.get("/livez").status, 200);
    assert_eq!(tidegate.ask("web/cny\n"), b"", "it must be silent");

    state.put("_meta", crate::harness::state_folder::META);
    await_readiness(&mut tidegate, 200, "current: ", "confirmed by the source");
    assert_eq!(tidegate.ask_line("web/cny"), "up ready 100%");

    state.remove("_meta");
    await_readiness(&mut tidegate, 503, "held: ", "_meta");
    assert_eq!(tidegate.get("/livez").text(), "alive\n");
    assert_eq!(tidegate.ask("web/cny\n"), b"", "it must be silent");
}

#[test]
fn readiness_before_the_source_has_answered_says_so() {
    let unreachable = [(
        "CONSUL_HTTP_ADDR".to_owned(),
        "http://127.0.0.1:1".to_owned(),
    )];
    let mut tidegate = Tidegate::launch(&["--kv", "consul"], &unreachable);
    await_readiness(&mut tidegate, 503, "starting: ", "");
    assert_eq!(tidegate.ask("web/cny\n"), b"", "it must be silent");
    let snapshot = json(&tidegate.get("/api/v1/snapshot"));
    assert_eq!(snapshot["authority"], "starting");
    assert_eq!(snapshot.get("directives"), None);
    assert_eq!(tidegate.get("/api/v1/explain?request=web/cny").status, 503);
}

#[test]
fn the_snapshot_shows_what_is_in_force_with_its_problems() {
    let (state, tidegate) = Tidegate::start_drained();
    let canary = r#"{"state":"ready","weight":40,"by":"ann","reason":"trial"}"#;
    state.put("canary-state", canary);
    state.put("server-overrides/web/a", "draim");
    let snapshot = eventually("both keys are in force", PATIENCE, || {
        let snapshot = json(&tidegate.get("/api/v1/snapshot"));
        let count = snapshot["directives"].as_array().map_or(0, Vec::len);
        let problems = snapshot["problems"].as_array().map_or(0, Vec::len);
        check((count, problems) == (2, 1), || snapshot.to_string()).map(|()| snapshot)
    });
    assert_eq!(snapshot["replica"], "a");
    assert_eq!(snapshot["authority"], "current");
    assert_eq!(
        (&snapshot["epoch"], &snapshot["gen"]),
        (&1.into(), &1.into())
    );
    assert!(
        snapshot["confirmed_seconds_ago"]
            .as_f64()
            .is_some_and(|age| age < 30.0)
    );
    let at = |path: &str| {
        let all = snapshot["directives"].as_array().expect("a list");
        all.iter()
            .find(|placed| placed["path"] == path)
            .expect("it is there")
            .clone()
    };
    let placed = at("canary-state");
    assert_eq!(placed["directive"]["weight"], 40);
    assert_eq!(placed["directive"]["by"], "ann");
    assert!(placed["modify_index"].as_u64() <= snapshot["index"].as_u64());
    let broken = at("server-overrides/web/a");
    assert_eq!(broken.get("directive"), None);
    assert!(
        broken["error"]
            .as_str()
            .is_some_and(|text| text.contains("draim"))
    );
    let problem = &snapshot["problems"][0];
    assert_eq!(
        (&problem["path"], &problem["kind"]),
        (&broken["path"], &"directive".into())
    );
}

#[test]
fn an_explanation_has_the_bytes_of_the_socket_over_http_and_on_the_command_line() {
    let (state, tidegate_service) = Tidegate::start_drained();
    state.put("nodes/lb-7/canary-state", "40%");
    state.put("server-overrides/web/broken", "draim");
    tidegate_service.await_answer("web/broken", "unknown-directive", PATIENCE);
    for line in [
        "web/cny canary",
        "web/cny canary node=lb-7 base=100",
        "web/cny canary node=lb-7 mode=shadow",
        "web/other",
        "web/broken canary",
        "web/cny misspelt",
        "web/cny node=",
        "no server id",
        "\"web/cny canary\\n\"",
    ] {
        let socket = tidegate_service.ask(format!("{line}\n"));
        let socket = String::from_utf8(socket).expect("an answer is text");
        let path = format!("/api/v1/explain?request={}", percent_encoded(line));
        let explained = json(&tidegate_service.get(&path));
        assert_eq!(explained["answer"], socket, "{line}");
        assert_eq!(
            (&explained["answers"], &explained["authority"]),
            (&true.into(), &"current".into())
        );

        let kv = state.kv();
        let command = [
            "explain", line, "--env", "gprd", "--kv", &kv, "--output", "json",
        ];
        let output = tidegate(&command, &[("TIDEGATE_SLOT".to_owned(), "a".to_owned())]);
        assert_eq!(output.code, Some(0), "{line}: {output:?}");
        let printed: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert_eq!(printed["answer"], socket, "{line}");
        assert_eq!(printed["places"], explained["places"], "{line}");
        assert_eq!(printed["because"], explained["because"], "{line}");
    }
}

#[test]
fn an_explanation_is_for_the_callers_address_unless_another_is_given() {
    let (state, tidegate) = Tidegate::start_drained();
    state.put("nodes/127.0.0.1/canary-state", "maint");
    state.put("nodes/10.0.0.9/canary-state", "30%");
    tidegate.await_answer("web/cny canary", "up maint", PATIENCE);
    for (query, words) in [
        ("request=web/cny%20canary", "up maint "),
        ("request=web/cny+canary", "up maint "),
        ("request=web/cny%20canary&source=10.0.0.9", "up ready 30% "),
        ("request=web/cny%20canary%20node=10.0.0.9", "up ready 30% "),
        ("request=web/cny%20canary&source=10.0.0.8", "up drain "),
    ] {
        let explained = json(&tidegate.get(&format!("/api/v1/explain?{query}")));
        let answer = explained["answer"].as_str().expect("a line");
        assert!(answer.starts_with(words), "{query}: {answer:?}");
    }
}

#[test]
fn a_bad_question_is_refused_with_its_reason() {
    let (_state, tidegate) = Tidegate::start_drained();
    for (path, status, text) in [
        ("/api/v1/explain", 400, "request"),
        ("/api/v1/explain?", 400, "request"),
        ("/api/v1/explain?request=a/b&colour=blue", 400, "colour"),
        ("/api/v1/explain?request=a/b&request=a/c", 400, "request"),
        (
            "/api/v1/explain?request=a/b&source=not%20a%20name",
            400,
            "source",
        ),
        ("/api/v1/explain?request=a/b&source=", 400, "source"),
        ("/api/v1/other", 404, ""),
        ("/index.html", 404, ""),
    ] {
        let answer = tidegate.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.text().contains(text), "{path}: {}", answer.text());
    }
    let limit = std::time::Duration::from_secs(2);
    for method in ["POST", "PUT", "DELETE"] {
        let http = tidegate.http();
        let answer =
            crate::harness::http::request(http, method, "/api/v1/snapshot", &[], b"", limit);
        assert_eq!(answer.expect("it answers").status, 405, "{method}");
    }
}

fn await_readiness(tidegate: &mut Tidegate, status: u16, begins: &str, contains: &str) {
    let http = tidegate.http();
    let process = tidegate.process();
    eventually(
        &format!("/readyz answers {status} {begins}"),
        PATIENCE,
        || {
            process.assert_running();
            let answer = crate::harness::http::get(http, "/readyz").map_err(|e| e.to_string())?;
            let text = answer.text();
            let holds =
                answer.status == status && text.starts_with(begins) && text.contains(contains);
            check(holds, || format!("{} {text}", answer.status))
        },
    );
}

fn json(answer: &Response) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    serde_json::from_slice(&answer.body).expect("the API speaks JSON")
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
