//! Peers that end, break or neglect their connection.

use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::{UNKNOWN_REQUEST, check_answer, service, state};
use crate::harness::dial::reset;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

const GONE: &str = r#"tidegate_agent_silent_total{reason="gone"}"#;
const UNREADABLE: &str = r#"tidegate_agent_answers_total{answer="unknown_request"}"#;
const DRAINED: &str = r#"tidegate_agent_answers_total{answer="drain"}"#;
const OPEN: &str = "tidegate_agent_connections";

/// Waits until a series has this value.
fn await_metric(tidegate: &Tidegate, series: &str, value: f64) {
    eventually(series, PATIENCE, || {
        let seen = tidegate.metric(series);
        #[expect(clippy::float_cmp, reason = "counts are whole numbers")]
        check(seen == value, || seen.to_string())
    });
}

#[test]
fn a_half_closed_request_is_answered() {
    let (_state, tidegate) = service();
    for request in ["web/slow\n", "web/slow", "\"web/slow"] {
        let mut stream = tidegate.connect();
        stream
            .write_all(request.as_bytes())
            .expect("the service takes it");
        stream.shutdown(Shutdown::Write).expect("it is connected");
        let begin = Instant::now();
        let answer = tidegate.read_to_end(&mut stream);
        let words = if request.starts_with('"') {
            UNKNOWN_REQUEST
        } else {
            "up ready 40%"
        };
        check_answer(request, &answer, words);
        // The end of the stream ends the line, and nobody has to be waited for.
        assert!(
            begin.elapsed() < Duration::from_millis(400),
            "{:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn a_balancers_probe_is_counted_and_neither_logged_nor_taken_for_a_request() {
    let (_state, mut tidegate) = service();
    let log = tidegate.process().log_text();
    for _ in 0..25 {
        drop(tidegate.connect());
    }
    await_metric(&tidegate, GONE, 25.0);
    await_metric(&tidegate, UNREADABLE, 0.0);
    assert_eq!(tidegate.process().log_text(), log);
}

#[test]
fn a_peer_that_resets_costs_nothing_and_is_not_logged() {
    let (_state, mut tidegate) = service();
    let log = tidegate.process().log_text();
    for begun in [&b""[..], b"web/cny can", b"web/cny canary\n"] {
        for _ in 0..10 {
            let mut stream = tidegate.connect();
            stream.write_all(begun).expect("the service takes it");
            reset(stream);
        }
    }
    // The kernel connects before the service accepts: that none is open says nothing yet.
    // The whole requests may have been answered before the reset came, the others not.
    eventually("every connection is counted", PATIENCE, || {
        let (gone, drained) = (tidegate.metric(GONE), tidegate.metric(DRAINED));
        let whole = (20.0..=30.0).contains(&gone) && (gone + drained - 30.0).abs() < 0.5;
        check(whole, || format!("{gone} gone, {drained} answered"))
    });
    await_metric(&tidegate, OPEN, 0.0);
    assert_eq!(tidegate.process().log_text(), log);
    assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
}

#[test]
fn a_peer_that_never_closes_is_closed_after_half_a_second() {
    let (_state, tidegate) = service();
    let mut stream = tidegate.connect();
    stream
        .write_all(b"web/cny canary\n")
        .expect("the service takes it");
    let begin = Instant::now();
    let answer = tidegate.read_to_end(&mut stream);
    let span = begin.elapsed();
    check_answer("never closes", &answer, "up drain");
    println!("closed after {span:?}");
    assert!(span >= Duration::from_millis(500), "{span:?}");
    assert!(span < Duration::from_secs(1), "{span:?}");
}

#[test]
fn with_close_fin_the_service_ends_a_poll_with_its_answer() {
    let state = state();
    let tidegate = Tidegate::start(&["--kv", &state.kv(), "--agent-close", "fin"]);
    let begin = Instant::now();
    for _ in 0..10 {
        let answer = tidegate.ask_to_end("web/cny canary\n");
        check_answer("fin", &answer, "up drain");
    }
    let span = begin.elapsed();
    // Otherwise each of them is held open for half a second.
    assert!(span < Duration::from_millis(500), "{span:?}");
    await_metric(&tidegate, OPEN, 0.0);
}

#[test]
fn a_peer_that_never_reads_is_let_go() {
    let (_state, tidegate) = service();
    let mut held = Vec::new();
    for _ in 0..50 {
        let mut stream = tidegate.connect();
        stream
            .write_all(b"web/cny canary\n")
            .expect("the service takes it");
        held.push(stream);
    }
    let begin = Instant::now();
    await_metric(&tidegate, DRAINED, 50.0);
    await_metric(&tidegate, OPEN, 0.0);
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_peer_that_sends_without_end_is_cut_off() {
    let (_state, tidegate) = service();
    let mut stream = tidegate.connect();
    let chunk = [b'x'; 4_096];
    let mut sent = 0;
    // Far more than both ends' buffers hold.
    while sent < 64 << 20 && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    await_metric(&tidegate, OPEN, 0.0);
}
