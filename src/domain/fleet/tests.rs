use super::*;
use crate::domain::answer::State;
use crate::domain::key::Prefix;
use crate::domain::sealed::SealError;

mod properties;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn version(index: u64) -> Version {
    let generation = Generation { epoch: 1, r#gen: 1 };
    Version { generation, index }
}

fn identity(node: &str, server: &str, address: &str) -> Identity {
    Identity {
        node: name(node),
        server: ServerId::parse(server).unwrap(),
        zone: Some(name("b")),
        address: address.parse().unwrap(),
    }
}

fn told(millis: i64, index: u64) -> Told {
    Told {
        at: at(millis),
        version: version(index),
        answer: Answer::State(State::Drain),
    }
}

/// One answered poll.
fn poll(table: &mut Table, node: &str, server: &str, millis: i64) {
    let polled = Polled::once(at(millis), Some(told(millis, 1)));
    table.record(&identity(node, server, "10.0.0.1"), &polled);
}

fn report(replica: &str, millis: i64, table: &Table) -> Report {
    Report {
        replica: name(replica),
        at: at(millis),
        since: at(0),
        poll_interval: Duration::from_secs(2),
        newest: Some(version(2)),
        dropped: table.dropped(),
        nodes: table.nodes().clone(),
    }
}

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").unwrap()
}

fn only_row(table: &Table) -> Row {
    let node = table.nodes().values().next().unwrap();
    node.rows.values().next().unwrap()
}

fn judge(millis: i64) -> Judge {
    Judge {
        now: at(millis),
        since: at(0),
        poll_interval: Duration::from_secs(2),
        newest: Some(version(2)),
    }
}

#[test]
fn of_a_flood_of_new_rows_only_some_become_known_and_known_ones_are_counted() {
    let mut table = Table::new(10);
    poll(&mut table, "lb-1", "web/known", 0);
    let mut new_left = 2;
    for server in ["web/a", "web/b", "web/c", "web/d", "web/known"] {
        let polled = Polled::once(at(1_000), None);
        table.record_among(
            &identity("lb-1", server, "10.0.0.1"),
            &polled,
            &mut new_left,
        );
    }
    let rows = &table.nodes()["lb-1"].rows;
    let names: Vec<_> = rows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["web/a", "web/b", "web/known"]);
    assert_eq!(
        rows.get(&ServerId::parse("web/known").unwrap())
            .unwrap()
            .polls,
        2
    );
    assert_eq!(table.dropped(), 2);
}

#[test]
fn a_row_learns_its_interval_and_one_long_silence_is_none() {
    let mut table = Table::new(10);
    poll(&mut table, "lb-1", "web/a", 0);
    assert_eq!(only_row(&table).interval, None);
    for second in 1..=5 {
        poll(&mut table, "lb-1", "web/a", second * 10_000);
    }
    assert_eq!(only_row(&table).interval, Some(Duration::from_secs(10)));
    poll(&mut table, "lb-1", "web/a", 3_600_000);
    assert_eq!(only_row(&table).interval, Some(Duration::from_secs(10)));
    assert_eq!(only_row(&table).polls, 7);
    // Several polls at once, as a collection brings them.
    let polled = Polled {
        polls: 5,
        last: at(3_650_000),
        ..Polled::once(at(3_610_000), None)
    };
    table.record(&identity("lb-1", "web/a", "10.0.0.1"), &polled);
    let row = only_row(&table);
    assert_eq!(row.interval, Some(Duration::from_secs(10)));
    // An unanswered poll is a poll, and what was told before is still what was told.
    assert_eq!((row.polls, row.unanswered), (12, 1));
    assert_eq!(
        (row.last, row.told),
        (at(3_650_000), Some(told(3_600_000, 1)))
    );
}

#[test]
fn a_row_is_silent_after_three_of_its_own_intervals() {
    let mut table = Table::new(10);
    poll(&mut table, "lb-1", "web/a", 0);
    // Two seconds are the fleet's smallest interval; before six it may be a lost poll.
    for (millis, silent) in [(0, false), (6_000, false), (6_001, true)] {
        assert_eq!(judge(millis).silent(&only_row(&table)), silent, "{millis}");
    }
    for second in 1..=9 {
        poll(&mut table, "lb-1", "web/a", second * 10_000);
    }
    for (millis, silent) in [(120_000, false), (120_001, true)] {
        assert_eq!(judge(millis).silent(&only_row(&table)), silent, "{millis}");
    }
    // However short the interval: a reload takes its time.
    let quick = Judge {
        poll_interval: Duration::from_millis(200),
        ..judge(5_000)
    };
    let row = Row {
        interval: Some(Duration::from_millis(200)),
        last: at(0),
        ..only_row(&table).clone()
    };
    assert!(!quick.silent(&row));
    assert!(
        Judge {
            now: at(5_001),
            ..quick
        }
        .silent(&row)
    );
    // Who has not listened has not heard silence.
    let restarted = Judge {
        since: at(100_000),
        ..judge(106_000)
    };
    assert!(!restarted.silent(&row) && judge(106_000).silent(&row));
}

#[test]
fn a_row_is_behind_until_it_is_told_the_newest_listing() {
    let row = |told| Row {
        told,
        ..Row::new([10, 0, 0, 1].into(), &Polled::once(at(0), None))
    };
    let newer = Version {
        generation: Generation { epoch: 2, r#gen: 1 },
        index: 1,
    };
    for (told, behind) in [
        (None, true),
        (Some(told(0, 1)), true),
        (Some(told(0, 2)), false),
        // The index went back with nothing changed, or a peer is further.
        (Some(told(0, 3)), false),
        (
            Some(Told {
                version: newer,
                ..told(0, 0)
            }),
            false,
        ),
    ] {
        assert_eq!(judge(0).behind(&row(told)), behind, "{told:?}");
    }
    let nothing = Judge {
        newest: None,
        ..judge(0)
    };
    assert!(!nothing.behind(&row(None)), "nothing is in force");
}

#[test]
fn the_longest_silent_rows_make_room() {
    let mut table = Table::new(128);
    for row in 0..128 {
        poll(&mut table, &format!("lb-{row}"), "web/a", i64::from(row));
    }
    assert_eq!((table.nodes().len(), table.dropped()), (128, 0));
    poll(&mut table, "lb-128", "web/a", 128);
    assert_eq!((table.nodes().len(), table.dropped()), (127, 2));
    for (node, there) in [
        ("lb-0", false),
        ("lb-1", false),
        ("lb-2", true),
        ("lb-128", true),
    ] {
        assert_eq!(table.nodes().contains_key(node), there, "{node}");
    }
    for row in 0..10_000 {
        poll(&mut table, "flood", &format!("web/s{row}"), 1_000);
        assert!(
            table
                .nodes()
                .values()
                .map(|node| node.rows.len())
                .sum::<usize>()
                <= 128
        );
    }
}

#[test]
fn the_longest_silent_nodes_make_room() {
    let mut table = Table::new(ROWS_MAX);
    for node in 0..=NODES_MAX {
        let millis = i64::try_from(node).unwrap();
        poll(&mut table, &format!("lb-{node}"), "web/a", millis);
        poll(&mut table, &format!("lb-{node}"), "web/b", millis);
        assert!(table.nodes().len() <= NODES_MAX);
    }
    let evicted = NODES_MAX / 64;
    assert_eq!(table.nodes().len(), NODES_MAX + 1 - evicted);
    assert_eq!(table.dropped(), 2 * evicted as u64);
    for (node, there) in [(evicted - 1, false), (evicted, true), (NODES_MAX, true)] {
        assert_eq!(
            table.nodes().contains_key(&*format!("lb-{node}")),
            there,
            "{node}"
        );
    }
}

#[test]
fn a_node_is_forgotten_after_a_day_or_when_told() {
    let mut table = Table::new(10);
    let day = i64::try_from(FORGET_AFTER.as_millis()).unwrap();
    poll(&mut table, "lb-1", "web/a", 0);
    poll(&mut table, "lb-1", "web/b", 1);
    poll(&mut table, "lb-2", "web/a", 1);
    table.tend(at(day - 1));
    assert_eq!(table.nodes()["lb-1"].rows.len(), 2);
    table.tend(at(day));
    assert_eq!(table.nodes()["lb-1"].rows.len(), 1);
    assert_eq!((table.forget("lb-1"), table.forget("lb-1")), (1, 0));
    assert_eq!(table.nodes().len(), 1);
    // The count of rows is kept along, or the bound would move.
    for row in 0..9 {
        poll(&mut table, "lb-3", &format!("web/s{row}"), day);
    }
    assert_eq!(table.dropped(), 0);
}

#[test]
fn times_of_a_clock_that_was_wrong_end_with_it() {
    let mut table = Table::new(10);
    poll(&mut table, "lb-1", "web/a", 9_000_000);
    table.tend(at(1_000));
    assert_eq!(only_row(&table).last, at(1_000));
    let table = Table::remembering(10, table.nodes().clone(), at(500));
    assert_eq!(only_row(&table).last, at(500));
    assert!(judge(7_000).silent(&only_row(&table)));
}

#[test]
fn a_node_says_its_zone_and_an_old_one_is_not_shown() {
    let mut table = Table::new(10);
    for (zone, millis) in [("b", 0), ("c", 1_000), ("c", 62_000)] {
        let identity = Identity {
            zone: Some(name(zone)),
            ..identity("lb-1", "web/a", "10.0.0.1")
        };
        table.record(&identity, &Polled::once(at(millis), None));
        let zones: Vec<_> = table.nodes()["lb-1"]
            .zones_now()
            .map(Name::as_str)
            .collect();
        let expected: &[&str] = match millis {
            0 => &["b"],
            1_000 => &["b", "c"],
            _ => &["c"],
        };
        assert_eq!(zones, expected);
    }
}

#[test]
fn what_is_not_whole_or_not_ours_is_refused() {
    let mut table = Table::new(10);
    poll(&mut table, "lb-1", "web/a", 0);
    let bytes = report("a", 1, &table).to_bytes(&prefix());
    let other = Prefix::new("frontend", "gstg").unwrap();
    assert_eq!(
        Report::from_bytes(&bytes, &other),
        Err(ReportError::Elsewhere("frontend/gprd/".to_owned()))
    );
    assert_eq!(
        Report::from_bytes(&bytes[..bytes.len() - 9], &prefix()),
        Err(ReportError::Sealed(SealError::Torn))
    );
    let json = report("a", 1, &table).to_json(&prefix());
    for (part, instead, text) in [
        ("\"v\":2", "\"v\":1", "its form is 1"),
        ("drain", "gone", "\"gone\" is no answer"),
        ("lb-1", "lb 1", "node \"lb 1\""),
        ("web/a", "web", "server \"web\""),
        (
            "\"rows\":[[0,",
            "\"rows\":[[7,",
            "server 7 is not among the 1 listed",
        ),
        (
            ",[1,0,0]]]",
            ",[1,9,0]]]",
            "answer 9 is not among the 1 listed",
        ),
        (",[1,0,0]]]", ",[-9223372036854775808,0,0]]]", "is none"),
        (
            "\"dropped\":0",
            "\"dropped\":0,\"more\":1",
            "unknown field `more`",
        ),
    ] {
        assert!(json.contains(part), "{json}");
        let error = Report::parse(json.replace(part, instead).as_bytes(), &prefix());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_view_names_who_is_missing_behind_and_doubled_and_is_bounded() {
    let mut table = Table::new(ROWS_MAX);
    for row in 0..ROWS_SHOWN_MAX + 5 {
        poll(&mut table, "lb-1", &format!("web/s{row}"), 0);
    }
    poll(&mut table, "lb-2", "web/a", 0);
    for (address, millis) in [("10.0.0.1", 9_000), ("10.0.0.2", 0), ("10.0.0.2", 9_000)] {
        let identity = identity("lb-2", "web/a", address);
        table.record(&identity, &Polled::once(at(millis), Some(told(millis, 2))));
    }
    let merged = Merged::of([report("a", 9_000, &table)]);
    let missing = [Missing {
        replica: name("b"),
        why: "timed out".to_owned(),
    }];
    let show = |filter: &Filter| {
        let view = View::new(&merged, &missing, filter, at(9_000));
        serde_json::to_value(&view).unwrap()
    };
    let view = show(&Filter::default());
    assert_eq!(
        (
            &view["totals"]["nodes_silent"],
            &view["totals"]["rows_behind"]
        ),
        (&1.into(), &8_197.into())
    );
    assert_eq!(
        (&view["complete"], &view["replicas"][1]["why"]),
        (&false.into(), &"timed out".into())
    );
    assert_eq!(
        (
            &view["rows_left_out"],
            view["nodes"].as_array().unwrap().len()
        ),
        (&6.into(), 1)
    );
    assert_eq!(view["problems"][0]["node"], "lb-2");
    let text = view["problems"][0]["text"].as_str().unwrap();
    assert!(text.contains("10.0.0.1, 10.0.0.2 at once"), "{text}");
    let view = show(&Filter {
        node: Some("-2".to_owned()),
        server: Some("web/".to_owned()),
    });
    assert_eq!(
        (&view["totals"]["rows"], &view["rows_left_out"]),
        (&8_198.into(), &0.into())
    );
    let row = &view["nodes"][0]["rows"][0];
    assert_eq!(
        (&row["answer"], &row["behind"]),
        (&"drain".into(), &false.into())
    );
    assert_eq!(view["behind"].as_array().unwrap().len(), 0);
}

#[test]
fn a_table_has_a_line_for_each_row_and_says_who_is_missing() {
    let mut table = Table::new(ROWS_MAX);
    poll(&mut table, "lb-1", "web/a", 0);
    poll(&mut table, "lb-22", "web/bb", 98_500);
    let answered = Polled::once(at(99_500), Some(told(99_500, 2)));
    let same = Identity {
        zone: None,
        ..identity("lb-22", "web/bb", "10.0.0.1")
    };
    table.record(&same, &answered);
    let missing = [Missing {
        replica: name("b"),
        why: "it says \u{1b}[31m".to_owned(),
    }];
    let merged = Merged::of([report("a", 100_000, &table)]);
    let view = View::new(&merged, &missing, &Filter::default(), at(100_000));
    let expected = "\
2 nodes, 1 silent; 2 rows, 1 silent, 1 behind; newest listing: index 2, epoch 1, generation 1; \
         INCOMPLETE: not every replica has reported

REPLICA  NEWEST INDEX  REPORT
a        2             1970-01-01T00:01:40Z
b        -             missing: it says \\u{1b}[31m

NODE   ZONE  SERVER  STATE           ANSWER  INDEX  LAST POLL    POLLS  UNANSWERED
lb-1   b     web/a   silent, behind  drain   1      100.0 s ago  1      0
lb-22  b     web/bb  ok              drain   2      0.5 s ago    2      0
";
    assert_eq!(view.to_table(), expected);
}

#[test]
fn a_packed_row_is_the_row_and_eighty_bytes() {
    const { assert!(ROW_BYTES <= 80) };
    let row = |address: &str, interval: Option<u64>, told: Option<Told>| Row {
        polls: 3,
        unanswered: 1,
        first: at(5),
        last: at(9_000),
        interval: interval.map(Duration::from_millis),
        address: address.parse().unwrap(),
        told,
    };
    let rows = [
        ("web/b", row("10.0.0.1", Some(2_000), Some(told(9_000, 7)))),
        ("web/a", row("2001:db8::1", None, None)),
        ("web/c", row("10.0.0.1", Some(300_000), Some(told(0, 1)))),
    ];
    let id = |text| ServerId::parse(text).unwrap();
    let packed: Rows = rows
        .iter()
        .map(|(server, row)| (id(server), row.clone()))
        .collect();
    for (server, row) in rows {
        assert_eq!(packed.get(&id(server)), Some(row));
    }
    let order: Vec<_> = packed.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(order, ["web/a", "web/b", "web/c"]);
}

#[test]
fn the_names_of_all_nodes_servers_are_bounded_and_held_once() {
    let mut table = Table::bounded(ROWS_MAX, 100);
    for node in ["lb-1", "lb-2"] {
        poll(&mut table, node, "web/a", 0);
    }
    let copies = table.nodes().values().flat_map(|node| node.rows.iter());
    let copies: Vec<_> = copies.map(|(id, _)| id.as_str().as_ptr()).collect();
    assert_eq!(copies[0], copies[1]);
    for server in 0_i64..100 {
        poll(&mut table, "lb-1", &format!("web/s{server}"), 1 + server);
    }
    // The longest silent ones made room.
    assert!(table.dropped() > 0);
    let last = ServerId::parse("web/s99").unwrap();
    let rows = &table.nodes()["lb-1"].rows;
    assert!(rows.len() <= 100 && rows.get(&last).is_some());
    assert!(!table.nodes().contains_key("lb-2"));
}
