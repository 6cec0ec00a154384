use super::*;
use crate::domain::name::Name;
use crate::domain::ramp::{Nodes, Order, Rest};
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn refused(value: &[u8]) -> String {
    match Directive::parse(value) {
        Ok(directive) => panic!(
            "{:?} was read as {directive:?}",
            String::from_utf8_lossy(value)
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_bare_word_is_read_as_people_write_it() {
    let ready = |n| Desired::Ready {
        weight: Percent::new(n).unwrap(),
        ramp: None,
    };
    for (value, desired) in [
        ("ready", ready(100)),
        ("READY\n", ready(100)),
        ("  Drain\t", Desired::Drain),
        ("maint", Desired::Maint),
        ("\"maint\"", Desired::Maint),
        ("\" drain \"\n", Desired::Drain),
        ("40%", ready(40)),
        ("\"1%\"", ready(1)),
        ("100%", ready(100)),
    ] {
        assert_eq!(
            Directive::parse(value.as_bytes()),
            Ok(Directive::bare(desired)),
            "{value:?}"
        );
    }
}

#[test]
fn a_bad_value_says_what_is_wrong() {
    for (value, text) in [
        (&b""[..], "the value is empty"),
        (b" \n", "the value is empty"),
        (b"\"\"", "the value is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"reddy", "\"reddy\" is none of ready, drain, maint"),
        (b"0%", "1% to 100%"),
        (b"101%", "1% to 100%"),
        (b"40", "1% to 100%"),
        (b"+4%", "1% to 100%"),
        (b"%", "1% to 100%"),
        (b"[]", "\"[]\" is none of"),
        (b"\"drain", "EOF"),
        (b"{", "EOF"),
        (b"{}", "missing field `state`"),
        (b"{\"state\":\"down\"}", "unknown variant `down`, expected one of `ready`, `drain`, `maint`"),
        (b"{\"state\":\"ready\",\"wieght\":5}", "unknown field `wieght`"),
        (b"{\"state\":\"ready\",\"state\":\"drain\"}", "duplicate field `state`"),
        (b"{\"v\":2,\"state\":\"ready\"}", "v is 2"),
        (b"{\"state\":\"ready\",\"weight\":0}", "weight is 0, allowed are 1 to 100"),
        (b"{\"state\":\"ready\",\"weight\":101}", "weight is 101"),
        (b"{\"state\":\"ready\",\"weight\":-1}", "invalid value"),
        (b"{\"state\":\"ready\",\"weight\":5.5}", "invalid type"),
        (b"{\"state\":\"drain\",\"weight\":5}", "weight needs state ready"),
        (b"{\"state\":\"maint\",\"ramp\":{\"by\":\"weight\",\"steps\":[5]}}", "ramp needs state ready"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"zone\",\"steps\":[5]}}", "unknown variant `zone`"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"weight\",\"steps\":[]}}", "0 steps"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"weight\",\"steps\":[5,5]}}", "5 does not grow from 5"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"weight\",\"steps\":[0]}}", "0 is no percentage"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"nodes\",\"steps\":[101]}}", "101 is no percentage"),
        (b"{\"state\":\"ready\",\"weight\":40,\"ramp\":{\"by\":\"weight\",\"steps\":[50]}}", "50 is above the weight 40"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"weight\",\"steps\":[5],\"rest\":\"maint\"}}", "ramp.rest needs ramp.by nodes"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"nodes\",\"steps\":[5],\"nodes\":[\"a\",\"a\"]}}", "twice"),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"nodes\",\"steps\":[5],\"nodes\":[\"a b\"]}}", "ramp.nodes: \"a b\""),
        (b"{\"state\":\"ready\",\"ramp\":{\"by\":\"nodes\",\"steps\":[5],\"every\":\"2m\"}}", "ramp.every needs since"),
        (b"{\"state\":\"ready\",\"since\":\"2026-11-30T10:00:00Z\",\"ramp\":{\"by\":\"nodes\",\"steps\":[5],\"every\":\"0s\"}}", "ramp.every is \"0s\": allowed are 1s to 366days"),
        (b"{\"state\":\"ready\",\"since\":\"2026-11-30T10:00:00Z\",\"ramp\":{\"by\":\"nodes\",\"steps\":[5],\"every\":\"often\"}}", "ramp.every is \"often\""),
        (b"{\"state\":\"drain\",\"then\":{\"state\":\"maint\",\"after\":\"60s\"}}", "then needs since"),
        (b"{\"state\":\"drain\",\"since\":\"yesterday\"}", "since is \"yesterday\""),
        (b"{\"state\":\"drain\",\"until\":\"2026-11-30\"}", "until is"),
        (b"{\"state\":\"drain\",\"on_expiry\":\"lift\"}", "on_expiry needs until"),
    ] {
        let error = refused(value);
        assert!(error.contains(text), "{:?}: {error}", String::from_utf8_lossy(value));
    }
}

#[test]
fn every_field_is_read() {
    let json = r#"{"v":1,"state":"ready","weight":80,"ramp":{"by":"nodes","steps":[5,25,50],
        "every":"2m","nodes":["lb-2","lb-1"],"seed":"01J","rest":"maint"},
        "then":{"state":"drain","after":"1h"},"since":"2026-11-30T10:00:00+01:00",
        "until":"2026-12-01T00:00:00Z","on_expiry":"lift","by":"ana","reason":"new release",
        "change":"01JDQ","trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "force":true,"meta":{"ticket":[1,{"deep":null}]}}"#;
    let names = ["lb-2", "lb-1"].map(|n| Name::parse(n).unwrap()).to_vec();
    let nodes = Nodes {
        order: Order::new(names).unwrap(),
        seed: Some("01J".to_owned()),
        rest: Rest::Maint,
    };
    let ramp = Ramp {
        by: By::Nodes(nodes),
        steps: [5, 25, 50].map(|s| Percent::new(s).unwrap()).to_vec(),
        every: Some(Duration::from_mins(2)),
    };
    let directive = Directive {
        desired: Desired::Ready {
            weight: Percent::new(80).unwrap(),
            ramp: Some(ramp),
        },
        then: Some(Plan {
            state: State::Drain,
            after: Duration::from_hours(1),
        }),
        since: Some(at("2026-11-30T09:00:00Z")),
        expiry: Some(Expiry {
            until: at("2026-12-01T00:00:00Z"),
            on_expiry: OnExpiry::Lift,
        }),
        author: Author {
            by: Some("ana".to_owned()),
            reason: Some("new release".to_owned()),
            change: Some("01JDQ".to_owned()),
            trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        },
        force: true,
    };
    assert_eq!(Directive::parse(json.as_bytes()), Ok(directive.clone()));
    assert_eq!(
        Directive::parse(directive.to_json().as_bytes()),
        Ok(directive)
    );
}

/// Checks states and next changes of one directive over time, at node `lb-1`.
fn check(json: &str, moments: &[(&str, State, Option<&str>)]) {
    let directive = Directive::parse(json.as_bytes()).unwrap();
    for (now, state, next) in moments {
        assert_eq!(
            directive.state(at(now), "lb-1", "canary-state"),
            *state,
            "{json} at {now}"
        );
        assert_eq!(
            directive.next_change(at(now)),
            next.map(at),
            "{json} next after {now}"
        );
    }
}

fn ready(percent: u64) -> State {
    State::Ready(Percent::new(percent).unwrap())
}

#[test]
fn a_plan_happens_at_its_time() {
    check(
        r#"{"state":"drain","then":{"state":"maint","after":"60s"},"since":"2026-11-30T10:00:00Z"}"#,
        &[
            (
                "2026-11-30T10:00:59.999Z",
                State::Drain,
                Some("2026-11-30T10:01:00Z"),
            ),
            ("2026-11-30T10:01:00Z", State::Maint, None),
        ],
    );
}

#[test]
fn a_plan_ends_a_ramp_and_an_end_is_a_change() {
    check(
        r#"{"state":"ready","weight":50,"ramp":{"by":"weight","steps":[5,25],"every":"1m"},
            "then":{"state":"drain","after":"90s"},"since":"2026-11-30T10:00:00Z",
            "until":"2026-11-30T10:00:30Z","on_expiry":"lift"}"#,
        &[
            (
                "2026-11-30T10:00:00Z",
                ready(5),
                Some("2026-11-30T10:00:30Z"),
            ),
            (
                "2026-11-30T10:00:30Z",
                ready(5),
                Some("2026-11-30T10:01:00Z"),
            ),
            (
                "2026-11-30T10:01:00Z",
                ready(25),
                Some("2026-11-30T10:01:30Z"),
            ),
            (
                "2026-11-30T10:01:30Z",
                State::Drain,
                Some("2026-11-30T10:02:00Z"),
            ),
            ("2026-11-30T10:02:00Z", State::Drain, None),
        ],
    );
}

#[test]
fn a_ramp_by_nodes_gives_the_rest_to_those_outside() {
    check(
        r#"{"state":"ready","weight":60,"ramp":{"by":"nodes","steps":[50],"every":"1m",
            "nodes":["lb-0","lb-1"],"rest":"maint"},"since":"2026-11-30T10:00:00Z"}"#,
        &[
            (
                "2026-11-30T10:00:00Z",
                State::Maint,
                Some("2026-11-30T10:01:00Z"),
            ),
            ("2026-11-30T10:01:00Z", ready(60), None),
        ],
    );
}

#[test]
fn an_end_lifts_or_alerts() {
    let until = |word: &str| {
        let json =
            format!(r#"{{"state":"drain","until":"2026-11-30T10:00:00Z","on_expiry":"{word}"}}"#);
        Directive::parse(json.as_bytes()).unwrap()
    };
    let (before, then) = (at("2026-11-30T09:59:59.999Z"), at("2026-11-30T10:00:00Z"));
    let seen = |d: &Directive| [before, then].map(|now| (d.is_lifted(now), d.is_overdue(now)));
    assert_eq!(seen(&until("lift")), [(false, false), (true, false)]);
    assert_eq!(seen(&until("alert")), [(false, false), (false, true)]);
}

prop_compose! {
    fn any_ramp()(
        steps in proptest::collection::btree_set(1u64..=60, 1..6),
        every in proptest::option::of(1u64..10_000),
        nodes in proptest::collection::btree_set("[a-z][a-z0-9]{0,4}", 0..5),
        seed in proptest::option::of("[ -~]{0,8}"), maint: bool, by_nodes: bool,
    ) -> Ramp {
        let names = nodes.iter().map(|n| Name::parse(n).unwrap()).collect();
        let rest = if maint { Rest::Maint } else { Rest::Drain };
        let nodes = Nodes { order: Order::new(names).unwrap(), seed, rest };
        Ramp {
            by: if by_nodes { By::Nodes(nodes) } else { By::Weight },
            steps: steps.into_iter().map(|s| Percent::new(s).unwrap()).collect(),
            every: every.map(Duration::from_secs),
        }
    }
}

fn any_desired() -> impl Strategy<Value = Desired> {
    let weight = (60u64..=100).prop_map(|w| Percent::new(w).unwrap());
    prop_oneof![
        Just(Desired::Drain),
        Just(Desired::Maint),
        (weight, proptest::option::of(any_ramp()))
            .prop_map(|(weight, ramp)| Desired::Ready { weight, ramp }),
    ]
}

prop_compose! {
    fn any_directive()(
        desired in any_desired(),
        plan in proptest::option::of((0u8..3, 1u64..100_000)),
        since in 0i64..4_000_000_000,
        expiry in proptest::option::of((0i64..4_000_000_000, any::<bool>())),
        by in proptest::option::of(".{0,9}"), reason in proptest::option::of(".{0,9}"), force: bool,
    ) -> Directive {
        let second = |s| Timestamp::from_second(s).unwrap();
        Directive {
            desired,
            then: plan.map(|(word, after)| Plan {
                state: [State::Ready(Percent::FULL), State::Drain, State::Maint][usize::from(word)],
                after: Duration::from_secs(after),
            }),
            since: Some(second(since)),
            expiry: expiry.map(|(until, lift)| Expiry {
                until: second(until),
                on_expiry: if lift { OnExpiry::Lift } else { OnExpiry::Alert },
            }),
            author: Author { by, reason, change: None, trace: None },
            force,
        }
    }
}

proptest! {
    #[test]
    fn a_written_directive_reads_back(directive in any_directive()) {
        prop_assert_eq!(Directive::parse(directive.to_json().as_bytes()), Ok(directive));
    }

    #[test]
    fn nothing_changes_before_the_next_change(directive in any_directive(), now in 0i64..4_000_000_000, gap in 0i64..1_000_000) {
        let now = Timestamp::from_second(now).unwrap();
        let until = directive.next_change(now).unwrap_or(Timestamp::MAX);
        prop_assert!(until > now);
        let later = Timestamp::from_second(now.as_second() + gap).unwrap().min(
            until.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap());
        for node in ["a", "b1", "other"] {
            prop_assert_eq!(directive.state(now, node, "p"), directive.state(later, node, "p"));
            prop_assert_eq!(directive.is_lifted(now), directive.is_lifted(later));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Directive::parse(&bytes);
    }

    #[test]
    fn any_json_is_read_or_refused(text in r#"\{("(state|weight|ramp|then|since|by|v)":("ready"|"drain"|5|1|\{\}|null|\[5\]|"1s"),?){0,5}\}"#) {
        let _ = Directive::parse(text.as_bytes());
    }
}
