use std::time::Duration;

use super::*;
use crate::domain::answer::Answer;
use crate::domain::fleet::{Identity, Polled, Report, Table, Told, Version};
use crate::domain::listing::Listing;
use crate::domain::observed::{Class, Exactness, Observed, ObservedBackend, Part};
use crate::domain::sentinel::Generation;

const NOW: &str = "2026-11-30T10:00:00Z";
const MAX_AGE: Duration = Duration::from_mins(1);

/// Two canary rows and a main one on each of three nodes; lb-3 polls no longer.
const ENTRIES: [(&str, &str); 3] = [
    (
        "canary-state",
        r#"{"state":"drain","by":"alice","reason":"bad\nrelease","since":"2026-11-30T09:00:00Z"}"#,
    ),
    ("group-states/main", "ready"),
    (
        "settings",
        r#"{"rows":[{"server":"web/gke-b","groups":["main"]}],"nodes":[{"name":"lb-1","role":"main"},
            {"name":"lb-2","role":"main"},{"name":"lb-3","role":"main"}]}"#,
    ),
];
const POLLS: [(&str, &str, &str, i64); 5] = [
    ("lb-1", "web/gke-b", "ready 100%", 1),
    ("lb-1", "canary_web/gke-cny-web", "drain", 1),
    ("lb-2", "canary_web/gke-cny-web", "drain", 1),
    ("lb-2", "web/gke-b", "ready 100%", 1),
    ("lb-3", "canary_web/gke-cny-web", "drain", 41),
];
const STATES: [(&str, &str, &str); 4] = [
    ("lb-1", "web/gke-b", "UP 1/2"),
    ("lb-1", "canary_web/gke-cny-web", "DRAIN (agent)"),
    ("lb-2", "canary_web/gke-cny-web", "UP"),
    ("lb-2", "web/gke-b", "no check"),
];

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn before(seconds: i64) -> Timestamp {
    now() - jiff::SignedDuration::from_secs(seconds)
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A fleet whose polls came so many seconds ago.
fn fleet(polls: &[(&str, &str, &str, i64)], index: u64) -> Merged {
    let generation = Generation { epoch: 1, r#gen: 1 };
    let version = Version { generation, index };
    let mut table = Table::new(100);
    for (node, server, answer, seconds) in polls {
        let at = before(*seconds);
        let told = Told {
            at,
            version: Version {
                generation,
                index: 7,
            },
            answer: Answer::from_words(answer).unwrap(),
        };
        let identity = Identity {
            node: name(node),
            server: ServerId::parse(server).unwrap(),
            zone: Some(name("b")),
            address: "10.0.0.1".parse().unwrap(),
        };
        table.record(&identity, &Polled::once(at, Some(told)));
    }
    Merged::of([Report {
        replica: name("a"),
        at: now(),
        since: before(600),
        poll_interval: Duration::from_secs(2),
        newest: Some(version),
        dropped: 0,
        nodes: table.nodes().clone(),
    }])
}

fn observed(status: &str) -> Observed {
    Observed {
        status: status.to_owned(),
        class: Class::of(status),
        exactness: Exactness::Exact,
        weight: Some(100),
        part: Some(Part::Active),
        sessions: Some(2),
        last_agt: None,
        at: before(0),
    }
}

/// What HAProxy has; a backend is up when a server of it is.
fn seen(states: &[(&str, &str, &str)]) -> Observation {
    let mut all = Observation {
        sources: vec!["prometheus http://p:9090".to_owned()],
        ..Observation::default()
    };
    for (node, server, status) in states {
        let node = all.nodes.entry(name(node)).or_default();
        let id = ServerId::parse(server).unwrap();
        let backend = ObservedBackend {
            up: Class::of(status).is_up(),
            at: before(0),
        };
        node.backends.insert(name(id.backend()), backend);
        node.servers.insert(id, observed(status));
    }
    all
}

fn view(entries: &[(&str, &str)], fleet: Option<&Merged>, observation: Observation) -> View {
    view_at(7, entries, fleet, observation)
}

/// The same when the store's listing has another index than what was told.
fn view_at(
    index: u64,
    entries: &[(&str, &str)],
    fleet: Option<&Merged>,
    observation: Observation,
) -> View {
    let snapshot = Snapshot::build(&Listing::with_sentinel(index, entries)).unwrap();
    View::new(Parts {
        snapshot: Some(&snapshot),
        fleet,
        observation,
        missing: Vec::new(),
        now: now(),
    })
}

fn whole() -> View {
    view(&ENTRIES, Some(&fleet(&POLLS, 7)), seen(&STATES))
}

#[test]
fn the_table_shows_splits_silent_nodes_and_whose_doing_it_is() {
    assert_eq!(
        whole().to_string(),
        "at 2026-11-30T10:00:00Z, index 7: 5 rows on 3 nodes\n\
         HAProxy's own word: prometheus http://p:9090\n\
         silent   lb-3, last poll 41 s ago\n\
         split    canary_web/gke-cny-web: DRAIN on lb-1; UP on lb-2\n\
         differs  canary_web/gke-cny-web on lb-2: was told drain, and HAProxy has UP\n\
         NODES  SERVER                  DESIRED     SERVED         HAPROXY             WHY\n\
         1      canary_web/gke-cny-web  drain       drain          DRAIN (agent) w100  canary-state is drain by alice since 2026-11-30T09:00:00Z: bad release\n\
         1      canary_web/gke-cny-web  drain       drain          UP w100             canary-state is drain by alice since 2026-11-30T09:00:00Z: bad release\n\
         1      canary_web/gke-cny-web  drain       drain, silent  -                   canary-state is drain by alice since 2026-11-30T09:00:00Z: bad release\n\
         1      web/gke-b               ready 100%  ready 100%     UP 1/2 w100         group-states/main is ready 100%\n\
         1      web/gke-b               ready 100%  ready 100%     no check w100       group-states/main is ready 100%\n",
    );
}

#[test]
fn the_json_holds_all_three_words_about_a_row() {
    let view = view(&ENTRIES, Some(&fleet(&POLLS[2..3], 7)), seen(&STATES[2..3]));
    let row = serde_json::json!({
        "node": "lb-2", "server": "canary_web/gke-cny-web", "role": "main", "zone": "b",
        "canary": true, "state": "UP",
        "desired": {
            "answer": "drain", "path": "canary-state", "by": "alice", "reason": "bad\nrelease",
            "since": "2026-11-30T09:00:00Z", "groups": "name",
        },
        "served": {
            "answer": "drain", "index": 7, "at": "2026-11-30T09:59:59Z",
            "last_poll": "2026-11-30T09:59:59Z", "silent": false, "behind": false,
        },
        "observed": {
            "status": "UP", "class": "UP", "exactness": "exact", "weight": 100, "part": "active",
            "sessions": 2, "at": NOW,
        },
        "not_converged": "was told drain, and HAProxy has UP",
    });
    let backend = serde_json::json!({
        "node": "lb-2", "backend": "canary_web", "canary": true, "up": true, "at": NOW,
    });
    let whole = serde_json::json!({
        "at": NOW, "index": 7, "observed_from": ["prometheus http://p:9090"], "missing": [],
        "problems": [], "silent": [], "splits": [], "nowhere": ["web/gke-b"],
        "backends": [backend], "rows": [row],
    });
    assert_eq!(serde_json::to_value(&view).unwrap(), whole);
}

fn states(view: &View) -> Vec<String> {
    let states = view.server_states();
    states.iter().map(ToString::to_string).collect()
}

#[test]
fn the_lines_of_get_count_nodes_by_role_and_state() {
    assert_eq!(
        states(&whole()),
        [
            "1 main canary_web/gke-cny-web: DRAIN",
            "1 main canary_web/gke-cny-web: UP",
            "1 main canary_web/gke-cny-web: unknown",
            "2 main web/gke-b: UP",
        ]
    );
    let served = view(&ENTRIES, Some(&fleet(&POLLS, 7)), Observation::default());
    assert_eq!(
        states(&served),
        [
            "3 main canary_web/gke-cny-web: DRAIN",
            "2 main web/gke-b: UP"
        ]
    );
}

#[test]
fn the_block_for_chat_is_the_one_that_its_users_know() {
    let mut states = seen(&STATES);
    let other = ("canary_api", "canary_api/gke-cny-api");
    let node = states.nodes.get_mut("lb-1").unwrap();
    for (server, status, weight) in [
        (other.1, "UP", 5),
        ("canary_api/gke-cny-api-old", "MAINT", 0),
    ] {
        let observed = Observed {
            weight: Some(weight),
            ..observed(status)
        };
        node.servers
            .insert(ServerId::parse(server).unwrap(), observed);
    }
    let view = view(&ENTRIES, None, states);
    assert_eq!(
        chatops(view.rows.iter().filter(|row| row.canary)),
        ":canary:\n:canary:\n:canary:\n```\n\
         canary_api          : conn:2 UP:1\n\
         canary_web          : conn:4 DRAIN:1 UP:1\n\
         *DRAIN*: canary_web/gke-cny-web\n\
         *UP*: canary_api/gke-cny-api, canary_web/gke-cny-web\n```\n",
    );
}

#[test]
fn what_is_missing_is_named_and_not_replaced() {
    let nothing = View::new(Parts {
        snapshot: None,
        fleet: None,
        observation: Observation::default(),
        missing: vec![Missing {
            what: "the store".to_owned(),
            why: "refused".to_owned(),
        }],
        now: now(),
    });
    assert_eq!(
        nothing.to_string(),
        "at 2026-11-30T10:00:00Z, index ?: 0 rows on 0 nodes\n\
         HAProxy's own word: nobody (give --prometheus or --stats)\n\
         missing  the store: refused\n\
         NODES  SERVER  DESIRED  SERVED  HAPROXY  WHY\n",
    );
    // HAProxy was asked, and does not know the rows of lb-3.
    let states = whole();
    let silent = states.rows.iter().find(|row| row.node.as_str() == "lb-3");
    assert_eq!(silent.unwrap().state, UNKNOWN);
}

#[test]
fn between_two_looks_each_change_is_a_line() {
    let first = whole();
    assert_eq!(changes(&first, &first), Vec::<String>::new());
    let mut polls = POLLS;
    polls[1] = ("lb-1", "canary_web/gke-cny-web", "ready 100%", 0);
    polls[4].3 = 0;
    let mut later = seen(&[("lb-1", "canary_web/gke-cny-web", "UP")]);
    later.add(seen(&STATES[2..]));
    let second = view(&ENTRIES, Some(&fleet(&polls, 7)), later);
    assert_eq!(
        changes(&first, &second),
        [
            "2026-11-30T10:00:00Z canary_web/gke-cny-web on lb-1: desired ready 100%, served ready 100%, HAProxy UP",
            "2026-11-30T10:00:00Z canary_web/gke-cny-web on lb-3: desired drain, served drain, HAProxy -",
            "2026-11-30T10:00:00Z web/gke-b on lb-1: desired ready 100%, served ready 100%, HAProxy -",
        ]
    );
    let none = view(&[], None, Observation::default());
    let gone = changes(&second, &none);
    assert_eq!(gone.len(), 5, "{gone:?}");
    assert!(gone[0].ends_with("canary_web/gke-cny-web on lb-1: no longer known"));
}

mod compare;
mod decisions;
mod rows;
mod selected;
