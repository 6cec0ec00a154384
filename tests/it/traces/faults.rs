//! A collector that is slow costs spans, and nothing else; one that dies does so in
//! `slow::traces`.

use std::net::TcpListener;

use super::*;
use crate::harness::collector;

#[test]
fn a_collector_that_hangs_holds_up_neither_a_command_nor_the_stop() {
    // The kernel takes the connections; nobody ever reads from them.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let environment = collector::environment(mute.local_addr().expect("it is bound"));
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let mut replica = Tidegate::launch(&["--kv", &state.kv()], &environment);
    replica.await_ready();
    let begin = Instant::now();
    let kv = state.kv();
    let arguments = ["canary", "--drain", "--env", "gprd", "--kv", &kv];
    let output = tidegate(&arguments, &environment);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    assert!(begin.elapsed() < COMMAND_TIME_MAX, "{:?}", begin.elapsed());
    replica.await_answer("web/a canary", "up drain", PATIENCE);
    let status = replica.process().stop_within(Duration::from_secs(4));
    assert_eq!(status.code(), Some(0));
    replica
        .process()
        .await_log("not all traces were sent", PATIENCE);
}

#[test]
fn ended_spans_wait_in_bounded_memory_and_the_others_are_counted() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let mut environment = collector::environment(mute.local_addr().expect("it is bound"));
    environment.push(("OTEL_BSP_MAX_QUEUE_SIZE".to_owned(), "4".to_owned()));
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let mut replica = Tidegate::launch(&["--kv", &state.kv()], &environment);
    replica.await_ready();
    for state_word in ["drain", "ready", "drain", "maint"] {
        state.put("canary-state", state_word);
        let expected = match state_word {
            "ready" => "up ready 100%".to_owned(),
            other => format!("up {other}"),
        };
        replica.await_answer("web/a canary", &expected, PATIENCE);
    }
    eventually("spans without room are counted", PATIENCE, || {
        let dropped = replica.count(r#"tidegate_trace_spans_total{outcome="dropped"}"#);
        check(dropped > 0, || "none".to_owned())
    });
}

#[test]
fn variables_that_cannot_be_used_cost_the_traces_alone() {
    for (name, value, why) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/protobuf",
            "traces are sent by grpc only",
        ),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "/nowhere/ca.pem",
            "the collector's address is no https:// one",
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "it takes 1 to 65536"),
    ] {
        let mut environment = collector::environment(([127, 0, 0, 1], 1).into());
        environment.push((name.to_owned(), value.to_owned()));
        let state = StateFolder::new();
        state.put("canary-state", "ready");
        let mut replica = Tidegate::launch(&["--kv", &state.kv()], &environment);
        replica.await_ready();
        let log = replica.process().log_text();
        assert!(
            log.contains("there will be no traces: ") && log.contains(why),
            "{log}"
        );
        let kv = state.kv();
        let arguments = ["canary", "--drain", "--env", "gprd", "--kv", &kv];
        let output = tidegate(&arguments, &environment);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(
            output.stderr.contains("note: this command is not traced: "),
            "{output:?}"
        );
        assert!(output.stderr.contains(why), "{output:?}");
    }
}
