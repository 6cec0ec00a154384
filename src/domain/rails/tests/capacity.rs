//! What is left of a backend.

use super::*;

#[test]
fn the_last_server_that_can_serve_is_not_taken() {
    let solo = "server-overrides/solo/a";
    let floor = (
        Rail::Floor,
        "solo: 0 of 2 servers could serve, the floor is 1",
    );
    check_keys(&[], &[(solo, "drain")], &[floor]);
    check_keys(&[], &[(solo, "1%")], &[]);
    check_keys(&[(solo, "drain")], &[(solo, "maint")], &[]);
    check_keys(&[(solo, "drain")], &[(solo, "")], &[]);
    check_keys(
        &[],
        &[("zones/us-b/server-overrides/solo/a", "drain")],
        &[(Rail::Floor, "zone us-b")],
    );
    check_keys(
        &[],
        &[("nodes/lb-b2/server-overrides/solo/a", "drain")],
        &[(Rail::Floor, "zone us-b")],
    );
}

#[test]
fn clearing_what_kept_a_server_ready_is_a_reduction() {
    let main = ("group-states/main", "drain");
    check_keys(
        &[CANARY_DRAINED, main, (B, "ready")],
        &[(B, "")],
        &[
            (Rail::Floor, "web/b"),
            (Rail::SecondZone, "us-b, us-c, us-d"),
        ],
    );
}

#[test]
fn floors_are_of_the_settings_and_the_canary_counts_only_where_it_is_alone() {
    let rails = r#"{"floors":{"default":2,"backends":{"canary_web":1}},"many_rows":9}"#;
    let write = Write {
        rails,
        before: &[(B, "drain"), CANARY_DRAINED],
        ..WRITE
    };
    check(
        &Write {
            changes: &[(B, "maint")],
            ..write.clone()
        },
        &[],
    );
    let second = Write {
        changes: &[(C, "drain")],
        ..write
    };
    check(
        &second,
        &[
            (Rail::Floor, "1 of 3 servers"),
            (Rail::SecondZone, "us-b, us-c"),
        ],
    );
    let canary = Write {
        rails,
        changes: &[CANARY_DRAINED],
        ..WRITE
    };
    check(&canary, &[(Rail::Floor, "canary_web: 0 of 1")]);
    check(
        &Write {
            rails: "{}",
            ..canary
        },
        &[],
    );
}

#[test]
fn only_the_canary_active_is_refused_from_both_sides() {
    let alone = (
        Rail::CanaryAlone,
        "web: only the canary would take traffic, seen from the nodes of zone us-b",
    );
    check_keys(&[], &[(B, "drain")], &[alone]);
    check_keys(&[CANARY_DRAINED], &[(B, "drain")], &[]);
    check_keys(
        &[CANARY_DRAINED, (B, "drain")],
        &[(CANARY_STATE, "ready")],
        &[alone],
    );
    check_keys(
        &[CANARY_DRAINED, (B, "drain")],
        &[(CANARY_STATE, "1%")],
        &[(Rail::CanaryAlone, "web/cny")],
    );
    // On the nodes of one zone the canary may be taken out first.
    let zone = ("zones/us-b/canary-state", "drain");
    check_keys(&[zone], &[(B, "drain")], &[]);
    check_keys(
        &[zone, (B, "drain")],
        &[("zones/us-b/canary-state", "")],
        &[alone],
    );
}

#[test]
fn an_undrain_of_a_server_is_never_refused() {
    let all = [
        (B, "maint"),
        (C, "maint"),
        (D, "maint"),
        (CANARY_STATE, "ready"),
    ];
    for change in [
        (B, "ready"),
        (B, ""),
        (C, "40%"),
        (
            D,
            r#"{"state":"ready","ramp":{"by":"nodes","steps":[5,50],"every":"1m"},"since":"2026-11-30T10:00:00Z"}"#,
        ),
    ] {
        check_keys(&all, &[change], &[]);
    }
}

#[test]
fn a_second_zone_is_refused_and_a_first_one_not() {
    check_keys(&[CANARY_DRAINED], &[(B, "drain")], &[]);
    check_keys(
        &[CANARY_DRAINED, (B, "drain")],
        &[(C, "drain")],
        &[(Rail::SecondZone, "us-b, us-c")],
    );
    check_keys(
        &[CANARY_DRAINED, (B, "drain")],
        &[(B, ""), (C, "drain")],
        &[],
    );
    let down = [("lb-b1", "web/b"), ("lb-d1", "web/b")];
    let write = Write {
        before: &[CANARY_DRAINED],
        changes: &[(C, "drain")],
        down: &down,
        ..WRITE
    };
    check(&write, &[(Rail::SecondZone, "(down: web/b)")]);
}

#[test]
fn what_is_seen_down_does_not_count_and_is_not_drained_for_it() {
    let solo = [("server-overrides/solo/a", "drain")];
    let down = ["lb-b1", "lb-b2", "lb-c1", "lb-d1"].map(|node| (node, "solo/a"));
    check(
        &Write {
            changes: &solo,
            down: &down,
            ..WRITE
        },
        &[(Rail::Floor, "solo/a")],
    );
    let down = [("lb-c1", "web/c"), ("lb-c1", "web/d")];
    let write = Write {
        before: &[CANARY_DRAINED],
        changes: &[(B, "drain")],
        down: &down,
        ..WRITE
    };
    check(
        &write,
        &[(Rail::Floor, "web: 0 of 3"), (Rail::SecondZone, "us-c")],
    );
}

#[test]
fn what_follows_nothing_goes_on_serving() {
    check_keys(&[], &[("server-overrides/mixed/enrolled", "drain")], &[]);
    let down = ["lb-b1", "lb-b2", "lb-c1", "lb-d1"].map(|node| (node, "mixed/old"));
    let changes = [("server-overrides/mixed/enrolled", "drain")];
    check(
        &Write {
            changes: &changes,
            down: &down,
            ..WRITE
        },
        &[(Rail::Floor, "mixed/enrolled")],
    );
}

#[test]
fn what_a_write_does_later_counts_too() {
    let solo = "server-overrides/solo/a";
    let since = |rest: &str| format!(r#"{{"state":"ready","since":"{NOW}",{rest}}}"#);
    let plan = since(r#""then":{"state":"drain","after":"1h"}"#);
    check_keys(
        &[],
        &[(solo, &plan)],
        &[(Rail::Floor, "from 2026-11-30T11:00:00Z")],
    );
    let ramp = since(
        r#""ramp":{"by":"nodes","steps":[50],"every":"1m","nodes":["lb-b1","lb-b2","lb-c1","lb-d1"]}"#,
    );
    check_keys(&[], &[(solo, &ramp)], &[(Rail::Floor, "solo/a")]);
    check_keys(&[(solo, "drain")], &[(solo, &ramp)], &[]);
    let lifted = r#"{"state":"ready","until":"2026-11-30T12:00:00Z","on_expiry":"lift"}"#;
    let main = ("group-states/main", "drain");
    check_keys(
        &[CANARY_DRAINED, (B, lifted), (C, lifted), (D, lifted)],
        &[main],
        &[
            (Rail::Floor, "from 2026-11-30T12:00:00Z"),
            (Rail::SecondZone, "12:00:00Z"),
        ],
    );
}

#[test]
fn what_lies_too_far_ahead_is_refused() {
    let steps: Vec<_> = (1..=100).map(|step| step.to_string()).collect();
    let steps = steps.join(",");
    // Six directives in turn, each with a ramp of 99 steps.
    let ramp = |turn: i64| {
        let moment = |turn| at(NOW) + jiff::SignedDuration::from_secs(turn * 99);
        let (since, until) = (moment(turn), moment(turn + 1));
        format!(
            r#"{{"state":"ready","ramp":{{"by":"weight","steps":[{steps}],"every":"1s"}},"since":"{since}","until":"{until}","on_expiry":"lift"}}"#
        )
    };
    let scopes = ["nodes/lb-b1/", "zones/us-b/", ""];
    let paths = ["server-overrides/web/b", "group-states/main"]
        .into_iter()
        .flat_map(|target| scopes.map(|scope| format!("{scope}{target}")));
    let values: Vec<_> = paths.zip((0..).map(ramp)).collect();
    let keys: Vec<_> = values
        .iter()
        .map(|(p, v)| (p.as_str(), v.as_str()))
        .collect();
    check_keys(&[], &keys[..5], &[]);
    check_keys(&[], &keys, &[(Rail::TooFarAhead, "web/b")]);
}

/// A value that cannot be read freezes the row, and HAProxy may well serve with it.
#[test]
fn what_is_frozen_is_not_counted_on_and_not_drained_for_it() {
    let oops = |key| (key, "oops");
    let solo = "server-overrides/solo/a";
    check_keys(
        &[oops(solo)],
        &[(solo, "drain")],
        &[(Rail::Floor, "solo/a")],
    );
    check_keys(&[], &[oops(solo)], &[(Rail::Floor, "solo/a")]);
    check_keys(&[oops(solo)], &[(solo, "ready")], &[]);
    check_keys(&[oops(solo)], &[(solo, "wrong")], &[]);
    check_keys(
        &[oops(B)],
        &[(B, "drain")],
        &[(Rail::CanaryAlone, "zone us-b")],
    );
    check_keys(
        &[CANARY_DRAINED, (B, "drain"), oops(C)],
        &[(C, "drain")],
        &[(Rail::SecondZone, "us-b, us-c")],
    );
    check_keys(&[CANARY_DRAINED, (B, "drain"), oops(C)], &[(D, "40%")], &[]);
    // Of the canary it is not known that it is closed.
    check_keys(
        &[oops(CANARY_STATE)],
        &[(B, "drain")],
        &[(Rail::CanaryAlone, "zone us-b")],
    );
}

/// Two nodes of one zone that a ramp takes in at different steps do not stand for each other.
#[test]
fn a_node_that_a_ramp_leaves_out_is_judged_for_itself() {
    let ramp = format!(
        r#"{{"state":"ready","since":"{NOW}","ramp":{{"by":"nodes","steps":[75],"every":"1m","nodes":["lb-b1","lb-c1","lb-d1","lb-b2"]}}}}"#
    );
    let solo = "server-overrides/solo/a";
    check_keys(&[], &[(solo, &ramp)], &[(Rail::Floor, "zone us-b")]);
    let all = ramp.replace("75", "76");
    check_keys(&[], &[(solo, &all)], &[]);
}
