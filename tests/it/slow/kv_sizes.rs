//! Ten thousand keys.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::consul::{Consul, expect_ok};
use crate::harness::recorder::Recorder;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::kv_cases::{DRAINED, key, set_up};

const KEYS: usize = 10_000;
/// What Consul 1.8 takes in one transaction.
const OPERATIONS_MAX: usize = 64;

fn fill(consul: &Consul) {
    set_up(consul);
    let numbers: Vec<usize> = (0..KEYS).collect();
    for some in numbers.chunks(OPERATIONS_MAX) {
        // "drain" in base64.
        let set = |number: &usize| {
            let path = key(&format!(
                "server-overrides/backend-{}/server-{number}",
                number % 50
            ));
            json!({ "KV": { "Verb": "set", "Key": path, "Value": "ZHJhaW4=" } })
        };
        let operations: Vec<_> = some.iter().map(set).collect();
        let body = json!(operations).to_string();
        expect_ok(
            "a transaction",
            &consul.call("PUT", "/v1/txn", body.as_bytes()),
        );
    }
}

#[test]
fn ten_thousand_keys_are_answered_from_and_followed() {
    let consul = Consul::dev();
    fill(&consul);
    let begin = Instant::now();
    let mut tidegate = Tidegate::launch(&["--kv", "consul"], &consul_environment(&consul));
    tidegate.await_ready();
    assert_eq!(tidegate.ask_line("backend-49/server-9999"), "up drain");
    println!("first answer after {:.2?}", begin.elapsed());
    let recorder = Recorder::start(&tidegate, DRAINED);
    let line = "backend-0/server-0";
    let path = key("server-overrides/backend-0/server-0");
    let mut times = Vec::new();
    for answer in ["maint", "drain", "maint", "drain", "maint"] {
        let begin = Instant::now();
        consul.kv_put(&path, answer);
        tidegate.await_answer(line, &format!("up {answer}"), Duration::from_secs(5));
        times.push(begin.elapsed());
    }
    println!("changes answered after {times:.2?}");
    // A deletion of many keys is believed after questions about a part of them.
    let begin = Instant::now();
    consul.kv_delete_recurse(&key("server-overrides/backend-1/"));
    tidegate.await_answer(
        "backend-1/server-1",
        "up ready 100%",
        Duration::from_secs(10),
    );
    println!("200 deleted keys: answered after {:.2?}", begin.elapsed());
    recorder.assert_only(&["up drain"]);
}
