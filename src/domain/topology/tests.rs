use super::*;

const SETTINGS: &str = r#"{"rows":[
    {"server":"web/b","zone":"us-east1-b"},{"server":"web/c","zone":"us-east1-c"},
    {"server":"web/cny","groups":["canary"],"weight":5,"role_weights":{"ci":0}},
    {"server":"ssh/b","zone":"us-east1-b","roles":["main"]}],
    "nodes":[{"name":"main-1","zone":"us-east1-b","role":"main"},
             {"name":"main-2","zone":"us-east1-b","role":"main"},
             {"name":"main-3","zone":"us-east1-c","role":"main"},
             {"name":"ci-1","zone":"us-east1-b","role":"ci"},
             {"name":"far-1","zone":"us-west1-c"}]}"#;

fn topology() -> Topology {
    let (settings, _) = Settings::parse(SETTINGS.as_bytes()).unwrap();
    Topology::from_settings(&settings, None)
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

#[test]
fn a_row_is_active_on_the_nodes_of_its_zone_and_a_backup_elsewhere() {
    let topology = topology();
    for (node, server, placement) in [
        ("main-1", "web/b", Some((true, 100))),
        ("main-3", "web/b", Some((false, 100))),
        ("main-3", "web/cny", Some((true, 5))),
        ("ci-1", "web/cny", Some((true, 0))),
        ("ci-1", "ssh/b", None),
        ("far-1", "ssh/b", None),
        ("far-1", "web/c", Some((false, 100))),
    ] {
        let placed = topology.placement(&topology.nodes()[node], &id(server));
        let placed = placed.map(|p| (p.active, p.weight));
        assert_eq!(placed, placement, "{server} on {node}");
    }
}

#[test]
fn nodes_that_look_the_same_are_one_kind() {
    let count = |topology: &Topology| topology.kinds().len();
    assert_eq!(count(&topology()), 4);
    let seen = |down| Observation {
        node: name("main-1"),
        server: id("web/b"),
        down,
    };
    let down = topology().with_observed(&[seen(true)], None);
    assert_eq!(count(&down), 5);
    assert_eq!(count(&down.with_observed(&[seen(false)], None)), 4);
}

#[test]
fn a_node_that_only_polls_has_the_rows_that_it_polls() {
    let row = |node: &str, server: &str| PolledRow {
        server: id(server),
        node: name(node),
        zone: Some(name("us-east1-c")),
        told: None,
    };
    let polled = [
        row("new-1", "web/c"),
        row("new-1", "web/odd"),
        row("main-1", "ssh/b"),
        row("main-2", "web/odd"),
    ];
    let topology = topology().with_polls(&polled, Some(Timestamp::UNIX_EPOCH));
    let placed = |server| {
        let node = &topology.nodes()["new-1"];
        topology
            .placement(node, &id(server))
            .map(|p| (p.active, p.weight))
    };
    assert_eq!(placed("web/c"), Some((true, 100)));
    assert_eq!(placed("web/odd"), Some((true, 0)), "nobody counts on it");
    assert_eq!(placed("web/b"), None);
    assert_eq!(topology.nodes()["main-1"].rows, None, "settings say more");
    let on_known = |node: &str, server| {
        let node = &topology.nodes()[node];
        topology.placement(node, &id(server)).map(|p| p.weight)
    };
    assert_eq!(on_known("main-2", "web/odd"), Some(0));
    assert_eq!(on_known("main-1", "web/odd"), None);
    assert!(topology.describes(&id("web/c")) && !topology.describes(&id("web/odd")));
    assert_eq!(
        topology.to_string(),
        "settings, polls as of 1970-01-01T00:00:00Z"
    );
    let later = Timestamp::from_second(9).unwrap();
    let again = topology.with_polls(&[], Some(later));
    assert_eq!(
        again.sources()[1].as_of,
        Some(Timestamp::UNIX_EPOCH),
        "the oldest part counts"
    );
}

#[test]
fn a_row_of_a_nodes_files_stands_on_that_node_alone() {
    let placement = Placement {
        active: false,
        weight: 7,
    };
    let node = Node {
        rows: Some(Arc::new(BTreeMap::from([(id("new/a"), placement)]))),
        ..Node::default()
    };
    let described = Row {
        groups: vec![name("canary")],
        ..Row::default()
    };
    let rows = BTreeMap::from([(id("new/a"), described)]);
    let topology = topology().with_node(name("main-1"), node, &rows, None);
    let placed = |node: &str, server| topology.placement(&topology.nodes()[node], &id(server));
    assert_eq!(placed("main-1", "new/a"), Some(placement));
    assert_eq!(placed("main-1", "web/b"), None, "its files say all");
    assert_eq!(placed("main-2", "new/a"), None);
    assert!(topology.describes(&id("new/a")) && topology.rows()["new/a"].is_of("canary"));
}

#[test]
fn a_zone_is_found_by_its_name_or_a_single_end() {
    let check =
        |text: &str, expected: Result<&str, &str>| match (topology().zone_named(text), expected) {
            (Ok(zone), Ok(expected)) => assert_eq!(zone.as_str(), expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
    check("us-east1-c", Ok("us-east1-c"));
    check("b", Ok("us-east1-b"));
    check("c", Err("may be us-east1-c or us-west1-c"));
    check("e", Err("known are us-east1-b, us-east1-c, us-west1-c"));
    check("east1-b", Err("known are"));
    check("", Err("known are"));
    let nothing = Topology::default().zone_named("b").unwrap_err();
    assert!(nothing.contains("settings.nodes is empty"), "{nothing}");
}
