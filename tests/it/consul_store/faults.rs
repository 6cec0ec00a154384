//! Agents that hang, die, or answer what no Consul should.

use std::time::{Duration, Instant};

use tidegate::kv::consul::ConsulKv;
use tidegate::kv::{Kv, KvError};

use super::peer::{Manner, Peer};
use super::{connect, gprd, set, settings, with};
use crate::harness::consul::Consul;
use crate::harness::wait::{PATIENCE, eventually_async};

/// Which error, without its text.
fn kind(error: &KvError) -> &'static str {
    match error {
        KvError::Denied(_) => "denied",
        KvError::Unreachable(_) => "unreachable",
        KvError::BadAnswer(_) => "bad answer",
        KvError::BadRequest(_) => "bad request",
        KvError::ReadOnly(_) => "read only",
        KvError::OutcomeUnknown(_) => "outcome unknown",
    }
}

const INDEX: &str = "X-Consul-Index: 7\r\n";
const NO_LEADER: &str = "X-Consul-Index: 7\r\nX-Consul-KnownLeader: false\r\n";
const FILTERED: &str = "X-Consul-Index: 7\r\nX-Consul-Results-Filtered-By-ACLs: true\r\n";
const REDIRECT: &str = "Location: http://127.0.0.1:1/\r\n";
const OUTSIDE: &str = r#"[{"LockIndex":0,"Key":"frontend/gprd2/a","Flags":0,"Value":"MQ==",
    "CreateIndex":5,"ModifyIndex":5}]"#;
const NO_BASE64: &str = r#"[{"LockIndex":0,"Key":"frontend/gprd/a","Flags":0,"Value":"?",
    "CreateIndex":5,"ModifyIndex":5}]"#;
const BAD: &str = "bad answer";
const GONE: &str = "unreachable";
const UNKNOWN: &str = "outcome unknown";

/// Status, headers and body of an answer; the kinds of error of a read and of a write; and what
/// the read's error says.
type Row = [&'static str; 6];

#[rustfmt::skip]
const ROWS: [Row; 19] = [
    ["500 Oops", "", "No cluster leader", GONE, UNKNOWN, "No cluster leader"],
    ["503 Oops", INDEX, "", GONE, UNKNOWN, "503"],
    ["429 Slow", "", "rate limit", GONE, GONE, "rate limit"],
    ["200 OK", NO_LEADER, "[]", GONE, UNKNOWN, "X-Consul-KnownLeader"],
    ["404 None", NO_LEADER, "", GONE, BAD, "X-Consul-KnownLeader"],
    ["200 OK", FILTERED, "[]", "denied", UNKNOWN, "Filtered-By-ACLs"],
    ["403 No", "", "Permission denied", "denied", "denied", "CONSUL_HTTP_TOKEN"],
    ["400 Bad", "", "an HTTPS server", BAD, "bad request", "an HTTPS server"],
    ["404 None", "", "not here", BAD, BAD, "X-Consul-Index"],
    ["200 OK", "", "<html>", BAD, UNKNOWN, "X-Consul-Index"],
    ["404 None", "X-Consul-Index: 0\r\n", "", BAD, BAD, "X-Consul-Index"],
    ["404 None", "X-Consul-Index: 99999999999999999999\r\n", "", BAD, BAD, "X-Consul-Index"],
    ["200 OK", INDEX, "<html>", BAD, UNKNOWN, "KV entries"],
    ["200 OK", INDEX, OUTSIDE, BAD, UNKNOWN, "gprd2"],
    ["200 OK", INDEX, NO_BASE64, BAD, UNKNOWN, "base64"],
    ["301 Moved", REDIRECT, "", BAD, BAD, "redirect"],
    ["307 Moved", REDIRECT, "", BAD, BAD, "not followed"],
    ["413 Large", "", "too large", BAD, "bad request", "too large"],
    ["409 No", "", "", BAD, BAD, "409"],
];

/// A read and a write to a peer that answers so.
async fn check([status, headers, body, read, write, says]: Row) {
    let peer = Peer::answering(status, headers, body).await;
    let kv = with(&[("CONSUL_HTTP_ADDR", &peer.url())]).unwrap();
    let what = format!("{status} {headers:?} {body:?}");
    let error = kv.list(&gprd()).await.unwrap_err();
    assert_eq!(kind(&error), read, "read: {what}: {error}");
    assert!(error.to_string().contains(says), "{what}: {error}");
    let error = kv.transact(&[set("frontend/gprd/a", "1")]).await;
    let error = error.unwrap_err();
    assert_eq!(kind(&error), write, "write: {what}: {error}");
    assert_eq!(peer.requests().len(), 2, "{what}: asked again");
}

#[tokio::test]
async fn an_answer_that_no_consul_should_give_is_an_error_of_the_right_kind() {
    for row in ROWS {
        check(row).await;
    }
}

/// A store with short limits, for peers that never answer.
fn hasty(url: &str) -> ConsulKv {
    let mut settings = settings(&[("CONSUL_HTTP_ADDR", url)]).unwrap();
    settings.limits.answer = Duration::from_millis(300);
    settings.limits.blocking_slack = Duration::from_millis(100);
    ConsulKv::new(settings).unwrap()
}

fn assert_took(begin: Instant, limit: Duration) {
    let took = begin.elapsed();
    let latest = limit + Duration::from_secs(1);
    assert!((limit..latest).contains(&took), "{took:?}, not {limit:?}");
}

#[tokio::test]
async fn a_silent_peer_costs_the_set_time_and_no_more() {
    let peer = Peer::start(Manner::Silent).await;
    let kv = hasty(&peer.url());
    let limit = Duration::from_millis(300);

    let begin = Instant::now();
    let error = kv.list(&gprd()).await.unwrap_err();
    assert_took(begin, limit);
    assert_eq!(kind(&error), "unreachable");
    assert!(
        error.to_string().contains("no whole answer within 300ms"),
        "{error}"
    );

    let begin = Instant::now();
    let error = kv.confirm(&gprd()).await.unwrap_err();
    assert_took(begin, limit);
    assert_eq!(kind(&error), "unreachable");

    let begin = Instant::now();
    let wait = Duration::from_millis(320);
    let error = kv.watch(&gprd(), 7, wait).await.unwrap_err();
    assert_took(begin, Duration::from_millis(320 + 20 + 100));
    assert_eq!(kind(&error), "unreachable");

    let begin = Instant::now();
    let error = kv
        .transact(&[set("frontend/gprd/a", "1")])
        .await
        .unwrap_err();
    assert_took(begin, limit);
    assert_eq!(kind(&error), "outcome unknown");
}

#[tokio::test]
async fn an_answer_that_ends_early_or_never_is_no_answer() {
    let endless = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nContent-Length: 100000\r\n\r\n[";
    let peer = Peer::start(Manner::Answer(endless.into())).await;
    let error = hasty(&peer.url()).list(&gprd()).await.unwrap_err();
    assert_eq!(kind(&error), "unreachable", "{error}");

    let long = " ".repeat(2_000);
    let peer = Peer::answering("200 OK", "X-Consul-Index: 7\r\n", &long).await;
    let mut settings = settings(&[("CONSUL_HTTP_ADDR", &peer.url())]).unwrap();
    settings.limits.body_bytes_max = 1_999;
    let error = ConsulKv::new(settings).unwrap().list(&gprd()).await;
    let error = error.unwrap_err();
    assert_eq!(kind(&error), "bad answer", "{error}");
    assert!(
        error.to_string().contains("larger than 1999 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn a_peer_that_closes_may_have_written_and_one_that_refuses_has_not() {
    let peer = Peer::start(Manner::Close).await;
    let kv = hasty(&peer.url());
    let error = kv.list(&gprd()).await.unwrap_err();
    assert_eq!(kind(&error), "unreachable", "{error}");
    let error = kv
        .transact(&[set("frontend/gprd/a", "1")])
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "outcome unknown", "{error}");

    // Bound and not listening: nobody else takes the port, and it refuses.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let kv = hasty(&format!("http://{address}"));
    for error in [
        kv.list(&gprd()).await.unwrap_err(),
        kv.transact(&[set("frontend/gprd/a", "1")])
            .await
            .unwrap_err(),
    ] {
        assert_eq!(kind(&error), "unreachable", "{error}");
        let text = error.to_string();
        assert!(
            text.contains("refused") && text.contains(&address.to_string()),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_agent_is_unreachable_within_two_seconds_and_a_write_to_it_is_unknown() {
    let mut consul = Consul::dev();
    let kv = connect(&consul, &[]);
    kv.transact(&[set("frontend/gprd/a", "1")]).await.unwrap();
    consul.process().pause();
    let begin = Instant::now();
    let error = kv.list(&gprd()).await.unwrap_err();
    assert_took(begin, Duration::from_secs(2));
    assert_eq!(kind(&error), "unreachable", "{error}");
    let error = kv
        .transact(&[set("frontend/gprd/a", "2")])
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "outcome unknown", "{error}");
    consul.process().resume();
    // The write had been sent, and is applied: this is what "unknown" means.
    eventually_async("the late write shows", PATIENCE, async || {
        match kv.get("frontend/gprd/a").await {
            Ok(Some(entry)) if entry.value == "2" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_its_agent_and_the_store_works_on_after_the_restart() {
    let mut consul = Consul::single();
    let kv = std::sync::Arc::new(connect(&consul, &[]));
    kv.transact(&[set("frontend/gprd/a", "1")]).await.unwrap();
    let before = kv.list(&gprd()).await.unwrap();
    let (watcher, after) = (kv.clone(), before.index);
    let watch =
        tokio::spawn(async move { watcher.watch(&gprd(), after, Duration::from_secs(20)).await });
    let begin = Instant::now();
    consul.kill();
    let error = watch.await.unwrap().unwrap_err();
    assert_eq!(kind(&error), "unreachable", "{error}");
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    consul.start();
    let after = kv.list(&gprd()).await.unwrap();
    assert!(after.same_contents(&before), "{after:?}");
}
