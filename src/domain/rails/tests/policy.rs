//! How a write is written.

use super::*;

#[test]
fn maintenance_needs_a_drain_before() {
    let changes = [(CANARY_STATE, "maint")];
    let write = Write {
        changes: &changes,
        ..WRITE
    };
    check(&write, &[(Rail::MaintFromReady, "canary_web/cny")]);
    check(
        &Write {
            flags: &[Flag::Now],
            ..write.clone()
        },
        &[],
    );
    check(
        &Write {
            before: &[CANARY_DRAINED],
            ..write
        },
        &[],
    );
    let disable =
        format!(r#"{{"state":"drain","then":{{"state":"maint","after":"60s"}},"since":"{NOW}"}}"#);
    check_keys(&[], &[(CANARY_STATE, &disable)], &[]);
    let later = disable.replace("drain", "ready");
    check_keys(
        &[],
        &[(CANARY_STATE, &later)],
        &[(Rail::MaintFromReady, "from 2026-11-30T10:01:00Z")],
    );
    // What was to come anyway is not this write's doing.
    let slower = later.replace("\"state\":\"ready\"", "\"state\":\"ready\",\"weight\":50");
    check_keys(&[(CANARY_STATE, &later)], &[(CANARY_STATE, &slower)], &[]);
}

#[test]
fn many_rows_need_a_typed_sentence() {
    let rails = r#"{"floors":{"default":0},"many_rows":1,"unattended":true}"#;
    let sentence = "take traffic from 2 of 6 servers";
    let changes = [
        ("server-overrides/solo/a", "drain"),
        ("server-overrides/mixed/enrolled", "drain"),
    ];
    let write = Write {
        rails,
        changes: &changes,
        ..WRITE
    };
    let refused = [(Rail::ManyRows, sentence)];
    check(&write, &refused);
    let told = |reason, consent| Write {
        reason,
        consent,
        ..write.clone()
    };
    check(&told(None, Consent::Terminal(Some("yes"))), &refused);
    check(&told(None, Consent::Terminal(Some(sentence))), &[]);
    let yes = Consent::Unattended { yes: true };
    check(
        &told(Some("move"), Consent::Unattended { yes: false }),
        &refused,
    );
    check(&told(Some(" "), yes), &refused);
    check(&told(Some("move"), yes), &[]);
    let rails = rails.replace("true", "false");
    check(
        &Write {
            rails: &rails,
            ..told(Some("move"), yes)
        },
        &refused,
    );
    let rails = rails.replace("\"many_rows\":1", "\"many_rows\":2");
    check(
        &Write {
            rails: &rails,
            ..write.clone()
        },
        &[],
    );
}

#[test]
fn more_than_half_of_the_rows_are_many() {
    let rails = r#"{"floors":{"default":0}}"#;
    let four = [
        ("server-overrides/solo/a", "drain"),
        ("server-overrides/mixed/enrolled", "drain"),
        (B, "drain"),
        ("server-overrides/solo/zero", "drain"),
    ];
    check(
        &Write {
            rails,
            changes: &four[..3],
            before: &[CANARY_DRAINED],
            ..WRITE
        },
        &[],
    );
    check(
        &Write {
            rails,
            changes: &four,
            before: &[CANARY_DRAINED],
            ..WRITE
        },
        &[(Rail::ManyRows, "more than half of the rows")],
    );
    check(
        &Write {
            rails,
            changes: &[CANARY_DRAINED],
            ..WRITE
        },
        &[],
    );
}

#[test]
fn a_running_deploy_locks_reductions_of_its_stage_only() {
    let locked = "Cannot set the canary state because of a linked canary deploy in progress: https://ci/7\n\
                  Draining canary during a deploy causes errors for users.\n\
                  Use --ignore-deployment-check if you are sure.";
    let running = r#"{"active":true,"url":"https://ci/7","until":"2026-11-30T10:30:00Z"}"#;
    let ended = r#"{"active":true,"until":"2026-11-30T10:00:00Z"}"#;
    let zone = ("zones/us-b/canary-state", "drain");
    for (stage, deploy, change, refused) in [
        ("cny", running, CANARY_DRAINED, Some(locked)),
        ("cny", running, (CANARY_STATE, "40%"), Some(locked)),
        ("cny", running, zone, Some(locked)),
        ("cny", ended, CANARY_DRAINED, None),
        ("cny", r#"{"active":false}"#, CANARY_DRAINED, None),
        (
            "cny",
            "?",
            CANARY_DRAINED,
            Some("deploys/cny cannot be read"),
        ),
        ("main", running, CANARY_DRAINED, None),
    ] {
        let write = Write {
            deploys: &[(stage, deploy)],
            changes: &[change],
            ..WRITE
        };
        let refused: Vec<_> = refused
            .into_iter()
            .map(|text| (Rail::DeployLock, text))
            .collect();
        check(&write, &refused);
        let flags = &[Flag::IgnoreDeploymentCheck];
        check(
            &Write {
                flags,
                ..write.clone()
            },
            &[],
        );
        let rails = r#"{"stages":{"cny":["main"]}}"#;
        check(&Write { rails, ..write }, &[]);
    }
}

#[test]
fn a_running_deploy_never_locks_ready() {
    let running = [(
        "cny",
        r#"{"active":true,"url":"https://ci/7","until":"2026-11-30T10:30:00Z"}"#,
    )];
    let write = Write {
        deploys: &running,
        changes: &[CANARY_DRAINED],
        ..WRITE
    };
    // Never for ready, at once or slowly, although the drain was to end sooner.
    let ends = r#"{"state":"drain","until":"2026-11-30T10:01:00Z","on_expiry":"lift"}"#;
    let slowly = format!(
        r#"{{"state":"ready","ramp":{{"by":"weight","steps":[5,50],"every":"2m"}},"since":"{NOW}"}}"#
    );
    for ready in ["ready", &slowly] {
        let changes = [(CANARY_STATE, ready)];
        check(
            &Write {
                before: &[(CANARY_STATE, ends)],
                changes: &changes,
                ..write.clone()
            },
            &[],
        );
    }
    // What was to come anyway is not this write's doing.
    let plan = |after: &str| {
        format!(
            r#"{{"state":"ready","then":{{"state":"drain","after":"{after}"}},"since":"{NOW}"}}"#
        )
    };
    let (sooner, later) = (plan("1h"), plan("2h"));
    let (sooner, later) = (
        [(CANARY_STATE, sooner.as_str())],
        [(CANARY_STATE, later.as_str())],
    );
    check(
        &Write {
            before: &sooner,
            changes: &later,
            ..write.clone()
        },
        &[],
    );
    let locked = [(Rail::DeployLock, "canary_web/cny")];
    check(
        &Write {
            before: &later,
            changes: &sooner,
            ..write
        },
        &locked,
    );
}

#[test]
fn an_end_is_demanded_where_the_settings_say_so() {
    let rails = r#"{"ttl":{"required":true,"max":"1h"}}"#;
    let until = |time: &str| format!(r#"{{"state":"drain","until":"2026-11-30T{time}Z"}}"#);
    let zone = "zones/us-b/canary-state";
    let held = r#"{"state":"ready","ramp":{"by":"nodes","steps":[5]}}"#.to_owned();
    let slowly = format!(
        r#"{{"state":"ready","ramp":{{"by":"nodes","steps":[5],"every":"1m"}},"since":"{NOW}"}}"#
    );
    for (path, value, refused) in [
        (zone, "drain", Some("needs an end: --ttl")),
        (zone, &until("11:00:00"), None),
        (zone, &until("11:00:01"), Some("ttl.max allows 1h")),
        (zone, "ready", None),
        (zone, &slowly, None),
        (zone, &held, Some("needs an end: --ttl")),
        (CANARY_STATE, "drain", None),
        (
            "server-overrides/canary_web/cny",
            "drain",
            Some("canary_web/cny"),
        ),
    ] {
        let refused: Vec<_> = refused.into_iter().map(|text| (Rail::Ttl, text)).collect();
        check(
            &Write {
                rails,
                changes: &[(path, value)],
                ..WRITE
            },
            &refused,
        );
    }
}

#[test]
fn a_reason_is_demanded_where_the_settings_say_so() {
    for (rule, changes, reason, refused) in [
        ("never", CANARY_DRAINED, None, false),
        ("reductions", CANARY_DRAINED, None, true),
        ("reductions", CANARY_DRAINED, Some("  "), true),
        ("reductions", CANARY_DRAINED, Some("deploy"), false),
        ("reductions", (B, "ready"), None, false),
        ("always", (B, "ready"), None, true),
        // What changes no answer, such as a deploy lock.
        ("always", (CANARY_STATE, "ready"), None, true),
        ("always", (CANARY_STATE, "ready"), Some("deploy"), false),
        ("reductions", (CANARY_STATE, "ready"), None, false),
    ] {
        let rails = format!("{{\"reason\":\"{rule}\"}}");
        let refused: &[_] = if refused {
            &[(Rail::Reason, "--reason")]
        } else {
            &[]
        };
        check(
            &Write {
                rails: &rails,
                changes: &[changes],
                reason,
                ..WRITE
            },
            refused,
        );
    }
}

#[test]
fn a_flag_overrides_its_rail_and_wants_a_reason() {
    let changes = [("server-overrides/solo/a", "drain")];
    let write = Write {
        changes: &changes,
        ..WRITE
    };
    let floor = [(Rail::Floor, "")];
    check(
        &Write {
            flags: &[Flag::BelowFloor],
            ..write.clone()
        },
        &floor,
    );
    check(
        &Write {
            flags: &[Flag::CanaryAlone],
            reason: Some("fire"),
            ..write.clone()
        },
        &floor,
    );
    let known = Write {
        flags: &[Flag::BelowFloor],
        reason: Some("fire"),
        ..write
    };
    check(&known, &[]);
    let overridden = verdict(&known).overridden;
    assert!(
        overridden.len() == 1 && overridden[0].rail == Rail::Floor,
        "{overridden:?}"
    );
}
