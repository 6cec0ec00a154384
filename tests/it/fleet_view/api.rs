//! `/api/v1/fleet`: its forms, filters and limits.

use std::time::{Duration, Instant};

use tidegate::domain::fleet::{Merged, Report};
use tidegate::domain::key::Prefix;
use tidegate::domain::name::Name;

use crate::harness::tidegate::Tidegate;

use super::{await_fleet, fleet, list};

#[test]
fn filters_keep_to_parts_of_names_and_leave_the_numbers_whole() {
    let (_state, tidegate) = Tidegate::start_drained();
    for node in ["lb-1", "lb-2"] {
        for server in ["web/a", "web/b", "api/a"] {
            tidegate.ask_line(&format!("{server} node={node}"));
        }
    }
    await_fleet(&tidegate, "all are counted", |fleet| {
        fleet["totals"]["rows"] == 6
    });
    for (query, nodes, rows) in [
        ("", 2, 6),
        ("?node=lb-2", 1, 3),
        ("?server=web/", 2, 4),
        ("?node=-1&server=api/a", 1, 1),
        ("?node=elsewhere", 0, 0),
        ("?server=elsewhere", 0, 0),
    ] {
        let answer = tidegate.get(&format!("/api/v1/fleet{query}"));
        let view: serde_json::Value = serde_json::from_slice(&answer.body).expect("it is JSON");
        assert_eq!(view["totals"]["rows"], 6, "{query}");
        let shown = list(&view, "nodes");
        let count: usize = shown.iter().map(|node| list(node, "rows").len()).sum();
        assert_eq!((shown.len(), count), (nodes, rows), "{query}");
    }
    for query in [
        "?nodes=a",
        "?local=perhaps",
        "?local=true&node=lb-1",
        "?output=xml",
    ] {
        let answer = tidegate.get(&format!("/api/v1/fleet{query}"));
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
}

#[test]
fn a_table_shows_the_same_rows() {
    let (_state, tidegate) = Tidegate::start_drained();
    for server in ["web/a canary", "web/b"] {
        tidegate.ask_line(&format!("{server} node=lb-1 zone=b"));
    }
    // A poll is counted after its answer.
    await_fleet(&tidegate, "both are counted", |fleet| {
        fleet["totals"]["rows"] == 2
    });
    let page = "/api/v1/fleet?output=table&server=web/a";
    let answer = tidegate.get(page);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let text = answer.text();
    let begins = "1 nodes, 0 silent; 2 rows, 0 silent, 0 behind; newest listing: index ";
    assert!(text.starts_with(begins), "{text}");
    assert!(!text.contains("INCOMPLETE"), "{text}");
    let row = "lb-1  b     web/a   ok     drain";
    let rows: Vec<_> = text.lines().filter(|line| line.contains("lb-1")).collect();
    assert!(matches!(rows[..], [one] if one.starts_with(row)), "{text}");
}

#[test]
fn the_report_of_one_replica_reads_back_and_merges_with_others() {
    let (_state, tidegate) = Tidegate::start_drained();
    tidegate.ask_line("web/a canary node=lb-1 zone=b");
    await_fleet(&tidegate, "it is counted", |fleet| {
        fleet["totals"]["rows"] == 1
    });
    let prefix = Prefix::new("frontend", "gprd").expect("it is a prefix");
    let answer = tidegate.get("/api/v1/fleet?local=true");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let report = Report::parse(&answer.body, &prefix).expect("a replica reads it");
    assert_eq!(report.replica.as_str(), "a");
    let other = Report {
        replica: Name::parse("b").expect("it is a name"),
        ..report.clone()
    };
    let merged = Merged::of([report, other]);
    let row = merged.nodes["lb-1"].rows.values().next().expect("one row");
    assert_eq!((row.polls, merged.nodes.len()), (2, 1));
    let elsewhere = Prefix::new("frontend", "gstg").expect("it is a prefix");
    assert!(Report::parse(&answer.body, &elsewhere).is_err());
}

/// 60 nodes with 50 servers each: the rows of a large site.
#[test]
fn a_whole_site_is_shown_at_once() {
    let (_state, tidegate) = Tidegate::start_drained();
    for node in 0..60 {
        for server in 0..50 {
            let line =
                format!("web/gke-us-east1-b-{server} node=haproxy-main-{node} zone=us-east1-b");
            assert_eq!(tidegate.ask_line(&line), "up ready 100%");
        }
    }
    await_fleet(&tidegate, "all are counted", |fleet| {
        fleet["totals"]["rows"] == 3_000
    });
    let begin = Instant::now();
    let shown = fleet(&tidegate);
    let taken = begin.elapsed();
    assert_eq!(list(&shown, "nodes").len(), 60);
    assert_eq!(shown["rows_left_out"], 0);
    // A debug build on a loaded machine; a release build takes some ten milliseconds.
    assert!(taken < Duration::from_secs(2), "{taken:?}");
}
