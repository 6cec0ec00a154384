//! The guard of the settings, against one careless write.

use super::{NOTICED_WITHIN, await_problems, key};
use crate::harness::consul::Consul;
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::tidegate::Tidegate;

const SETTINGS: &str = r#"{
    "guard": {"groups": ["main"], "rows_max": 2},
    "rows": [
        {"server": "web/m1", "groups": ["main"]},
        {"server": "web/s1", "groups": ["side"]},
        {"server": "web/s2", "groups": ["side"]},
        {"server": "web/w1", "groups": ["wide", "canary"]},
        {"server": "web/w2", "groups": ["wide", "canary"]},
        {"server": "web/w3", "groups": ["wide", "canary"]}
    ]
}"#;

const FORCED: &str = r#"{"state":"drain","by":"ann","reason":"test","force":true}"#;

/// Path, value, request, answer, and whether the guard refuses it.
#[rustfmt::skip]
const ROWS: [(&str, &str, &str, &str, bool); 12] = [
    ("group-states/main", "drain", "web/m1 main", "unknown-directive", true),
    ("group-states/main", r#"{"state":"maint"}"#, "web/m1 main", "unknown-directive", true),
    ("group-states/main", r#"{"state":"drain","force":true}"#, "web/m1 main", "unknown-directive", true),
    ("group-states/main", FORCED, "web/m1 main", "up drain", false),
    ("group-states/main", "40%", "web/m1 main", "up ready 40%", false),
    ("group-states/wide", "drain", "web/w1 wide", "unknown-directive", true),
    ("group-states/wide", FORCED, "web/w1 wide", "up drain", false),
    ("group-states/side", "drain", "web/s1 side", "up drain", false),
    ("server-overrides/web/m1", "drain", "web/m1", "unknown-directive", true),
    ("server-overrides/web/s1", "drain", "web/s1", "up drain", false),
    // Of three rows, and drained by a bare word all the same.
    ("canary-state", "drain", "web/w1 canary", "up drain", false),
    ("zones/z1/canary-state", "drain", "web/w1 canary zone=z1", "unknown-directive", true),
];

fn check_guard(put: impl Fn(&str, &str), remove: impl Fn(&str), tidegate: &Tidegate) {
    put("settings", SETTINGS);
    for (path, value, request, answer, refused) in ROWS {
        put(path, value);
        let problems: &[_] = &[("guard".to_owned(), path.to_owned())];
        await_problems(tidegate, if refused { problems } else { &[] });
        tidegate.await_answer(request, answer, NOTICED_WITHIN);
        let counted = tidegate.count("tidegate_problems{kind=\"guard\"}");
        assert_eq!(counted, u64::from(refused), "{path} {value}");
        remove(path);
    }
    // Settings that cannot be read take the guard off, and are a problem of their own.
    put("settings", r#"{"guard": 1}"#);
    put("group-states/main", "drain");
    tidegate.await_answer("web/m1 main", "up drain", NOTICED_WITHIN);
    await_problems(tidegate, &[("settings".to_owned(), "settings".to_owned())]);
    assert!(tidegate.count("tidegate_problems{kind=\"settings\"}") > 0);
}

#[test]
fn the_guard_freezes_a_careless_drain_in_consul() {
    let consul = Consul::dev();
    consul.kv_put(&key("_meta"), META);
    let tidegate = Tidegate::start_on(&consul);
    check_guard(
        |path, value| consul.kv_put(&key(path), value),
        |path| consul.kv_delete(&key(path)),
        &tidegate,
    );
}

#[test]
fn the_guard_freezes_a_careless_drain_in_a_folder() {
    let state = StateFolder::new();
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    check_guard(
        |path, value| state.put(path, value),
        |path| state.remove(path),
        &tidegate,
    );
}
