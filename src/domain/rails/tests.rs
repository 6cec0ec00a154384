use super::*;
use crate::domain::listing::Listing;
use crate::domain::settings::Settings;
use crate::domain::topology::Observation;

/// Two zones and the canary: `web` is mixed, `canary_web` is the canary's, `old` follows nothing.
const ROWS: &str = r#""rows":[
    {"server":"web/b","zone":"us-b","groups":["main"]},
    {"server":"web/c","zone":"us-c","groups":["main"]},
    {"server":"web/d","zone":"us-d","groups":["main"]},
    {"server":"web/cny","groups":["canary"],"weight":5},
    {"server":"canary_web/cny","groups":["canary"]},
    {"server":"solo/a"},{"server":"solo/zero","weight":0},
    {"server":"mixed/enrolled"},{"server":"mixed/old","agent":false}],
    "nodes":[{"name":"lb-b1","zone":"us-b"},{"name":"lb-b2","zone":"us-b"},
             {"name":"lb-c1","zone":"us-c"},{"name":"lb-d1","zone":"us-d"}]"#;

const NOW: &str = "2026-11-30T10:00:00Z";

/// One write, and what is said with it.
#[derive(Clone)]
struct Write<'a> {
    rails: &'a str,
    before: &'a [(&'a str, &'a str)],
    /// An empty value: the key is deleted.
    changes: &'a [(&'a str, &'a str)],
    down: &'a [(&'a str, &'a str)],
    deploys: &'a [(&'a str, &'a str)],
    flags: &'a [Flag],
    reason: Option<&'a str>,
    consent: Consent<'a>,
}

const WRITE: Write<'static> = Write {
    rails: "{}",
    before: &[],
    changes: &[],
    down: &[],
    deploys: &[],
    flags: &[],
    reason: None,
    consent: Consent::Terminal(None),
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn verdict(write: &Write<'_>) -> Verdict {
    let settings = format!("{{{ROWS},\"rails\":{}}}", write.rails);
    let (parsed, _) = Settings::parse(settings.as_bytes()).unwrap();
    let mut keys = BTreeMap::from([
        ("canary-state", "ready"),
        ("group-states/main", "ready"),
        ("settings", settings.as_str()),
    ]);
    keys.extend(write.before.iter().copied());
    let snapshot = |keys: &BTreeMap<&str, &str>| {
        let set = keys.iter().filter(|(_, value)| !value.is_empty());
        let entries: Vec<_> = set.map(|(path, value)| (*path, *value)).collect();
        Snapshot::build(&Listing::with_sentinel(1, &entries)).unwrap()
    };
    let before = snapshot(&keys);
    keys.extend(write.changes.iter().copied());
    let after = snapshot(&keys);
    let seen = |(node, server): &(&str, &str)| Observation {
        node: Name::parse(node).unwrap(),
        server: ServerId::parse(server).unwrap(),
        down: true,
    };
    let seen: Vec<_> = write.down.iter().map(seen).collect();
    let topology = Topology::from_settings(&parsed, None).with_observed(&seen, None);
    let deploy = |(stage, value): &(&str, &str)| {
        (Name::parse(stage).unwrap(), Deploy::parse(value.as_bytes()))
    };
    let deploys = write.deploys.iter().map(deploy).collect();
    evaluate(&before, &after, &topology, &context(write, &deploys))
}

fn context<'a>(
    write: &Write<'a>,
    deploys: &'a BTreeMap<Name, Result<Deploy, String>>,
) -> Context<'a> {
    Context {
        now: at(NOW),
        deploys,
        flags: write.flags.iter().copied().collect(),
        reason: write.reason,
        consent: write.consent,
    }
}

/// Exactly these rails refuse, each with this in its text or as a row.
fn check(write: &Write<'_>, refused: &[(Rail, &str)]) {
    let verdict = verdict(write);
    let rails: Vec<_> = verdict
        .refusals
        .iter()
        .map(|refusal| refusal.rail)
        .collect();
    let expected: Vec<_> = refused.iter().map(|(rail, _)| *rail).collect();
    assert_eq!(
        rails, expected,
        "{:?}: {:#?}",
        write.changes, verdict.refusals
    );
    for (refusal, (_, text)) in verdict.refusals.iter().zip(refused) {
        let named = refusal.rows.iter().any(|row| row.as_str() == *text);
        assert!(named || refusal.text.contains(text), "{refusal:#?}");
    }
}

/// Every other rail says nothing about these keys alone.
fn check_keys(before: &[(&str, &str)], changes: &[(&str, &str)], refused: &[(Rail, &str)]) {
    check(
        &Write {
            before,
            changes,
            ..WRITE
        },
        refused,
    );
}

const B: &str = "server-overrides/web/b";
const C: &str = "server-overrides/web/c";
const D: &str = "server-overrides/web/d";
const CANARY_STATE: &str = "canary-state";
const CANARY_DRAINED: (&str, &str) = (CANARY_STATE, "drain");

#[test]
fn nothing_to_change_is_nothing_to_refuse() {
    let verdict = verdict(&Write {
        changes: &[(CANARY_STATE, "READY")],
        ..WRITE
    });
    assert_eq!(verdict, Verdict::default());
}

#[test]
fn settings_with_a_fault_refuse_every_write_that_is_not_forced() {
    let write = Write {
        rails: r#"{"many_rows":0}"#,
        changes: &[(B, "ready")],
        ..WRITE
    };
    check(&write, &[(Rail::Settings, "many_rows is 0")]);
    let forced = Write {
        flags: &[Flag::Force],
        ..write
    };
    check(&forced, &[(Rail::Settings, "many_rows is 0")]);
    let with_a_reason = Write {
        reason: Some("users see errors"),
        ..forced
    };
    check(&with_a_reason, &[]);
}

#[test]
fn settings_that_are_no_settings_refuse_every_write() {
    for (nonsense, why) in [
        ("{", "EOF while parsing"),
        ("[1]", "expected an object"),
        ("ready", "expected value"),
    ] {
        let write = Write {
            before: &[("settings", nonsense)],
            changes: &[(B, "ready")],
            ..WRITE
        };
        check(&write, &[(Rail::Settings, why)]);
    }
}

#[test]
fn the_plan_says_who_is_told_what_and_what_is_left() {
    let disable =
        format!(r#"{{"state":"drain","then":{{"state":"maint","after":"60s"}},"since":"{NOW}"}}"#);
    let verdict = verdict(&Write {
        before: &[
            ("zones/us-c/canary-state", "drain"),
            ("nodes/lb-b1/canary-state", "40%"),
        ],
        changes: &[(CANARY_STATE, &disable), (B, "50%")],
        ..WRITE
    });
    let row = |row: &PlanRow| {
        let then = row
            .then
            .map(|(_, answer)| format!(", then {}", answer.words()));
        format!(
            "{} {}: {} -> {}{}",
            row.server,
            row.scope,
            row.now.words(),
            row.next.words(),
            then.unwrap_or_default()
        )
    };
    let rows: Vec<_> = verdict.rows.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "canary_web/cny nodes lb-b2, lb-d1: ready 100% -> drain, then maint",
            "web/b all 4 nodes: ready 100% -> ready 50%",
            "web/cny nodes lb-b2, lb-d1: ready 100% -> drain, then maint",
        ]
    );
    let capacity = |c: &Capacity| {
        let zone = c.zone.as_ref().map_or("-", Name::as_str);
        format!(
            "{} {zone}: {} -> {} of {}, floor {}",
            c.backend, c.now, c.next, c.of, c.floor
        )
    };
    let capacities: Vec<_> = verdict.capacities.iter().map(capacity).collect();
    assert_eq!(
        capacities,
        [
            "canary_web us-b: 1 -> 0 of 1, floor 0",
            "canary_web us-c: 0 -> 0 of 1, floor 0",
            "canary_web us-d: 1 -> 0 of 1, floor 0",
            "web us-b: 3 -> 3 of 3, floor 1",
            "web us-c: 3 -> 3 of 3, floor 1",
            "web us-d: 3 -> 3 of 3, floor 1",
        ]
    );
}

#[test]
fn what_is_not_known_is_said() {
    let check = |changes: &[(&str, &str)], expected: &str| {
        let warnings = verdict(&Write { changes, ..WRITE }).warnings;
        assert!(
            warnings.iter().any(|warning| warning.contains(expected)),
            "{warnings:?}"
        );
    };
    check(
        &[("server-overrides/web/x", "drain")],
        "web/x stands in no settings",
    );
    check(
        &[("group-states/git", "drain")],
        "no known row is of the group git",
    );
    check(
        &[("nodes/lb-9/canary-state", "drain")],
        "lb-9 is no known LB node",
    );
    check(
        &[("zones/us-e/canary-state", "drain")],
        "no known LB node stands in zone us-e",
    );
    check(
        &[(CANARY_STATE, "")],
        "canary_web/cny would be told unknown-group",
    );
    let ramp = format!(
        r#"{{"state":"ready","ramp":{{"by":"weight","steps":[5,50],"every":"2m"}},"since":"{NOW}"}}"#
    );
    check(
        &[(CANARY_STATE, &ramp)],
        "canary_web/cny is the only active server",
    );
}

#[test]
fn without_known_nodes_one_in_each_zone_is_assumed() {
    let settings = |rest: &str| format!(r#"{{"rows":[{{"server":"web/b","zone":"us-b"}}]{rest}}}"#);
    let value = settings("");
    let build =
        |entries: &[(&str, &str)]| Snapshot::build(&Listing::with_sentinel(1, entries)).unwrap();
    let before = build(&[("settings", &value)]);
    let after = build(&[("settings", &value), (B, "drain")]);
    let topology = Topology::from_settings(&before.settings, None);
    let no_deploys = BTreeMap::new();
    let context = context(&WRITE, &no_deploys);
    let verdict = evaluate(&before, &after, &topology, &context);
    let rails: Vec<_> = verdict
        .refusals
        .iter()
        .map(|refusal| refusal.rail)
        .collect();
    assert_eq!(rails, [Rail::Floor, Rail::ManyRows]);
    assert!(
        verdict.warnings[0].contains("no LB node is known"),
        "{:?}",
        verdict.warnings
    );
}

/// 1,000 rows on 80 nodes, all of them ramped over the nodes.
#[test]
fn a_write_over_a_large_fleet_is_judged_by_a_few_representative_nodes() {
    let zones = ["b", "c", "d"];
    let rows = (0..1_000).map(|i| {
        let zone = zones[i % 3];
        format!(
            r#"{{"server":"web-{}/s{i}","zone":"us-{zone}","groups":["main"]}}"#,
            i / 12
        )
    });
    let nodes = (0..80).map(|i| format!(r#"{{"name":"lb-{i}","zone":"us-{}"}}"#, zones[i % 3]));
    let join = |texts: Vec<String>| texts.join(",");
    let value = format!(
        r#"{{"rows":[{}],"nodes":[{}]}}"#,
        join(rows.collect()),
        join(nodes.collect())
    );
    let order = join((0..80).map(|i| format!("\"lb-{i}\"")).collect());
    let ramp = format!(
        r#"{{"state":"ready","since":"{NOW}","ramp":{{"by":"nodes","steps":[5,25,50],"every":"2m","nodes":[{order}]}}}}"#
    );
    let servers = (0..1_000).map(|i| format!("server-overrides/web-{}/s{i}", i / 12));
    let drained: Vec<_> = servers.collect();
    let build = |directive: &str| {
        let mut entries: Vec<_> = drained
            .iter()
            .map(|path| (path.as_str(), directive))
            .collect();
        entries.extend([("settings", value.as_str()), ("group-states/main", "ready")]);
        Snapshot::build(&Listing::with_sentinel(1, &entries)).unwrap()
    };
    let (before, after) = (build("drain"), build(&ramp));
    let topology = Topology::from_settings(&before.settings, None);
    let no_deploys = BTreeMap::new();
    let mut context = context(&WRITE, &no_deploys);
    let verdict = evaluate(&before, &after, &topology, &context);
    assert!(verdict.refusals.is_empty(), "{:?}", verdict.refusals);
    assert_eq!(verdict.capacities.len(), 84 * 3);
    context.reason = Some("a flag would need it");
    let back = evaluate(&after, &before, &topology, &context);
    let rails: Vec<_> = back.refusals.iter().map(|refusal| refusal.rail).collect();
    assert_eq!(rails, [Rail::Floor, Rail::SecondZone, Rail::ManyRows]);
    let comparison = Comparison {
        before: &before,
        after: &after,
        topology: &topology,
        now: at(NOW),
    };
    let rows: Vec<_> = topology.rows().iter().take(12).collect();
    let kinds = topology.kinds();
    let stations = station::stations(&comparison, &kinds, &BTreeSet::new(), "web-0", &rows);
    assert_eq!(
        stations.len(),
        3 * 4,
        "zones, and steps with the end behind them"
    );
}

mod capacity;
mod held;
mod policy;
