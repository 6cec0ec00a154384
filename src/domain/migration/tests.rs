use super::*;
use crate::domain::fleet::{Identity, Polled, Table, Told, Version};
use crate::domain::listing::Listing;
use crate::domain::observed::{Class, Exactness, Observed};
use crate::domain::settings::Settings;

const SETTINGS: &str = r#"{"rows":[{"server":"web/cny","groups":["canary"]},{"server":"web/a"}],
    "nodes":[{"name":"lb-1","zone":"b"},{"name":"lb-2","zone":"c"}]}"#;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

fn set(state: Mode, weight: u16) -> SocketState {
    SocketState { state, weight }
}

fn ready(agent: bool) -> ServerState {
    ServerState {
        now: set(Mode::Ready, 100),
        initial: 100,
        agent,
    }
}

fn snapshot(entries: &[(&str, &str)]) -> Snapshot {
    let entries = [&[("settings", SETTINGS)], entries].concat();
    Snapshot::build(&Listing::with_sentinel(1, &entries)).unwrap()
}

/// Both nodes poll `web/cny`, and were told this.
fn fleet(polling: &[&str], answer: Answer) -> Merged {
    let mut table = Table::new(10);
    for node in polling {
        let identity = Identity {
            node: name(node),
            server: id("web/cny"),
            zone: None,
            address: "10.0.0.1".parse().unwrap(),
        };
        let told = Told {
            at: at(1),
            version: Version::of(&snapshot(&[])),
            answer,
        };
        table.record(&identity, &Polled::once(at(1), Some(told)));
    }
    Merged {
        replicas: BTreeMap::new(),
        nodes: table.nodes().clone(),
    }
}

type Seen = BTreeMap<Name, Result<BTreeMap<ServerId, ServerState>, String>>;

fn seen(nodes: &[(&str, Result<ServerState, &str>)]) -> Seen {
    let node = |(node, state): &(&str, Result<ServerState, &str>)| {
        let states = state.map(|state| BTreeMap::from([(id("web/cny"), state)]));
        (name(node), states.map_err(ToOwned::to_owned))
    };
    nodes.iter().map(node).collect()
}

struct Case<'a> {
    entries: &'a [(&'a str, &'a str)],
    key: &'a str,
    undone: &'a [SocketChange],
    writes: bool,
}

const DRAIN: Case<'static> = Case {
    entries: &[("canary-state", "drain")],
    key: "canary-state",
    undone: &[],
    writes: true,
};

fn plan(old: &Old, case: &Case<'_>) -> Plan {
    let (settings, _) = Settings::parse(SETTINGS.as_bytes()).unwrap();
    old.plan(&Wanted {
        keys: &[DirectiveKey::parse(case.key).unwrap()],
        undone: case.undone,
        after: &snapshot(case.entries),
        topology: &Topology::from_settings(&settings, None),
        now: at(10),
        writes: case.writes,
    })
}

fn shown(plan: &Plan) -> Vec<String> {
    let writes = plan.writes.iter().map(|write| {
        let SocketChange {
            node,
            before,
            after,
            ..
        } = &write.change;
        format!("{node}: {before} -> {after}")
    });
    let left = plan.left.iter();
    let left = left.map(|left| format!("{} left: {}", left.node, left.why));
    writes.chain(left).collect()
}

#[test]
fn a_row_is_written_in_one_way_or_named() {
    let state = State::Ready(Percent::FULL);
    let polled = |answer| Some(fleet(&["lb-1", "lb-2"], answer));
    let write = "lb-1: ready at weight 100 -> drain";
    for (what, agent, fleet, expected) in [
        ("no agent", false, polled(Answer::State(state)), Some(write)),
        ("no agent, no replica", false, None, Some(write)),
        ("polls", true, polled(Answer::State(state)), None),
        ("shadow", true, polled(Answer::Shadow(state)), Some(write)),
        ("no replica", true, None, None),
        (
            "another agent",
            true,
            Some(fleet(&["lb-2"], Answer::State(state))),
            Some("lb-1 left: its agent check runs"),
        ),
    ] {
        let old = Old::new(seen(&[("lb-1", Ok(ready(agent)))]), fleet.as_ref());
        let found = shown(&plan(&old, &DRAIN));
        let of_first: Vec<_> = found.iter().filter(|l| l.starts_with("lb-1")).collect();
        assert_eq!(
            of_first.len(),
            usize::from(expected.is_some()),
            "{what}: {found:?}"
        );
        if let Some(expected) = expected {
            assert!(of_first[0].starts_with(expected), "{what}: {found:?}");
        }
        // The same row is out of the other way's reach.
        let is_socket = old.row(&name("lb-1"), &id("web/cny"));
        assert_eq!(is_socket.is_some(), expected.is_some(), "{what}");
    }
}

#[test]
fn nodes_of_which_nothing_is_known_are_named_while_sockets_are_written() {
    let fleet = fleet(&[], Answer::State(State::Drain));
    let old = Old::new(seen(&[("lb-2", Err("refused"))]), Some(&fleet));
    let off = Case {
        writes: false,
        ..DRAIN
    };
    assert_eq!(shown(&plan(&old, &off)), Vec::<String>::new());
    let found = shown(&plan(&old, &DRAIN));
    let expected = [
        format!("lb-1 left: {NO_WAY}"),
        "lb-2 left: refused".to_owned(),
    ];
    assert_eq!(found, expected);
    // Only what the command is about.
    let zone = Case {
        key: "zones/b/canary-state",
        ..DRAIN
    };
    assert_eq!(shown(&plan(&old, &zone)), expected[..1]);
    // A node that only Prometheus shows, with what it has.
    let mut elsewhere = Observation::default();
    for (node, server) in [("lb-8", "web/cny"), ("lb-9", "web/a")] {
        let observed = Observed {
            status: "UP".to_owned(),
            class: Class::Up,
            exactness: Exactness::Exact,
            weight: None,
            part: None,
            sessions: None,
            last_agt: None,
            at: at(1),
        };
        let servers = &mut elsewhere.nodes.entry(name(node)).or_default().servers;
        servers.insert(id(server), observed);
    }
    let found = shown(&plan(&old.with_shown(&elsewhere), &DRAIN));
    assert_eq!(found[2..], [format!("lb-8 left: {NO_WAY}")]);
    // Without a replica nobody can say who polls.
    let old = Old::new(Seen::new(), None);
    assert_eq!(shown(&plan(&old, &DRAIN)), Vec::<String>::new());
}

#[test]
fn a_row_becomes_what_its_poll_would_be_told_now() {
    let old = Old::new(seen(&[("lb-1", Ok(ready(false)))]), None);
    let ramp = r#"{"state":"ready","since":"1970-01-01T00:00:00Z",
        "ramp":{"by":"weight","steps":[5,50],"every":"1h"}}"#;
    let then = r#"{"state":"drain","since":"1970-01-01T00:00:00Z","then":{"state":"maint","after":"60s"}}"#;
    let lb_1 = "nodes/lb-1/canary-state";
    for (entries, expected, later) in [
        (&[("canary-state", "ready")][..], None, false),
        (&[("canary-state", "maint")], Some("maint"), false),
        (
            &[("canary-state", "40%")],
            Some("ready at weight 40"),
            false,
        ),
        (&[("canary-state", ramp)], Some("ready at weight 5"), true),
        (&[("canary-state", then)], Some("drain"), true),
        (
            &[("canary-state", "drain"), (lb_1, "maint")],
            Some("maint"),
            false,
        ),
        (
            &[("canary-state", "dran")],
            Some("lb-1 left: left as it is: a poll would be told unknown-directive"),
            false,
        ),
    ] {
        let case = Case { entries, ..DRAIN };
        let plan = plan(&old, &case);
        let found = shown(&plan);
        let end = |expected: &str| found.iter().any(|line| line.ends_with(expected));
        assert_eq!(
            found.len(),
            usize::from(expected.is_some()),
            "{entries:?} {found:?}"
        );
        assert!(expected.is_none_or(end), "{entries:?} {found:?}");
        assert_eq!(plan.changes_later, later, "{entries:?}");
    }
    // What another command is about stays as it is.
    let other = Case {
        key: "server-overrides/web/a",
        ..DRAIN
    };
    assert_eq!(shown(&plan(&old, &other)), Vec::<String>::new());
    let off = Case {
        writes: false,
        ..DRAIN
    };
    assert_eq!(
        shown(&plan(&old, &off)),
        [format!("lb-1 left: {SWITCHED_OFF}")]
    );
}

#[test]
fn an_undone_row_is_put_back_unless_somebody_has_changed_it() {
    let undone = [SocketChange {
        node: name("lb-1"),
        server: id("web/cny"),
        before: set(Mode::Ready, 40),
        after: set(Mode::Drain, 40),
    }];
    let case = Case {
        entries: &[("canary-state", "ready")],
        undone: &undone,
        ..DRAIN
    };
    for (now, expected) in [
        (
            set(Mode::Drain, 40),
            Some("lb-1: drain -> ready at weight 40"),
        ),
        (set(Mode::Ready, 40), None),
        (
            set(Mode::Maint, 40),
            Some("lb-1 left: somebody has changed it since: it is maint, and was set to drain"),
        ),
        (
            set(Mode::Ready, 7),
            Some(
                "lb-1 left: somebody has changed it since: it is ready at weight 7, and was set to drain",
            ),
        ),
    ] {
        let state = ServerState {
            now,
            ..ready(false)
        };
        let old = Old::new(seen(&[("lb-1", Ok(state))]), None);
        assert_eq!(shown(&plan(&old, &case)), Vec::from_iter(expected), "{now}");
    }
    // Its socket is dead: it is named, although nothing else knows the node.
    let dark = Old::new(
        seen(&[("lb-1", Err("refused"))]),
        Some(&fleet(&[], Answer::State(State::Drain))),
    );
    assert!(shown(&plan(&dark, &case)).contains(&"lb-1 left: refused".to_owned()));
}

#[test]
fn what_takes_traffic_away_is_told_from_what_gives_it() {
    let change = |before, after| SocketChange {
        node: name("lb-1"),
        server: id("web/cny"),
        before,
        after,
    };
    let (ready, half) = (set(Mode::Ready, 100), set(Mode::Ready, 50));
    let (drain, maint) = (set(Mode::Drain, 100), set(Mode::Maint, 100));
    for (before, after) in [(ready, half), (ready, drain), (drain, maint), (half, maint)] {
        assert!(change(before, after).closes());
        assert!(!change(after, before).closes());
    }
}
