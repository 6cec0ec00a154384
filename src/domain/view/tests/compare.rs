use super::super::Compare;
use super::*;

/// The canary's rows of lb-1 and lb-2 are in shadow mode; lb-3 asks nobody.
const SHADOW: [(&str, &str, &str, i64); 4] = [
    ("lb-1", "web/gke-b", "shadow-ready-100", 1),
    ("lb-1", "canary_web/gke-cny-web", "shadow-drain", 1),
    ("lb-2", "canary_web/gke-cny-web", "shadow-drain", 1),
    ("lb-2", "web/gke-b", "ready 100%", 1),
];
const SAME: [(&str, &str, &str); 5] = [
    ("lb-1", "web/gke-b", "UP 1/2"),
    ("lb-1", "canary_web/gke-cny-web", "DRAIN"),
    ("lb-2", "canary_web/gke-cny-web", "DRAIN"),
    ("lb-2", "web/gke-b", "no check"),
    ("lb-3", "web/gke-b", "UP"),
];

fn compare(polls: &[(&str, &str, &str, i64)], observation: Observation) -> Compare {
    Compare::new(
        &view(&ENTRIES, Some(&fleet(polls, 7)), observation),
        MAX_AGE,
    )
}

/// One row of lb-1 as it is told, beside what HAProxy has: its verdict, and why.
fn check(told: &str, change: impl Fn(&mut Observed), expected: &str) {
    let polls = [("lb-1", "web/gke-b", told, 1)];
    let mut seen = seen(&[("lb-1", "web/gke-b", "UP")]);
    let servers = &mut seen.nodes.get_mut("lb-1").unwrap().servers;
    change(servers.get_mut("web/gke-b").unwrap());
    let compared = compare(&polls, seen);
    let row = &compared.nodes[0].rows[0];
    let why = row
        .why
        .as_deref()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    assert_eq!(format!("{}{why}", row.verdict.as_str()), expected, "{told}");
    assert_eq!(compared.ready, expected == "same", "{told}");
}

fn status(status: &str) -> impl Fn(&mut Observed) {
    move |observed| {
        observed.status = status.to_owned();
        observed.class = Class::of(status);
    }
}

#[test]
fn the_table_says_of_each_node_whether_it_may_be_switched() {
    let same = compare(&SHADOW, seen(&SAME));
    assert!(same.ready);
    assert_eq!(
        same.to_string(),
        "NODE  SERVER                  DESIRED     WOULD BE    HAPROXY                 VERDICT\n\
         lb-1  canary_web/gke-cny-web  drain       drain       DRAIN at weight 100     same\n\
         lb-1  web/gke-b               ready 100%  ready 100%  UP 1/2 at weight 100    same\n\
         lb-2  canary_web/gke-cny-web  drain       drain       DRAIN at weight 100     same\n\
         lb-2  web/gke-b               ready 100%  -           no check at weight 100  follows\n\n\
         lb-1: ready to switch: 2 rows in shadow, 0 follow, 0 outside\n\
         lb-2: ready to switch: 1 rows in shadow, 1 follow, 0 outside\n\
         not compared, since no row of them asks: lb-3\n"
    );
    let mut other = SAME;
    other[1].2 = "UP";
    let differs = compare(&SHADOW, seen(&other)).to_string();
    assert!(
        differs.contains("differs: it would go from UP to drain\n"),
        "{differs}"
    );
    assert!(differs.contains("lb-1: not ready: 2 rows"), "{differs}");
    assert!(differs.contains("lb-2: ready to switch"), "{differs}");
}

#[test]
fn a_row_is_the_same_where_following_changes_nothing() {
    let ready = "shadow-ready-100";
    check(ready, |_| {}, "same");
    check(ready, status("no check"), "same");
    check(
        ready,
        status("DRAIN"),
        "differs: it would go from DRAIN to ready 100%",
    );
    check(
        ready,
        status("MAINT (via x/y)"),
        "differs: it would go from MAINT (via x/y) to ready 100%",
    );
    let down = "unknown: of a server that is DOWN 1/2 nobody sees whether it drains";
    check(ready, status("DOWN 1/2"), down);
    check(
        ready,
        |seen| seen.weight = Some(40),
        "differs: its weight would go from 40 to 100",
    );
    check(
        ready,
        |seen| seen.weight = None,
        "unknown: its weight is not known",
    );
    check(
        ready,
        |seen| seen.at = before(61),
        "unknown: HAProxy's word is of 61 s ago",
    );
    let series = "unknown: there is no haproxy_server_status of it";
    check(ready, |seen| seen.exactness = Exactness::UpOrNot, series);
    check("shadow-drain", |_| {}, "unknown: it was told shadow-drain");
    check("unknown-group", |_| {}, "unknown: it is told unknown-group");
    check("ready 100%", status("DOWN"), "follows");
}

#[test]
fn what_is_missing_hinders() {
    let polls = [SHADOW[1]];
    // Known to the settings, and does not ask.
    let quiet = compare(&polls, seen(&SAME[..2])).to_string();
    assert!(quiet.contains("unknown: it does not ask"), "{quiet}");
    let late = [
        ("lb-1", "canary_web/gke-cny-web", "shadow-drain", 41),
        ("lb-2", "web/gke-b", "ready 100%", 1),
    ];
    let late = compare(&late, seen(&SAME)).to_string();
    assert!(late.contains("unknown: it asked last 41 s ago"), "{late}");
    let unseen = compare(&polls, Observation::default());
    assert!(
        unseen
            .to_string()
            .contains("unknown: what HAProxy has is not known"),
        "{unseen}"
    );
    // Nobody is in shadow mode.
    let none = compare(&[SHADOW[3]], seen(&SAME[3..4]));
    assert_eq!((none.ready, none.hindering()), (false, 0));
    assert!(none.to_string().contains("lb-2: follows already"), "{none}");
    // A server outside: nobody lists it, and it has no agent; with one it is a slip.
    let mut with = seen(&[SAME[1], ("lb-1", "other/x", "UP")]);
    let outside = compare(&polls, with.clone());
    assert!(outside.ready, "{outside}");
    let other = with
        .nodes
        .get_mut("lb-1")
        .unwrap()
        .servers
        .get_mut("other/x")
        .unwrap();
    other.last_agt = Some("Connection refused".to_owned());
    assert!(!compare(&polls, with).ready);
}
