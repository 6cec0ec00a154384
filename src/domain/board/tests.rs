//! Boards of small fleets, built from the text of keys and reports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::domain::answer::Answer;
use crate::domain::authority::AuthorityName;
use crate::domain::fleet::{Identity, Polled, Report, Table, Told, Version};
use crate::domain::listing::Listing;
use crate::domain::name::ServerId;
use crate::domain::observed::Observation;
use crate::domain::view;

const NOW: &str = "2026-11-30T10:00:00Z";

/// One row: node, zone, server, how long ago it polled, what it was told.
type Polls<'a> = (&'a str, Option<&'a str>, &'a str, i64, &'a str);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn report(snapshot: &Snapshot, rows: &[Polls<'_>]) -> Report {
    let now = at(NOW);
    let mut table = Table::new(10_000);
    for (node, zone, server, ago, answer) in rows {
        let last = now - SignedDuration::from_secs(*ago);
        let identity = Identity {
            node: name(node),
            server: ServerId::parse(server).unwrap(),
            zone: zone.map(name),
            address: IpAddr::from([127, 0, 0, 1]),
        };
        let told = Answer::from_words(answer).map(|answer| Told {
            at: last,
            version: Version::of(snapshot),
            answer,
        });
        table.record(&identity, &Polled::once(last, told));
    }
    Report {
        replica: name("a"),
        at: now,
        since: now - SignedDuration::from_hours(1),
        poll_interval: Duration::from_secs(2),
        newest: Some(Version::of(snapshot)),
        dropped: 0,
        nodes: table.nodes().clone(),
    }
}

fn board(entries: &[(&str, &str)], rows: &[Polls<'_>], now: &str) -> Board {
    let snapshot = Snapshot::build(&Listing::with_sentinel(7, entries)).unwrap();
    let fleet = Merged::of([report(&snapshot, rows)]);
    let view = View::new(view::Parts {
        snapshot: Some(&snapshot),
        fleet: Some(&fleet),
        observation: Observation::default(),
        missing: Vec::new(),
        now: at(now),
    });
    let verdict = Verdict {
        name: AuthorityName::Current,
        reason: "confirmed".to_owned(),
    };
    Board::new(&Parts {
        prefix: &Prefix::new("frontend", "gprd").unwrap(),
        snapshot: Some(&snapshot),
        deploys: &[],
        verdicts: &[(None, verdict)],
        replica_problems: &[],
        fleet: &fleet,
        missing: &[],
        view: &view,
    })
}

#[test]
fn servers_stand_by_zone_and_those_out_of_the_ordinary_come_first() {
    let rows = [
        ("n1", Some("b"), "a/main", 1, "ready 100%"),
        ("n2", Some("c"), "a/main", 1, "ready 100%"),
        ("n1", Some("b"), "z/out", 1, "maint"),
        ("n2", Some("c"), "z/out", 1, "ready 100%"),
        ("n3", None, "z/out", 1, "maint"),
        ("n1", Some("b"), "m/gke-cny-web", 1, "ready 100%"),
    ];
    // Of a server that the settings do not list, an answer may be that of a group.
    let settings = r#"{"rows":[{"server":"z/out"}]}"#;
    let entries = [("canary-state", "ready"), ("settings", settings)];
    let matrix = board(&entries, &rows, NOW).matrix;
    assert_eq!(matrix.zones, [Some(name("b")), Some(name("c")), None]);
    let servers: Vec<_> = matrix.servers.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(servers, ["z/out", "m/gke-cny-web", "a/main"]);
    let cells = &matrix.servers[0].cells;
    let told = |cell: &Cell| cell.answers.first().map(|(kind, _, count)| (*kind, *count));
    let of = [
        Some((Kind::Maint, 1)),
        Some((Kind::Ready, 1)),
        Some((Kind::Maint, 1)),
    ];
    assert_eq!(cells.iter().map(told).collect::<Vec<_>>(), of);
    // They were told what nobody asks for.
    assert_eq!(cells.iter().map(|cell| cell.waiting).sum::<usize>(), 2);
}

#[test]
fn what_does_not_fit_is_counted() {
    let names: Vec<_> = (0..300)
        .map(|at| (format!("n{at:03}"), format!("web/s{at:03}")))
        .collect();
    let rows: Vec<_> = names
        .iter()
        .map(|(node, server)| (&**node, Some(&node[..2]), &**server, 1, "ready 100%"))
        .collect();
    let keys: Vec<_> = (0..90)
        .map(|at| format!("server-overrides/web/x{at}"))
        .collect();
    let entries: Vec<_> = keys.iter().map(|key| (&**key, "draim")).collect();
    let board = board(&entries, &rows, NOW);
    assert_eq!(board.rows, 300);
    assert_eq!(
        (board.matrix.servers.len(), board.matrix.more),
        (SERVERS_MAX, (180, 180))
    );
    assert_eq!(
        (board.nodes.listed.len(), board.nodes.more),
        (NODES_MAX, 100)
    );
    assert_eq!(
        (board.findings.listed.len(), board.findings.more),
        (FINDINGS_MAX, 50)
    );
    assert_eq!(
        (board.stands.listed.len(), board.stands.more),
        (STANDING_MAX, 65)
    );
    assert_eq!(board.matrix.zones.len(), 3);
}

#[test]
fn a_node_is_as_far_as_the_row_that_is_least_far() {
    let rows = [
        ("n1", None, "web/a", 1, "ready 100%"),
        ("n1", None, "web/b", 3, ""),
        ("n2", None, "web/a", 60, "ready 100%"),
        ("n3", None, "web/a", 2, "ready 100%"),
    ];
    let nodes = board(&[], &rows, NOW).nodes;
    assert_eq!((nodes.total, nodes.silent, nodes.waiting), (3, 1, 1));
    let lines: Vec<_> = nodes
        .listed
        .iter()
        .map(|line| {
            (
                line.name.as_str(),
                line.applied,
                line.rows,
                line.is_silent(),
            )
        })
        .collect();
    let expected = [
        ("n2", Some(7), 1, true),
        ("n1", None, 2, false),
        ("n3", Some(7), 1, false),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_ramp_says_which_nodes_have_it_and_how_much_of_its_step_is_over() {
    let ramp = r#"{"state":"ready","since":"2026-11-30T09:57:00Z","ramp":{"by":"nodes",
        "steps":[25,50],"every":"2m","nodes":["n1","n2","n3","n4"]}}"#;
    let all = ["n1", "n2", "n3", "n4"];
    let rows: Vec<_> = all
        .map(|node| (node, None, "web/gke-cny-web", 1, "drain"))
        .into();
    for rows in [&rows[..], &[]] {
        let course = board(&[("canary-state", ramp)], rows, NOW)
            .canary
            .ramp
            .unwrap();
        assert_eq!((course.at, course.percent(), course.goal), (1, 50, 100));
        assert_eq!(course.permille(at(NOW)), Some(500));
        assert_eq!(course.next, Some(at("2026-11-30T10:01:00Z")));
        assert_eq!(course.end, Some(at("2026-11-30T10:01:00Z")));
        assert_eq!(course.inside, [name("n1"), name("n2")]);
        assert_eq!(course.outside, [name("n3"), name("n4")]);
    }
    let held = ramp.replace(r#""every":"2m","#, "");
    let course = board(&[("canary-state", &held)], &rows, NOW)
        .canary
        .ramp
        .unwrap();
    assert_eq!((course.percent(), course.permille(at(NOW))), (25, None));
    let over = board(&[("canary-state", ramp)], &rows, "2026-11-30T10:01:00Z");
    assert_eq!(over.canary.ramp, None);
    let weight = r#"{"state":"ready","weight":40,"since":"2026-11-30T09:59:00Z",
        "ramp":{"by":"weight","steps":[5,10,20],"every":"2m"}}"#;
    let course = board(&[("canary-state", weight)], &[], NOW)
        .canary
        .ramp
        .unwrap();
    assert_eq!((course.by, course.goal, course.at), ("weight", 40, 0));
    assert_eq!(course.end, Some(at("2026-11-30T10:05:00Z")));
}

#[test]
fn each_trouble_has_its_finding_and_its_command() {
    let entries = [
        ("canary-state", "dran"),
        ("zones/b/server-overrides/web/x", "draim"),
        ("nodes/n1/canary-state", "draim"),
        (
            "settings",
            r#"{"rows":[{"server":"web/nobody"},{"server":"web/b"}]}"#,
        ),
        ("what", "1"),
    ];
    let rows = [
        ("gone", None, "web/a", 60, "ready 100%"),
        ("lost", None, "web/a", 1, "unknown-group"),
        ("n1", None, "web/b", 1, "drain"),
    ];
    let found = board(&entries, &rows, NOW).findings.listed;
    let lines: Vec<_> = found
        .iter()
        .map(|f| (f.what.as_str(), f.command.as_deref()))
        .collect();
    let expected = [
        (
            "A key cannot be read",
            Some("tidegate canary --env gprd --drain --reason WHY"),
        ),
        (
            "A key cannot be read",
            Some("tidegate canary --env gprd --clear --node n1"),
        ),
        (
            "A key cannot be read",
            Some("tidegate clear --env gprd web/x -z b"),
        ),
        ("1 row names an unknown group", None),
        ("1 node polls no more", Some("tidegate forget gone")),
        ("1 row differs", None),
        ("An unknown key", None),
        ("1 server of the settings is not polled for", None),
    ];
    assert_eq!(lines, expected);
    assert!(found.is_sorted_by_key(|finding| finding.weight));
}

#[test]
fn what_stands_is_said_in_words() {
    let since = r#""since":"2026-11-30T09:59:30Z""#;
    let text = |rest: &str| format!("{{{since},{rest}}}");
    let cases = BTreeMap::from([
        ("40%".to_owned(), "ready 40%"),
        (
            text(r#""state":"drain","then":{"state":"maint","after":"60s"}"#),
            "drain, then maint after 1m",
        ),
        (
            text(r#""state":"ready","ramp":{"by":"nodes","steps":[5,25],"every":"2m"}"#),
            "ready by nodes: 5, 25% (every 2m)",
        ),
        (
            text(r#""state":"ready","ramp":{"by":"weight","steps":[5]}"#),
            "ready by weight: 5% (held)",
        ),
        (
            r#"{"state":"maint","until":"2026-11-30T09:00:00Z"}"#.to_owned(),
            "maint, overdue",
        ),
        (
            r#"{"state":"maint","until":"2026-11-30T09:00:00Z","on_expiry":"lift"}"#.to_owned(),
            "maint, has ended",
        ),
        (
            r#"{"state":"maint","until":"2026-11-30T11:00:00Z","on_expiry":"lift"}"#.to_owned(),
            "maint, ends by itself",
        ),
    ]);
    for (value, words) in cases {
        let stands = board(&[("server-overrides/web/a", &value)], &[], NOW).stands;
        assert_eq!(stands.listed[0].says.as_deref(), Ok(words), "{value}");
    }
}

#[test]
fn another_root_is_part_of_the_commands() {
    let flags = |root| environment_flags(&Prefix::new(root, "gprd").unwrap());
    assert_eq!(flags("frontend"), "--env gprd");
    assert_eq!(flags("lb/front"), "--env gprd --root lb/front");
}

#[test]
fn a_step_that_has_just_begun_is_no_difference() {
    let ramp = |since: &str| {
        format!(
            r#"{{"state":"ready","since":"{since}","ramp":{{"by":"nodes","steps":[50],"every":"1m","nodes":["n0","n1"]}}}}"#
        )
    };
    let settings = r#"{"rows":[{"server":"web/cny","groups":["canary"]}]}"#;
    let rows = [("n1", None, "web/cny", 1, "drain")];
    // It was told a second ago, before or after all of it was ready.
    for (since, differ) in [("2026-11-30T09:59:00Z", 0), ("2026-11-30T09:58:00Z", 1)] {
        let entries = [("canary-state", &*ramp(since)), ("settings", settings)];
        let board = board(&entries, &rows, NOW);
        assert_eq!(board.nodes.waiting, 1, "{since}");
        assert_eq!(board.findings.listed.len(), differ, "{since}");
    }
}
