//! Hostile names and values: in the KV, where somebody with a little right may write, and on the
//! agent port, where anybody may ask. They are shown as text and steer nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::consul::{Consul, expect_ok};
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

/// A line of its own, an escape sequence (7 bit and 8 bit), and a metric.
const FORGED: &str =
    "x\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[2J\u{9b}31m\u{7}\nforged_metric 1";
/// The commands that read, and one that shows a plan.
const READING: [&[&str]; 9] = [
    &["status"],
    &["status", "--output", "json"],
    &["get"],
    &["diff"],
    &["canary"],
    &["history"],
    &["explain", "web/a canary node=lb-1"],
    &["accept", "--dry-run"],
    &["set", "drain", "web/a", "--dry-run"],
];

/// A Consul whose keys, values and reasons are hostile, and a service that reads it.
fn scene(more: &[&str]) -> (Consul, Tidegate) {
    let consul = Consul::dev();
    consul.kv_put("frontend/gprd/_meta", META);
    let text = Value::from(FORGED).to_string();
    let canary = format!(
        r#"{{"v":1,"state":"drain","by":{text},"reason":{text},"change":{text},"trace":{text}}}"#
    );
    consul.kv_put("frontend/gprd/canary-state", &canary);
    consul.kv_put("frontend/gprd/server-overrides/web/a", FORGED);
    consul.kv_put("frontend/gprd/zones/b/canary-state", &canary);
    put(
        &consul,
        &format!("frontend/gprd/group-states/{FORGED}"),
        "ready",
    );
    put(&consul, &format!("frontend/gprd/{FORGED}"), FORGED);
    consul.kv_put(
        "frontend/gprd/deploys/cny",
        format!(r#"{{"active":true,"by":{text},"url":{text}}}"#),
    );
    consul.kv_put("frontend/gprd/settings", format!(r"{{{text}:{text}}}"));
    let record = format!(
        r#"{{"v":1,"id":"01","change":"01","at":"2026-01-01T00:00:00Z","by":{text},"reason":{text},"command":{text},"changed":[]}}"#
    );
    consul.kv_put("frontend-history/gprd/01", record);
    put(&consul, &format!("frontend-history/gprd/{FORGED}"), FORGED);
    let arguments = [&["--kv", "consul"], more].concat();
    let mut service = Tidegate::launch(&arguments, &consul_environment(&consul));
    service.await_ready();
    for line in [
        FORGED,
        "web/a \u{1b}[2J",
        "web/a node=\u{1b}[2J",
        "web/a forged\u{9b}31m",
    ] {
        service.ask(format!("{line}\n"));
    }
    service.await_answer("web/b canary node=lb-1", "up drain", PATIENCE);
    (consul, service)
}

/// Consul refuses such a name in a path, and takes it in a transaction.
fn put(consul: &Consul, key: &str, value: &str) {
    let operation =
        json!([{ "KV": { "Verb": "set", "Key": key, "Value": STANDARD.encode(value) } }]);
    let answer = consul.call("PUT", "/v1/txn", operation.to_string().as_bytes());
    expect_ok("a hostile key", &answer);
}

/// The first control character but a line end, or a line that was forged.
fn forged(text: &str) -> Option<String> {
    let control = text.chars().find(|char| char.is_control() && *char != '\n');
    let begins =
        |line: &&str| line.starts_with("forged_metric") || line.contains("Z  INFO forged\r");
    let line = text.lines().find(begins).map(str::to_owned);
    let stamped = text
        .lines()
        .find(|line| line.starts_with("2026-01-01T00:00:00Z"));
    control
        .map(|char| format!("{char:?}"))
        .or(line)
        .or(stamped.map(str::to_owned))
}

#[test]
fn no_value_key_or_request_forges_a_line_of_the_log() {
    let (consul, mut service) = scene(&["--log-level", "trace"]);
    consul.kv_put("frontend/gprd/server-overrides/web/a", "drain");
    service.await_answer("web/a", "up drain", PATIENCE);
    let log = service.process().log_text();
    assert!(log.contains("forged"), "it is shown at all");
    assert_eq!(forged(&log), None);
}

#[test]
fn no_value_key_or_request_forges_a_line_of_the_json_log() {
    let (_consul, mut service) = scene(&["--log-format", "json"]);
    let log = service.process().log_text();
    assert!(log.contains("forged"), "it is shown at all");
    assert_eq!(forged(&log), None);
    for line in log.lines() {
        let event: Result<Value, _> = serde_json::from_str(line);
        assert!(event.is_ok_and(|event| event.is_object()), "{line}");
    }
}

#[test]
fn no_value_key_or_request_forges_a_metric() {
    let (_consul, service) = scene(&[]);
    let metrics = eventually("the directives are shown", PATIENCE, || {
        let text = service.get("/metrics").text();
        check(text.contains("tidegate_desired_group_state"), || {
            text.clone()
        })?;
        Ok(text)
    });
    assert_eq!(forged(&metrics), None);
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            line.starts_with("tidegate_") || line.starts_with("process_"),
            "{line}"
        );
    }
    assert!(!metrics.contains("forged"), "{metrics}");
}

#[test]
fn views_for_a_terminal_and_answers_of_the_service_hold_no_control_character() {
    let (_consul, service) = scene(&[]);
    for path in [
        "/readyz",
        "/api/v1/snapshot?entries=true",
        "/api/v1/fleet?output=table",
        "/api/v1/fleet",
        "/api/v1/replicas",
        "/api/v1/groups/canary",
        "/api/v1/explain?request=web/a+canary+node=lb-1",
        "/api/v1/explain?request=%1b%5b2J",
        "/",
    ] {
        let answer = service.get(path);
        let is_json = answer.header("Content-Type") == Some("application/json");
        let mut text = answer.text();
        if is_json {
            // JSON lets control characters above ASCII stand in a string; it is no text for people.
            text.retain(|char| !('\u{7f}'..='\u{9f}').contains(&char));
        }
        assert_eq!(forged(&text), None, "{path}: {text:?}");
    }
    // An answer to HAProxy repeats nothing of what was asked.
    let answer = service.ask("web/a \u{1b}[2J\n");
    assert_eq!(answer, b"unknown-request\n", "{answer:?}");
}

#[test]
fn what_commands_print_holds_no_control_character() {
    let (consul, service) = scene(&[]);
    let replica = format!("http://{}", service.http());
    let environment = consul_environment(&consul);
    for command in READING {
        let mut arguments = command.to_vec();
        arguments.extend(["--env", "gprd"]);
        if !["history", "explain"].contains(&command[0]) {
            arguments.extend(["--replica", &replica]);
        }
        let output = tidegate(&arguments, &environment);
        for text in [&output.stdout, &output.stderr] {
            assert_eq!(forged(text), None, "{arguments:?}: {text:?}");
        }
        assert!(
            !output.stdout.is_empty() || !output.stderr.is_empty(),
            "{arguments:?}"
        );
    }
}
