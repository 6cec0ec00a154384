use super::*;
use crate::domain::answer::Origin;
use crate::domain::listing::Entry;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn snapshot(entries: &[(&str, &str)]) -> Snapshot {
    Snapshot::build(&Listing::with_sentinel(7, entries)).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn answer(snapshot: &Snapshot, request: &str, now: &str) -> String {
    let request = Request::parse(request.as_bytes()).unwrap();
    let decision = snapshot.decide(&request, request.node.unwrap_or("10.0.0.9"), at(now));
    let origin = Origin {
        index: snapshot.index,
        replica: Name::parse("a").unwrap(),
    };
    let line = String::from_utf8(decision.answer.to_line(&origin)).unwrap();
    line.trim_end().trim_end_matches(" # i=7 r=a").to_owned()
}

/// Given KV entries and a request, expects this answer at a fixed time.
fn check(entries: &[(&str, &str)], request: &str, expected: &str) {
    let got = answer(&snapshot(entries), request, "2026-11-30T10:00:00Z");
    assert_eq!(got, expected, "{entries:?} asked {request:?}");
}

const CANARY: &str = "web/cny canary node=lb-1 zone=b";

#[test]
fn the_strongest_directive_decides() {
    // Each line adds a stronger one.
    let all = [
        ("group-states/second", "1%"),
        ("zones/b/group-states/second", "2%"),
        ("nodes/lb-1/group-states/second", "3%"),
        ("canary-state", "4%"),
        ("zones/b/canary-state", "5%"),
        ("nodes/lb-1/canary-state", "6%"),
        ("server-overrides/web/cny", "7%"),
        ("zones/b/server-overrides/web/cny", "8%"),
        ("nodes/lb-1/server-overrides/web/cny", "9%"),
    ];
    for count in 1..=all.len() {
        let groups = if count < 4 { "second" } else { "canary second" };
        let request = format!("web/cny {groups} node=lb-1 zone=b");
        check(&all[..count], &request, &format!("up ready {count}%"));
    }
}

#[test]
fn the_order_of_the_groups_is_the_requests() {
    let entries = [("group-states/x", "10%"), ("group-states/y", "20%")];
    check(&entries, "web/a x y", "up ready 10%");
    check(&entries, "web/a y x", "up ready 20%");
}

#[test]
fn scopes_concern_their_own_polls_only() {
    let entries = [
        ("canary-state", "ready"),
        ("zones/b/canary-state", "drain"),
        ("nodes/lb-2/canary-state", "maint"),
        ("nodes/10.0.0.9/canary-state", "40%"),
    ];
    check(&entries, "web/cny canary node=lb-1 zone=c", "up ready 100%");
    check(&entries, CANARY, "up drain");
    check(&entries, "web/cny canary node=lb-2 zone=b", "up maint");
    check(&entries, "web/cny canary node=lb-1", "up ready 100%");
    check(&entries, "web/cny canary zone=b", "up ready 40%");
}

#[test]
fn without_a_directive_a_server_is_ready() {
    check(&[], "web/a", "up ready 100%");
    check(
        &[("server-overrides/web/b", "drain")],
        "web/a",
        "up ready 100%",
    );
    check(&[("server-overrides/web/a", "drain")], "web/a", "up drain");
}

#[test]
fn a_group_without_a_key_freezes_unless_something_stronger_decides() {
    check(&[], CANARY, "unknown-group");
    check(
        &[("group-states/canry", "ready")],
        "web/cny canary",
        "unknown-group",
    );
    check(
        &[("zones/c/canary-state", "ready")],
        CANARY,
        "unknown-group",
    );
    check(
        &[("zones/b/canary-state", "ready")],
        CANARY,
        "up ready 100%",
    );
    check(&[("server-overrides/web/cny", "drain")], CANARY, "up drain");
    check(
        &[("canary-state", "drain")],
        "web/cny canary typo",
        "up drain",
    );
    check(
        &[("canary-state", "drain")],
        "web/cny typo canary",
        "unknown-group",
    );
}

#[test]
fn what_cannot_be_read_wins_and_freezes() {
    let entries = [
        ("canary-state", "ready"),
        ("server-overrides/web/cny", "dran"),
    ];
    check(&entries, CANARY, "unknown-directive");
    check(&entries, "web/other canary", "up ready 100%");
    check(&[("canary-state", "")], CANARY, "unknown-directive");
    check(
        &[("canary-state", r#"{"state":"ready","weight":0}"#)],
        CANARY,
        "unknown-directive",
    );
    check(
        &[("canary-state", r#"{"state":"ready","weight":101}"#)],
        CANARY,
        "unknown-directive",
    );
}

#[test]
fn a_lifted_directive_gives_way_and_its_group_still_exists() {
    let lifted = r#"{"state":"drain","until":"2026-11-30T10:00:00Z","on_expiry":"lift"}"#;
    let standing = r#"{"state":"drain","until":"2026-11-30T10:00:00.001Z","on_expiry":"lift"}"#;
    let overdue = r#"{"state":"drain","until":"2026-11-30T09:00:00Z"}"#;
    check(&[("canary-state", lifted)], CANARY, "up ready 100%");
    check(&[("canary-state", standing)], CANARY, "up drain");
    check(&[("canary-state", overdue)], CANARY, "up drain");
    check(
        &[
            ("canary-state", "40%"),
            ("server-overrides/web/cny", lifted),
        ],
        CANARY,
        "up ready 40%",
    );
}

#[test]
fn base_and_mode_of_the_request_count() {
    check(
        &[("canary-state", "3%")],
        "web/cny canary base=10",
        "up ready 10%",
    );
    check(
        &[("canary-state", "3%")],
        "web/cny canary base=1 mode=shadow",
        "shadow-ready-100",
    );
    check(
        &[("canary-state", "drain")],
        "web/cny canary mode=shadow",
        "shadow-drain",
    );
    check(
        &[("canary-state", "x")],
        "web/cny canary mode=shadow",
        "unknown-directive",
    );
}

#[test]
fn the_guard_freezes_what_it_refuses() {
    let settings = r#"{"guard":{"groups":["main"]},"rows":[{"server":"web/a","groups":["main"]}]}"#;
    let request = "web/a main";
    check(
        &[("settings", settings), ("group-states/main", "drain")],
        request,
        "unknown-directive",
    );
    check(
        &[("settings", settings), ("group-states/main", "40%")],
        request,
        "up ready 40%",
    );
    let knowingly = r#"{"state":"drain","by":"ana","reason":"move","force":true}"#;
    check(
        &[("settings", settings), ("group-states/main", knowingly)],
        request,
        "up drain",
    );
    check(
        &[("settings", "{"), ("group-states/main", "drain")],
        request,
        "up drain",
    );
}

#[test]
fn what_counts_before_a_directive_is_known() {
    let rows = r#"{"rows":[{"server":"web/cny","groups":["canary"]},{"server":"web/a"}]}"#;
    let snapshot = snapshot(&[
        ("settings", rows),
        ("canary-state", "ready"),
        ("zones/b/canary-state", "ready"),
        ("nodes/lb-1/canary-state", "ready"),
        ("nodes/lb-1/group-states/ci", "ready"),
        ("server-overrides/web/cny", "ready"),
        ("server-overrides/web/a", "ready"),
        ("zones/b/server-overrides/web/a", "ready"),
    ]);
    let stronger = |path: &str| {
        let key = DirectiveKey::parse(path).unwrap();
        let paths = snapshot.stronger(&key).map(|placed| placed.path.clone());
        paths.collect::<Vec<_>>()
    };
    let of_the_nodes = "nodes/lb-1/canary-state".to_owned();
    let cny = "server-overrides/web/cny".to_owned();
    let zone = "zones/b/canary-state".to_owned();
    assert_eq!(
        stronger("canary-state"),
        [&cny, &zone, &of_the_nodes].map(Clone::clone)
    );
    assert_eq!(
        stronger("zones/b/canary-state"),
        [cny.clone(), of_the_nodes]
    );
    assert_eq!(stronger("nodes/lb-1/canary-state"), [cny]);
    let narrower = ["zones/b/server-overrides/web/a".to_owned()];
    assert_eq!(stronger("server-overrides/web/a"), narrower);
    assert!(stronger("group-states/elsewhere").is_empty());
}

#[test]
fn a_fault_beside_the_guard_is_a_problem_and_the_guard_stands() {
    let snapshot = snapshot(&[
        ("group-states/main", "drain"),
        (
            "settings",
            r#"{"guard":{"groups":["main"]},"rails":{"many_rows":0}}"#,
        ),
    ]);
    let kinds: Vec<_> = snapshot.problems.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [ProblemKind::Settings, ProblemKind::Guard]);
    let text = &snapshot.problems[0].text;
    assert!(text.contains("many_rows is 0"), "{text}");
}

#[test]
fn problems_name_the_key_and_the_cure() {
    let snapshot = snapshot(&[
        ("canary-state", "dran"),
        ("canary-states", "drain"),
        ("server-overrides/", ""),
        ("server-overrides//x", "drain"),
        ("deploys/cny", "{}"),
        ("settings", "{"),
        (
            "group-states/ci",
            r#"{"state":"drain","until":"2026-11-30T09:00:00Z"}"#,
        ),
    ]);
    let problems = snapshot.problems_at(at("2026-11-30T10:00:00Z"));
    let shown: Vec<_> = problems.iter().map(|p| (p.kind, p.path.as_str())).collect();
    assert_eq!(
        shown,
        [
            (ProblemKind::Settings, "settings"),
            (ProblemKind::Directive, "canary-state"),
            (ProblemKind::UnknownKey, "canary-states"),
            (ProblemKind::UnknownKey, "server-overrides//x"),
            (ProblemKind::Overdue, "group-states/ci"),
        ]
    );
    assert!(
        problems[1].text.contains("\"dran\" is none of"),
        "{}",
        problems[1].text
    );
}

#[test]
fn without_a_sentinel_there_is_no_snapshot() {
    let mut listing = Listing::with_sentinel(7, &[("canary-state", "ready")]);
    listing.entries.remove("_meta");
    assert_eq!(Snapshot::build(&listing), Err(SentinelError::Missing(1)));
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("ready".to_owned()),
        Just("drain".to_owned()),
        Just("40%".to_owned()),
        Just("bad".to_owned()),
        (0i64..200, any::<bool>()).prop_map(|(second, lift)| {
            let until = Timestamp::from_second(second).unwrap();
            let word = if lift { "lift" } else { "alert" };
            format!(r#"{{"state":"maint","until":"{until}","on_expiry":"{word}"}}"#)
        }),
        (0i64..200, 1u64..50, any::<bool>()).prop_map(|(second, every, nodes)| {
            let since = Timestamp::from_second(second).unwrap();
            let by = if nodes { "nodes" } else { "weight" };
            format!(
                r#"{{"state":"ready","ramp":{{"by":"{by}","steps":[5,50],"every":"{every}s"}},"since":"{since}"}}"#
            )
        }),
    ]
}

fn any_path() -> impl Strategy<Value = String> {
    let scope = prop_oneof![Just(""), Just("zones/b/"), Just("nodes/lb-1/")];
    let target = prop_oneof![
        Just("canary-state"),
        Just("group-states/ci"),
        Just("server-overrides/web/a"),
        Just("odd")
    ];
    (scope, target).prop_map(|(scope, target)| format!("{scope}{target}"))
}

/// Without a guard, with one that refuses a bare drain, and settings that cannot be read.
const GUARDS: [&str; 3] = ["{}", r#"{"guard":{"groups":["ci"]}}"#, "{"];

fn any_entries() -> impl Strategy<Value = BTreeMap<String, (String, u64)>> {
    proptest::collection::btree_map(any_path(), (any_value(), 1u64..3), 0..10)
}

proptest! {
    #[test]
    fn an_answer_holds_until_its_next_change(
        entries in proptest::collection::btree_map(any_path(), any_value(), 0..10),
        now in 0i64..300, gap in 0i64..300,
    ) {
        let pairs: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let snapshot = snapshot(&pairs);
        let request = Request::parse(b"web/a canary ci zone=b").unwrap();
        let now = Timestamp::from_second(now).unwrap();
        let later = now.checked_add(jiff::SignedDuration::from_secs(gap)).unwrap();
        let first = snapshot.decide(&request, "lb-1", now);
        if first.until.is_none_or(|until| later < until) {
            prop_assert_eq!(first.answer, snapshot.decide(&request, "lb-1", later).answer);
        }
    }

    #[test]
    fn what_is_not_read_again_is_as_if_it_were(
        before in any_entries(), after in any_entries(), guards in (0usize..3, 0usize..3),
    ) {
        let listing = |entries: &BTreeMap<String, (String, u64)>, guard: usize| {
            let mut listing = Listing::with_sentinel(7, &[("settings", GUARDS[guard])]);
            for (path, (value, modify_index)) in entries {
                let value = value.clone().into();
                listing.entries.insert(path.clone(), Entry { value, modify_index: *modify_index });
            }
            listing
        };
        let (before, after) = (listing(&before, guards.0), listing(&after, guards.1));
        let earlier = Snapshot::build(&before).unwrap();
        let anew = Snapshot::build(&after).unwrap();
        let built = Snapshot::build_after(&after, (&before, &earlier)).unwrap();
        prop_assert_eq!(&built, &anew);
        let paths: Vec<_> = built.differences(&earlier).iter().map(|it| it.path().to_owned()).collect();
        let said = |snapshot: &Snapshot, path: &str| {
            let mut placed = snapshot.placed();
            placed.find(|it| it.path == path).map(|it| it.directive.clone())
        };
        let all: BTreeSet<_> = before.entries.keys().chain(after.entries.keys()).collect();
        let other = all.into_iter().filter(|path| said(&anew, path) != said(&earlier, path));
        prop_assert_eq!(paths, other.cloned().collect::<Vec<_>>());
    }

    #[test]
    fn any_listing_builds_and_answers(
        entries in proptest::collection::btree_map(".{0,20}", proptest::collection::vec(any::<u8>(), 0..20), 0..8),
    ) {
        let mut listing = Listing::with_sentinel(7, &[]);
        for (path, value) in entries {
            listing.entries.insert(path, Entry { value: value.into(), modify_index: 1 });
        }
        if let Ok(snapshot) = Snapshot::build(&listing) {
            let request = Request::parse(b"web/a").unwrap();
            let _ = snapshot.decide(&request, "n", Timestamp::UNIX_EPOCH);
        }
    }
}
