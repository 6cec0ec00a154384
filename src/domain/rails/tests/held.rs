//! Rows that do not follow the KV on some nodes.

use super::*;
use crate::domain::answer::{Answer, Percent, State};
use crate::domain::topology::{Placement, Unfollowed};

const READY: Answer = Answer::State(State::Ready(Percent::FULL));
const DRAIN: Answer = Answer::State(State::Drain);

/// What is said of a drain of `solo/a` in the KV (or of nothing), with this row of `lb-b1` that
/// does not follow it: as it is, and as its socket is to set it.
fn held(changes: &[(&str, &str)], server: &str, now: Answer, next: Answer) -> Verdict {
    let settings = format!("{{{ROWS}}}");
    let snapshot = |changes: &[(&str, &str)]| {
        let standing = [
            ("settings", settings.as_str()),
            ("canary-state", "ready"),
            ("group-states/main", "ready"),
        ];
        let entries = [&standing[..], changes].concat();
        Snapshot::build(&Listing::with_sentinel(1, &entries)).unwrap()
    };
    let (node, server) = (
        Name::parse("lb-b1").unwrap(),
        ServerId::parse(server).unwrap(),
    );
    let row = Unfollowed {
        node: node.clone(),
        server: server.clone(),
        placement: Placement {
            active: true,
            weight: 100,
        },
        groups: Vec::new(),
        now,
    };
    let (parsed, _) = Settings::parse(settings.as_bytes()).unwrap();
    let topology = Topology::from_settings(&parsed, None)
        .with_unfollowed(&[row], None)
        .with_held([(&node, &server, next)]);
    let deploys = BTreeMap::new();
    let context = context(&WRITE, &deploys);
    evaluate(&snapshot(&[]), &snapshot(changes), &topology, &context)
}

fn rails(verdict: &Verdict) -> Vec<Rail> {
    let refusals = verdict.refusals.iter();
    refusals.map(|refusal| refusal.rail).collect()
}

#[test]
fn a_row_that_does_not_follow_is_judged_by_what_its_socket_sets() {
    // Nothing changes in the KV: its socket alone takes the last server.
    let verdict = held(&[], "solo/a", READY, DRAIN);
    assert_eq!(rails(&verdict), [Rail::Floor]);
    let row = &verdict.rows[0];
    assert!(row.by_socket, "{row:?}");
    assert_eq!(
        (row.nodes[0].as_str(), row.now, row.next),
        ("lb-b1", READY, DRAIN)
    );
    // It is drained there already, and stays so.
    let verdict = held(&[], "solo/a", DRAIN, DRAIN);
    assert_eq!(verdict, Verdict::default());
    // Opening is never refused.
    assert_eq!(rails(&held(&[], "solo/a", DRAIN, READY)), []);
}

#[test]
fn what_an_old_node_has_drained_by_hand_does_not_count_there() {
    let b = [("nodes/lb-b1/server-overrides/web/b", "drain")];
    let main = [
        ("nodes/lb-b1/server-overrides/web/b", "drain"),
        ("nodes/lb-b1/server-overrides/web/c", "drain"),
    ];
    // `web/d` serves on lb-b1, or is out there already.
    assert_eq!(rails(&held(&b, "web/d", READY, READY)), [Rail::CanaryAlone]);
    let with_d = rails(&held(&main, "web/d", READY, READY));
    let without = rails(&held(&main, "web/d", DRAIN, DRAIN));
    assert!(!with_d.contains(&Rail::Floor), "{with_d:?}");
    assert!(without.contains(&Rail::Floor), "{without:?}");
}

#[test]
fn rows_that_follow_and_rows_that_do_not_are_shown_apart() {
    let verdict = held(
        &[("server-overrides/solo/a", "drain")],
        "solo/a",
        READY,
        DRAIN,
    );
    let shown: Vec<_> = verdict
        .rows
        .iter()
        .map(|row| (row.by_socket, row.nodes.len()))
        .collect();
    assert_eq!(shown.len(), 2, "{:?}", verdict.rows);
    assert!(
        shown.contains(&(true, 1)) && shown.contains(&(false, 3)),
        "{shown:?}"
    );
}

#[test]
fn a_node_and_a_row_that_no_settings_name_stand_as_they_are_shown() {
    let row = Unfollowed {
        node: Name::parse("lb-9").unwrap(),
        server: ServerId::parse("web/gke-cny-web").unwrap(),
        placement: Placement {
            active: false,
            weight: 7,
        },
        groups: vec![Name::parse("canary").unwrap()],
        now: READY,
    };
    let topology = Topology::default().with_unfollowed(std::slice::from_ref(&row), None);
    let node = &topology.nodes()["lb-9"];
    assert_eq!(topology.placement(node, &row.server), Some(row.placement));
    assert!(topology.rows()["web/gke-cny-web"].is_of("canary"));
    assert!(topology.describes(&row.server));
    assert_eq!(topology.written().count(), 0);
}
