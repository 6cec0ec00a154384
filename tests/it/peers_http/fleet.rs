//! What peers tell each other of the fleet, and have each other forget.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use tidegate::domain::fleet::{Missing, Report};
use tidegate::domain::key::Prefix;
use tidegate::domain::statement::Statement;
use tidegate::domain::word::Identity;
use tidegate::fleet::{Forgot, Others as _};
use tidegate::peers::{FLEET_TIME_MAX, FleetAsk, REPORT_BYTES_MAX};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::bad_peers::{HEAD, LATE_MAX, drip, endless, serving, wait_for_ever};
use super::{Replica, TOKEN, identity, known_fleet, name, parse, peer};

#[tokio::test]
async fn a_peer_tells_its_report_and_forgets_a_node() {
    let replica = Replica::start(identity("b"), None, 0).await;
    let ask = asking(None, replica.address);
    assert_eq!(nodes(&ask.reports().await), [Ok(vec!["lb-1".to_owned()])]);
    let forgot = |rows| {
        let replica = name("b");
        [Ok(Forgot { replica, rows })]
    };
    assert_eq!(ask.forget(&name("lb-10")).await, forgot(0));
    assert_eq!(ask.forget(&name("lb-1")).await, forgot(1));
    assert_eq!(ask.forget(&name("lb-1")).await, forgot(0));
    assert_eq!(nodes(&ask.reports().await), [Ok(Vec::new())]);
}

#[tokio::test]
async fn who_is_of_another_kind_is_missing_and_forgets_nothing() {
    for (other, text) in [
        (
            Identity {
                prefix: Prefix::new("frontend", "gstg").expect("a prefix"),
                digest: 8,
                ..identity("b")
            },
            "it serves frontend/gstg/, not frontend/gprd/",
        ),
        (
            Identity {
                prefix: Prefix::new("backend", "gprd").expect("a prefix"),
                digest: 8,
                ..identity("b")
            },
            "it serves backend/gprd/, not frontend/gprd/",
        ),
        (
            Identity {
                schema: 2,
                digest: 8,
                ..identity("b")
            },
            "it reads schema 2, this replica 1",
        ),
        (identity("c"), "it is slot c, not b"),
        (
            Identity {
                digest: 8,
                ..identity("b")
            },
            "poll_interval",
        ),
    ] {
        let replica = Replica::start(other, None, 0).await;
        expect_missing(replica.address, None, text).await;
        let known = replica.fleet.report().nodes;
        assert!(known.contains_key("lb-1"), "{text}: it was forgotten");
    }
}

#[tokio::test]
async fn without_the_token_of_the_peers_nothing_is_told_or_forgotten() {
    let replica = Replica::start(identity("b"), None, 0).await;
    replica.token.store(Some(parse(TOKEN).into()));
    for token in [None, Some("0123456789abcdef-of-others")] {
        expect_missing(replica.address, token, "give all replicas the same").await;
    }
    let ask = asking(Some(TOKEN), replica.address);
    assert_eq!(nodes(&ask.reports().await), [Ok(vec!["lb-1".to_owned()])]);
}

#[tokio::test]
async fn what_is_no_report_says_why() {
    let statement = |slot: &str, says: String| {
        let from = identity(slot);
        Statement { from, says }.to_json()
    };
    let report = |slot: &str| known_fleet(&identity(slot)).to_json(&identity(slot).prefix);
    for (body, text) in [
        ("{}".to_owned(), "not what a replica says"),
        (
            statement("b", "{\"v\":2}".to_owned()),
            "not what a replica says",
        ),
        (statement("b", report("c")), "it is the report of c"),
        (statement("c", report("c")), "it is slot c, not b"),
        (
            statement("b", report("b").replace("gprd", "gstg")),
            "it is of frontend/gstg/",
        ),
    ] {
        let say = async |mut stream: TcpStream| {
            stream.write_all(HEAD).await?;
            stream.write_all(body.as_bytes()).await
        };
        let reports = reports_from(say).await;
        assert_eq!(reports.len(), 1);
        expect_why(&reports[0], text);
    }
    for status in ["401 No", "404 No", "500 No"] {
        let head = format!("HTTP/1.1 {status}\r\n\r\n");
        let say = async |mut stream: TcpStream| stream.write_all(head.as_bytes()).await;
        expect_why(&reports_from(say).await[0], &status[..3]);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_left_at_its_limits() {
    let begun = Instant::now();
    expect_why(&reports_from(wait_for_ever).await[0], "no whole answer");
    expect_why(&reports_from(drip).await[0], "no whole answer");
    let taken = begun.elapsed();
    assert!(taken < 2 * (FLEET_TIME_MAX + LATE_MAX), "{taken:?}");

    let text = format!("larger than {REPORT_BYTES_MAX} bytes");
    expect_why(&reports_from(endless).await[0], &text);
}

/// The way of replica `a` to its one peer.
fn asking(token: Option<&str>, address: SocketAddr) -> FleetAsk {
    let held = ArcSwapOption::from_pointee(token.map(parse));
    let (asker, peers) = (Arc::new(identity("a")), vec![peer(address)]);
    let ask = FleetAsk::new(asker, Arc::new(held), Vec::new(), peers);
    ask.expect("an HTTP client")
}

/// What is told by a listener that reads the request, and then does this.
async fn reports_from(
    answer: impl AsyncFn(TcpStream) -> std::io::Result<()>,
) -> Vec<Result<Report, Missing>> {
    serving(answer, async |address| {
        asking(None, address).reports().await
    })
    .await
}

/// Neither a report nor a node that was forgotten, for a reason that says this.
async fn expect_missing(address: SocketAddr, token: Option<&str>, text: &str) {
    let ask = asking(token, address);
    expect_why(&ask.reports().await[0], text);
    expect_why(&ask.forget(&name("lb-1")).await[0], text);
}

fn expect_why<T: std::fmt::Debug>(outcome: &Result<T, Missing>, text: &str) {
    let Err(Missing { replica, why }) = outcome else {
        panic!("{text:?} expected: {outcome:?}");
    };
    assert_eq!(*replica, name("b"));
    assert!(why.contains(text), "{why:?} lacks {text:?}");
}

fn nodes(reports: &[Result<Report, Missing>]) -> Vec<Result<Vec<String>, &Missing>> {
    let names = |report: &Report| report.nodes.keys().map(ToString::to_string).collect();
    let reports = reports.iter().map(Result::as_ref);
    reports.map(|report| report.map(names)).collect()
}
