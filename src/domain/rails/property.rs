//! No sequence of writes that pass the rails leaves a backend below its floor: checked against a
//! count of its own, that asks every node about every row at every moment.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Consent, Context, evaluate};
use crate::domain::answer::{Answer, State};
use crate::domain::listing::Listing;
use crate::domain::name::Name;
use crate::domain::request::Request;
use crate::domain::settings::Settings;
use crate::domain::snapshot::Snapshot;
use crate::domain::topology::{Observation, Topology};

const ZONES: [&str; 3] = ["b", "c", "d"];
/// All times are whole multiples of ten seconds up to here, and the checks look at each.
const LAST_SECOND: i64 = 600;
const TICK: usize = 10;

#[derive(Debug, Clone)]
struct Fleet {
    settings: String,
    floor: usize,
    nodes: Vec<(String, &'static str)>,
    down: Vec<(usize, usize)>,
}

/// A write: how long after the last one, and the keys, with an empty value where they go.
type Change = (i64, Vec<(String, String)>);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn fleet() -> impl Strategy<Value = Fleet> {
    let row = (
        proptest::option::of(0..3usize),
        prop_oneof![Just(0u16), Just(1), Just(100)],
        any::<bool>(),
        prop::sample::select(vec!["main", "main", "canary"]),
    );
    let rows = prop::collection::vec(row, 2..6);
    let nodes = prop::collection::vec(0..3usize, 1..6);
    let down = prop::collection::vec((0..6usize, 0..6usize), 0..3);
    (rows, nodes, down, 0..3usize).prop_map(|(rows, nodes, down, floor)| {
        let row = |(i, (zone, weight, backup, group)): (usize, (Option<usize>, u16, bool, &str))| {
            let zone = zone.map_or(String::new(), |z| format!(r#","zone":"{}""#, ZONES[z]));
            let backup = if backup { r#","backup":"always""# } else { "" };
            format!(r#"{{"server":"web/s{i}","weight":{weight},"groups":["{group}"]{zone}{backup}}}"#)
        };
        let rows: Vec<_> = rows.into_iter().enumerate().map(row).collect();
        let nodes: Vec<_> = nodes.iter().enumerate().map(|(i, z)| (format!("lb-{i}"), ZONES[*z])).collect();
        let listed = nodes.iter().map(|(n, z)| format!(r#"{{"name":"{n}","zone":"{z}"}}"#));
        let listed: Vec<_> = listed.collect();
        let settings = format!(
            r#"{{"rows":[{}],"nodes":[{}],"rails":{{"floors":{{"default":{floor},"backends":{{"web":{floor}}}}}}}}}"#,
            rows.join(","),
            listed.join(",")
        );
        Fleet { settings, floor, nodes, down }
    })
}

fn value() -> impl Strategy<Value = String> {
    let seconds = || (1..30i64).prop_map(|ticks| ticks * 10);
    let state = prop::sample::select(vec!["ready", "ready", "drain", "maint"]);
    let extra = prop_oneof![
        3 => Just(String::new()),
        1 => Just(r#","ramp":{"by":"weight","steps":[1,50],"every":"40s"}"#.to_owned()),
        2 => (prop::sample::select(vec!["", r#","nodes":["lb-1","lb-0","lb-3"]"#]), prop::sample::select(vec!["drain", "maint"]))
            .prop_map(|(nodes, rest)| format!(r#","ramp":{{"by":"nodes","steps":[20,60],"every":"50s","rest":"{rest}"{nodes}}}"#)),
    ];
    let then = proptest::option::of((
        prop::sample::select(vec!["ready", "drain", "maint"]),
        seconds(),
    ));
    let until = proptest::option::of((
        seconds(),
        prop::sample::select(vec!["lift", "lift", "alert"]),
    ));
    prop_oneof![
        2 => prop::sample::select(vec!["", "drain", "maint", "ready", "10%", "oops"]).prop_map(str::to_owned),
        5 => (state, extra, then, until, 0..6i64).prop_map(|(state, extra, then, until, since)| {
            let extra = if state == "ready" { extra } else { String::new() };
            let then = then.map_or(String::new(), |(s, after)| format!(r#","then":{{"state":"{s}","after":"{after}s"}}"#));
            let until = until.map_or(String::new(), |(s, on)| format!(r#","until":"{}","on_expiry":"{on}""#, at(s)));
            format!(r#"{{"state":"{state}","since":"{}"{extra}{then}{until}}}"#, at(since * 10))
        }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let scope = prop::sample::select(vec![
        "",
        "",
        "zones/b/",
        "zones/c/",
        "nodes/lb-0/",
        "nodes/lb-1/",
    ]);
    let target = prop_oneof![
        3 => (0..6usize).prop_map(|i| format!("server-overrides/web/s{i}")),
        1 => Just("group-states/main".to_owned()),
        1 => Just("canary-state".to_owned()),
    ];
    let key = (scope, target, value())
        .prop_map(|(scope, target, value)| (format!("{scope}{target}"), value));
    (0..8i64, prop::collection::vec(key, 1..3)).prop_map(|(ticks, keys)| (ticks * 10, keys))
}

fn snapshot(settings: &str, keys: &BTreeMap<String, String>) -> Snapshot {
    let set = keys.iter().filter(|(_, value)| !value.is_empty());
    let mut entries: Vec<_> = set
        .map(|(path, value)| (path.as_str(), value.as_str()))
        .collect();
    entries.push(("settings", settings));
    Snapshot::build(&Listing::with_sentinel(1, &entries)).unwrap()
}

/// How many servers a node counts on at a moment, with what is seen down taken as down and without:
/// main ones that are told `ready` and have a weight; those of the canary only where all are.
fn count(fleet: &Fleet, snapshot: &Snapshot, node: usize, second: i64) -> [usize; 2] {
    let rows = &snapshot.settings.rows;
    let canary_only = rows.values().all(|row| row.is_of("canary"));
    let (name, zone) = &fleet.nodes[node];
    let mut counts = [0, 0];
    for (index, (server, row)) in rows.iter().enumerate() {
        if row.weight == 0 || (row.is_of("canary") && !canary_only) {
            continue;
        }
        let group = row.groups.first().map_or("", Name::as_str);
        let line = format!("{server} {group} node={name} zone={zone}");
        let request = Request::parse(line.as_bytes()).unwrap();
        let answer = snapshot.decide(&request, name, at(second)).answer;
        if matches!(answer, Answer::State(State::Ready(_))) {
            counts[0] += usize::from(!fleet.down.contains(&(node, index)));
            counts[1] += 1;
        }
    }
    counts
}

/// The first moment from which a node counts on fewer servers than it must and than without the
/// write.
fn first_wrong(fleet: &Fleet, before: &Snapshot, after: &Snapshot, from: i64) -> Option<String> {
    for second in (from..=LAST_SECOND.max(from)).step_by(TICK) {
        for node in 0..fleet.nodes.len() {
            let is = count(fleet, after, node, second);
            if is.iter().all(|is| *is >= fleet.floor) {
                continue;
            }
            let was = count(fleet, before, node, second);
            if is
                .iter()
                .zip(&was)
                .any(|(is, was)| *is < fleet.floor.min(*was))
            {
                return Some(format!(
                    "lb-{node} at {second}: {is:?}, without the write {was:?}"
                ));
            }
        }
    }
    None
}

fn topology(fleet: &Fleet) -> Topology {
    let (settings, unknown) = Settings::parse(fleet.settings.as_bytes()).unwrap();
    assert!(
        settings.faults.is_empty() && unknown.is_empty(),
        "{}",
        fleet.settings
    );
    let servers: Vec<_> = settings.rows.keys().cloned().collect();
    let seen = |(node, server): &(usize, usize)| {
        let server = servers.get(*server)?.clone();
        let node = Name::parse(&fleet.nodes.get(*node)?.0).unwrap();
        Some(Observation {
            node,
            server,
            down: true,
        })
    };
    let seen: Vec<_> = fleet.down.iter().filter_map(seen).collect();
    Topology::from_settings(&settings, None).with_observed(&seen, None)
}

/// Writes one after the other, each only if it passes, and checks each that did. Gives back how
/// many passed, and how many were refused.
fn run(fleet: &Fleet, changes: &[Change]) -> Result<(usize, usize), TestCaseError> {
    let topology = topology(fleet);
    let mut keys = BTreeMap::from(
        ["canary-state", "group-states/main"].map(|key| (key.to_owned(), "ready".to_owned())),
    );
    let (mut second, mut passed, mut refused) = (0, 0, 0);
    for (wait, change) in changes {
        second += wait;
        let before = snapshot(&fleet.settings, &keys);
        let mut next = keys.clone();
        next.extend(change.iter().cloned());
        let after = snapshot(&fleet.settings, &next);
        let context = Context {
            now: at(second),
            deploys: &BTreeMap::new(),
            flags: BTreeSet::new(),
            reason: None,
            consent: Consent::Terminal(None),
        };
        let verdict = evaluate(&before, &after, &topology, &context);
        if !verdict.refusals.is_empty() {
            refused += 1;
            continue;
        }
        passed += 1;
        let wrong = first_wrong(fleet, &before, &after, second);
        prop_assert!(wrong.is_none(), "{change:?} at {second}: {wrong:?}");
        keys = next;
    }
    Ok((passed, refused))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_sequence_of_writes_that_pass_leaves_a_backend_below_its_floor(
        fleet in fleet(),
        changes in prop::collection::vec(change(), 1..12),
    ) {
        run(&fleet, &changes)?;
    }
}

#[test]
fn random_writes_are_both_passed_and_refused() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let cases = (fleet(), prop::collection::vec(change(), 12));
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..20 {
        let (fleet, changes) = cases.new_tree(&mut runner).unwrap().current();
        let (p, r) = run(&fleet, &changes).unwrap();
        (passed, refused) = (passed + p, refused + r);
    }
    assert!(
        passed > 40 && refused > 40,
        "{passed} passed, {refused} refused"
    );
}

#[test]
fn a_plan_behind_a_ramp_behind_an_end_is_seen() {
    let fleet = Fleet {
        settings: r#"{"rows":[{"server":"web/s0"},{"server":"web/s1"}],"nodes":[{"name":"lb-0","zone":"b"}]}"#.to_owned(),
        floor: 1,
        nodes: vec![("lb-0".to_owned(), "b")],
        down: Vec::new(),
    };
    let first = format!(
        r#"{{"state":"ready","since":"{}","then":{{"state":"drain","after":"300s"}}}}"#,
        at(0)
    );
    let second = format!(
        r#"{{"state":"drain","until":"{}","on_expiry":"lift"}}"#,
        at(290)
    );
    let later = format!(
        r#"{{"state":"drain","until":"{}","on_expiry":"lift"}}"#,
        at(301)
    );
    let key = |server: usize, value: &str| {
        (
            0,
            vec![(format!("server-overrides/web/s{server}"), value.to_owned())],
        )
    };
    assert_eq!(
        run(&fleet, &[key(0, &first), key(1, &second)]).unwrap(),
        (2, 0)
    );
    assert_eq!(
        run(&fleet, &[key(0, &first), key(1, &later)]).unwrap(),
        (1, 1)
    );
}
