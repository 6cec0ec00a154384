//! What the alerts read of a replica: the rows that it asks for, their times, credentials, and what
//! all replicas know together.

#![expect(clippy::float_cmp, reason = "counts and weights are whole numbers")]

use serde_json::json;
use tidegate::clock;
use tidegate::fleet::SHOWN_FOR;
use tidegate::metrics::ROWS_SHOWN_MAX;

use crate::harness::consul::Consul;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::tidegate::{Tidegate, consul_environment_over_tls};
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::login::{Scene, service::serve};

/// The series of a name, as a scrape has them.
fn series(tidegate: &Tidegate, name: &str) -> Vec<String> {
    let scrape = tidegate.get("/metrics").text();
    let begin = format!("{name}{{");
    let lines = scrape.lines().filter(|line| line.starts_with(&begin));
    let mut lines: Vec<_> = lines.map(|line| line.replace(&begin, "{")).collect();
    lines.sort();
    lines
}

#[test]
fn each_known_row_has_the_state_and_weight_that_haproxy_is_asked_for() {
    let state = StateFolder::new();
    let ramp = r#"{"state":"ready","since":"2026-01-01T00:00:00Z","ramp":{"by":"nodes","steps":[50],"nodes":["lb-1","lb-2"]}}"#;
    let settings = r#"{"rows":[
        {"server":"web/main","groups":["main"]},
        {"server":"web/half","groups":["half"],"weight":7,"role_weights":{"ci":1}},
        {"server":"web/cny","groups":["canary"]},
        {"server":"web/zoned","groups":["zoned"],"roles":["main"]},
        {"server":"web/odd","groups":["misspelt"]},
        {"server":"web/off","groups":["main"],"agent":false}],
        "nodes":[{"name":"lb-1","zone":"z-b","role":"main"},{"name":"lb-2","role":"ci"}]}"#;
    for (key, value) in [
        ("settings", settings),
        ("group-states/main", "ready"),
        ("group-states/half", "10%"),
        ("canary-state", ramp),
        ("group-states/zoned", "ready"),
        ("zones/z-b/group-states/zoned", "drain"),
        ("server-overrides/web/own", "maint"),
        ("server-overrides/web/broken", "rubbish"),
    ] {
        state.put(key, value);
    }
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let expected = [
        // A ramp over nodes, weights of roles, and what a zone has of its own differ by node.
        r#"{proxy="web",server="cny",node="lb-1",state="ready"} 1"#,
        r#"{proxy="web",server="cny",node="lb-2",state="drain"} 1"#,
        r#"{proxy="web",server="half",node="lb-1",state="ready"} 1"#,
        r#"{proxy="web",server="half",node="lb-2",state="ready"} 1"#,
        r#"{proxy="web",server="main",node="",state="ready"} 1"#,
        r#"{proxy="web",server="own",node="",state="maint"} 1"#,
        // Only nodes of its role have it.
        r#"{proxy="web",server="zoned",node="lb-1",state="drain"} 1"#,
    ];
    assert_eq!(series(&tidegate, "tidegate_desired_row_state"), expected);
    let expected = [
        r#"{proxy="web",server="cny",node="lb-1"} 100"#,
        // 10 % of 7 is nothing: it is raised to what gives 1.
        r#"{proxy="web",server="half",node="lb-1"} 1"#,
        r#"{proxy="web",server="half",node="lb-2"} 1"#,
        r#"{proxy="web",server="main",node=""} 100"#,
    ];
    assert_eq!(series(&tidegate, "tidegate_desired_row_weight"), expected);
    assert_eq!(tidegate.metric("tidegate_desired_rows_left_out"), 0.0);

    // Behind its last step a ramp is the same everywhere.
    state.put("canary-state", "ready");
    eventually("the canary is one series", PATIENCE, || {
        let rows = series(&tidegate, "tidegate_desired_row_state");
        let whole = r#"{proxy="web",server="cny",node="",state="ready"} 1"#;
        check(rows.iter().any(|row| row == whole), || format!("{rows:?}"))
    });
}

#[test]
fn more_rows_than_are_shown_are_counted() {
    let state = StateFolder::new();
    let rows = (0..ROWS_SHOWN_MAX + 3).map(|number| format!(r#"{{"server":"web/{number}"}}"#));
    let rows: Vec<_> = rows.collect();
    state.put("settings", format!(r#"{{"rows":[{}]}}"#, rows.join(",")));
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let shown = series(&tidegate, "tidegate_desired_row_state");
    assert_eq!(shown.len(), ROWS_SHOWN_MAX);
    assert_eq!(tidegate.metric("tidegate_desired_rows_left_out"), 3.0);
}

#[test]
fn a_directive_tells_since_when_it_stands_and_when_it_ends() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let times =
        r#"{"state":"drain","since":"2026-01-01T00:00:00Z","until":"2026-01-01T01:00:00Z"}"#;
    state.put("zones/z-b/canary-state", times);
    state.put("server-overrides/web/a", times);
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    for (name, seconds) in [("since", "1767225600.0"), ("until", "1767229200.0")] {
        let group = series(
            &tidegate,
            &format!("tidegate_desired_group_{name}_timestamp_seconds"),
        );
        let expected = format!(r#"{{group="canary",zone="z-b",node=""}} {seconds}"#);
        assert_eq!(group, [expected]);
        let server = series(
            &tidegate,
            &format!("tidegate_desired_server_{name}_timestamp_seconds"),
        );
        let expected = format!(r#"{{proxy="web",server="a",zone="",node=""}} {seconds}"#);
        assert_eq!(server, [expected]);
    }
}

/// Days until a credential ends, rounded.
fn days_left(tidegate: &Tidegate, credential: &str) -> f64 {
    let name = "tidegate_credential_expiry_timestamp_seconds";
    let end = tidegate.metric(&format!("{name}{{credential=\"{credential}\"}}"));
    let now = clock::now().as_duration().as_secs_f64();
    ((end - now) / 86_400.0).round()
}

#[test]
fn the_ends_of_certificates_are_those_of_the_files() {
    let consul = Consul::dev_with_tls();
    consul.kv_put("frontend/gprd/_meta", META);
    let environment = consul_environment_over_tls(&consul);
    let mut tidegate = Tidegate::launch(&["--kv", "consul"], &environment);
    tidegate.await_ready();
    // What `consul tls` gives them.
    assert_eq!(days_left(&tidegate, "certificate"), 365.0);
    assert_eq!(days_left(&tidegate, "authority"), 1_825.0);
}

#[test]
fn the_end_of_a_login_is_what_consul_says() {
    let scene = Scene::with_ttl("24h");
    let tidegate = serve(&scene, &[]);
    assert_eq!(days_left(&tidegate, "login"), 1.0);
}

#[test]
fn the_end_of_a_configured_token_is_asked_for() {
    let consul = Consul::dev_with_acl();
    consul.kv_put("frontend/gprd/_meta", META);
    consul.policy("read", r#"key_prefix "frontend/gprd/" { policy = "list" }"#);
    let token = json!({ "Policies": [{ "Name": "read" }], "ExpirationTTL": "24h" });
    let token = consul.acl_write("/v1/acl/token", &token);
    let secret = token["SecretID"]
        .as_str()
        .expect("a new token has a secret");
    let tidegate = Tidegate::start_as(&consul, secret);
    eventually("its end is known", PATIENCE, || {
        let known = series(&tidegate, "tidegate_credential_expiry_timestamp_seconds");
        check(!known.is_empty(), String::new)
    });
    assert_eq!(days_left(&tidegate, "token"), 1.0);
}

/// One replica hears of a row now and then only; together they know that it polls.
#[test]
fn silence_is_what_all_replicas_were_asked_together() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let arguments = ["--kv", &state.kv(), "--poll-interval", "500ms"];
    let replicas = Replicas::start(2, &arguments, &[]);
    let [a, b] = &replicas.all[..] else {
        panic!("two were started");
    };
    let whole = |tidegate: &Tidegate, name: &str| {
        let name = format!("tidegate_fleet_merged_{name}");
        let scrape = tidegate.get("/metrics").text();
        let value = scrape
            .lines()
            .find_map(|line| line.strip_prefix(&name)?.trim().parse().ok());
        value.unwrap_or(f64::NAN)
    };
    let poll = |tidegate: &Tidegate, server: &str, node: &str| {
        tidegate.ask(format!("web/{server} canary node={node}\n"));
    };
    // lb-2 and the row lb-1 x fall silent; lb-1 y goes on, at the other replica.
    for (server, node) in [("x", "lb-1"), ("x", "lb-2"), ("y", "lb-1")] {
        poll(a, server, node);
    }
    for tidegate in [a, b] {
        eventually("both know what is silent", PATIENCE, || {
            poll(b, "y", "lb-1");
            let of = |name| whole(tidegate, name);
            let seen = (of("nodes"), of("nodes_silent"), of("rows_silent_alone"));
            check(seen == (2.0, 1.0, 1.0), || format!("{seen:?}"))
        });
        assert_eq!(whole(tidegate, "replicas_missing"), 0.0);
        let age = whole(tidegate, "age_seconds");
        assert!(age < SHOWN_FOR.as_secs_f64(), "{age}");
    }
    // The first replica alone takes all of them for silent.
    assert_eq!(a.count("tidegate_fleet_rows_silent"), 3);
}
