//! The picture of `status --watch`, at terminals of several sizes: made of values, so that ages and
//! times are the same in every run.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidegate::domain::answer::Answer;
use tidegate::domain::authority::{AuthorityName, Verdict};
use tidegate::domain::board::text::{Frame, Line, Replica, Size};
use tidegate::domain::board::{Board, Parts};
use tidegate::domain::fleet::{Identity, Merged, Polled, Report, Table, Told, Version};
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::{Entry, Listing};
use tidegate::domain::name::{Name, ServerId};
use tidegate::domain::observed::{Missing, Observation};
use tidegate::domain::snapshot::Snapshot;
use tidegate::domain::view::{self, View};

use crate::harness::kept::expect_kept;

const NOW: &str = "2026-11-30T10:00:00Z";
const RAMP: &str = r#"{"state":"ready","since":"2026-11-30T09:57:00Z","by":"ana",
    "reason":"release 17.3 looked well for an hour on staging","change":"01JDZ3N8",
    "ramp":{"by":"nodes","steps":[25,50,75],"every":"2m",
    "nodes":["lb-1","lb-2","lb-3","lb-4","lb-5","lb-6","lb-7","lb-8"]}}"#;
/// Characters that would move the cursor, hide what follows, or ring.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\r\n\u{202e}gnp\u{9b}1A\u{200b}";

/// What a picture is made of.
struct Scene<'a> {
    entries: &'a [(&'a str, &'a str)],
    /// Node, zone, how many seconds ago it polled, what it was told.
    nodes: &'a [(&'a str, &'a str, i64, &'a str)],
    missing: &'a [(&'a str, &'a str)],
    replicas: &'a [(&'a str, &'a str, &'a str)],
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("it is a name")
}

fn now() -> Timestamp {
    NOW.parse().expect("it is a time")
}

impl Scene<'_> {
    fn snapshot(&self) -> Option<Snapshot> {
        let sentinel = ("_meta", r#"{"schema":1,"epoch":1764000000,"gen":17}"#);
        let all = self.entries.iter().copied().chain([sentinel]);
        let entry = |((path, value), modify_index): ((&str, &str), u64)| {
            let value = value.to_owned().into();
            let entry = Entry {
                value,
                modify_index,
            };
            (path.to_owned(), entry)
        };
        let listing = Listing {
            index: 412,
            entries: all.zip(400..).map(entry).collect(),
        };
        let known = !self.entries.is_empty();
        known.then(|| Snapshot::build(&listing).expect("the sentinel is there"))
    }

    fn report(&self, snapshot: Option<&Snapshot>) -> Option<Report> {
        let version = Version::of(snapshot?);
        let mut table = Table::new(1_000);
        for (node, zone, ago, answer) in self.nodes {
            for server in ["web/gke-cny-web", "web/gke-b"] {
                let last = now() - SignedDuration::from_secs(*ago);
                let identity = Identity {
                    node: name(node),
                    server: ServerId::parse(server).expect("it is a server"),
                    zone: Some(name(zone)),
                    address: IpAddr::from([10, 0, 0, 1]),
                };
                let canary = server.contains("-cny-");
                let answer = if canary { answer } else { "ready 100%" };
                let answer = Answer::from_words(answer).expect("they are the words of an answer");
                let told = Told {
                    at: last,
                    version,
                    answer,
                };
                table.record(&identity, &Polled::once(last, Some(told)));
            }
        }
        Some(Report {
            replica: name("a"),
            at: now(),
            since: now() - SignedDuration::from_hours(1),
            poll_interval: Duration::from_secs(2),
            newest: Some(version),
            dropped: 0,
            nodes: table.nodes().clone(),
        })
    }

    fn lines(&self, size: Size) -> Vec<Line> {
        let snapshot = self.snapshot();
        let fleet = Merged::of(self.report(snapshot.as_ref()));
        let missing = self.missing.iter().map(|(what, why)| Missing {
            what: (*what).to_owned(),
            why: (*why).to_owned(),
        });
        let view = View::new(view::Parts {
            snapshot: snapshot.as_ref(),
            fleet: Some(&fleet),
            observation: Observation::default(),
            missing: missing.collect(),
            now: now(),
        });
        let prefix = Prefix::new("frontend", "gprd").expect("it is a prefix");
        let verdicts = self.replicas.iter().filter_map(|(slot, word, reason)| {
            let verdict = Verdict {
                name: AuthorityName::parse(word)?,
                reason: (*reason).to_owned(),
            };
            Some((Some(name(slot)), verdict))
        });
        let board = Board::new(&Parts {
            prefix: &prefix,
            snapshot: snapshot.as_ref(),
            deploys: &[],
            verdicts: &verdicts.collect::<Vec<_>>(),
            replica_problems: &[],
            fleet: &fleet,
            missing: &[],
            view: &view,
        });
        let replicas = self.replicas.iter().map(|(slot, word, reason)| Replica {
            name: (*slot).to_owned(),
            authority: (*word).to_owned(),
            answers: AuthorityName::parse(word).is_some_and(AuthorityName::answers),
            index: AuthorityName::parse(word).map(|_| 412),
            about: (*reason).to_owned(),
        });
        let frame = Frame {
            prefix: &prefix,
            listing: snapshot.as_ref().map(|it| (it.index, it.generation)),
            replicas: &replicas.collect::<Vec<_>>(),
            board: &board,
            now: now() + SignedDuration::from_secs(1),
        };
        frame.lines(size)
    }
}

/// A ramp in the middle, a node that is silent, a replica that is away and a key that is wrong.
const BUSY: Scene<'_> = Scene {
    entries: &[
        ("canary-state", RAMP),
        ("server-overrides/web/gke-b", "draim"),
        ("zones/c/canary-state", "drain"),
    ],
    nodes: &[
        ("lb-1", "b", 1, "ready 100%"),
        ("lb-2", "b", 1, "ready 100%"),
        ("lb-3", "b", 2, "ready 100%"),
        ("lb-4", "d", 1, "ready 100%"),
        ("lb-5", "d", 1, "drain"),
        ("lb-6", "c", 1, "drain"),
        ("lb-7", "c", 41, "drain"),
        ("lb-8", "c", 1, "drain"),
    ],
    missing: &[(
        "replica http://10.0.0.3:8791",
        "Connection refused (os error 111), since 09:59:18 UTC",
    )],
    replicas: &[
        ("a", "current", "confirmed by the source, version 0.1.0"),
        ("b", "relayed", "confirmed by the peer a, version 0.1.0"),
        (
            "http://10.0.0.3:8791",
            "away",
            "Connection refused (os error 111), since 09:59:18 UTC",
        ),
    ],
};

/// All is well.
const CALM: Scene<'_> = Scene {
    entries: &[("canary-state", "ready"), ("group-states/main", "ready")],
    nodes: &[
        ("lb-1", "b", 1, "ready 100%"),
        ("lb-2", "c", 1, "ready 100%"),
    ],
    missing: &[],
    replicas: &[("a", "current", "confirmed by the source, version 0.1.0")],
};

/// Nobody says anything.
const BLIND: Scene<'_> = Scene {
    entries: &[],
    nodes: &[],
    missing: &[
        (
            "the store",
            "127.0.0.1:8500: Connection refused, since 10:00:00 UTC",
        ),
        (
            "replica http://10.0.0.1:8791",
            "Connection refused, since 10:00:00 UTC",
        ),
    ],
    replicas: &[],
};

const fn size(columns: usize, rows: usize) -> Size {
    Size { columns, rows }
}

#[test]
fn what_a_terminal_of_any_size_shows_is_as_kept() {
    let mut text = String::new();
    for (what, scene, size) in [
        ("a ramp in the middle, wide and tall", &BUSY, size(100, 80)),
        ("the same, of the usual size", &BUSY, size(80, 24)),
        ("the same, narrow", &BUSY, size(40, 80)),
        ("the same, small", &BUSY, size(40, 10)),
        ("all is well", &CALM, size(80, 40)),
        ("nobody says anything", &BLIND, size(80, 24)),
    ] {
        let Size { columns, rows } = size;
        writeln!(text, "# {what}: {columns} x {rows}\n").expect("a string takes every byte");
        for line in scene.lines(size) {
            writeln!(text, "{}", line.text().trim_end()).expect("a string takes every byte");
        }
        text.push('\n');
    }
    expect_kept("tests/golden/watch.txt", &text);
}

#[test]
fn a_ramp_that_holds_and_one_with_many_steps_are_bars_too() {
    let bar = |ramp: &str, columns: usize| {
        let scene = Scene {
            entries: &[("canary-state", ramp)],
            ..BUSY
        };
        let lines = scene.lines(size(columns, 30));
        let bar = lines
            .iter()
            .map(Line::text)
            .find(|line| line.starts_with("  ["));
        bar.expect("a ramp is a bar")
    };
    let held = RAMP.replace(r#""every":"2m","#, "");
    assert_eq!(
        bar(&held, 44),
        "  [========!|.........|.........|.........]"
    );
    // Half of the second step, and one second of 120.
    assert_eq!(bar(RAMP, 44), "  [=========|====>....|.........|.........]");
    let steps: Vec<_> = (1..=99).map(|step: u8| step.to_string()).collect();
    let steps = format!("[{}]", steps.join(","));
    let many = RAMP.replace("[25,50,75]", &steps).replace("2m", "6s");
    // 30 of 100 steps are over.
    let thirty = format!("  [{}>{}]", "=".repeat(12), ".".repeat(27));
    assert_eq!(bar(&many, 44), thirty);
}

#[test]
fn it_is_no_larger_than_the_terminal_and_moves_no_cursor() {
    let hostile = serde_json::json!({
        "state": "drain", "by": HOSTILE, "reason": HOSTILE.repeat(40), "change": HOSTILE,
        "since": "2026-11-30T09:57:00Z",
    });
    let wide = serde_json::json!({"state": "drain", "by": "東京", "reason": "配信停止".repeat(60)});
    for scene in [
        BUSY,
        CALM,
        BLIND,
        Scene {
            entries: &[
                ("canary-state", &hostile.to_string()),
                ("server-overrides/web/gke-b", HOSTILE),
                (HOSTILE, HOSTILE),
            ],
            missing: &[(HOSTILE, HOSTILE)],
            replicas: &[(HOSTILE, HOSTILE, HOSTILE)],
            ..BUSY
        },
        Scene {
            entries: &[("canary-state", &wide.to_string())],
            ..BUSY
        },
    ] {
        for columns in [1, 20, 40, 80] {
            for rows in [1, 2, 10, 200] {
                let lines = scene.lines(size(columns, rows));
                assert!(
                    !lines.is_empty() && lines.len() <= rows,
                    "{columns} x {rows}"
                );
                for line in lines.iter().map(Line::text) {
                    assert!(!line.contains(char::is_control), "{line:?}");
                    assert!(!line.contains(['\u{200b}', '\u{202e}']), "{line:?}");
                    let most = columns.max(40);
                    assert!(line.chars().count() <= most, "{columns} x {rows}: {line:?}");
                }
            }
        }
    }
}

#[test]
fn a_short_terminal_shows_the_canary_and_what_needs_attention_first() {
    let text = |rows| {
        let lines = BUSY.lines(size(80, rows));
        lines
            .iter()
            .map(|line| line.text() + "\n")
            .collect::<String>()
    };
    for (rows, shown) in [
        (1, &["Tidegate gprd"][..]),
        (2, &["Tidegate gprd", "ramp 50%"]),
        (4, &["Tidegate gprd", "ramp 50% of the nodes", "[===="]),
        (14, &["ramp 50%", "[====", "severe: ", "Replicas"]),
    ] {
        let seen = text(rows);
        for wanted in shown {
            assert!(seen.contains(wanted), "{rows}: no {wanted:?} in\n{seen}");
        }
    }
    let tall = text(200);
    for wanted in [
        "in 4 of 8 nodes: lb-1, lb-2, lb-3, lb-4",
        "tidegate canary --env gprd --hold",
        "Servers by zone",
        "lb-7",
        "Latest changes that stand",
    ] {
        assert!(tall.contains(wanted), "no {wanted:?} in\n{tall}");
    }
}
