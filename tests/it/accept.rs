//! `tidegate accept`: a history that went back, ended by somebody who has seen what that changes.

use serde_json::Value;

use crate::harness::consul::Consul;
use crate::harness::process::Output;
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::terminal::at_a_terminal;
use crate::harness::tidegate::{Tidegate, consul_environment, consul_environment_as, tidegate};
use crate::harness::trio::{SLOTS, Trio};
use crate::harness::wait::eventually;
use crate::kv_cases::{DRAINED, NOTICED_WITHIN, Story, key, set_up};

const WENT_BACK: &str = "the store's history went back";
const NOBODY: &str = "http://127.0.0.1:1";
const LIST_AND_WRITE: &str = r#"
    key_prefix "frontend/gprd/" { policy = "list" }
    key "frontend/gprd/_meta" { policy = "write" }"#;
const HIDDEN_BELOW: &str = r#"
    key_prefix "frontend/gprd/" { policy = "list" }
    key_prefix "frontend/gprd/server-overrides/web/" { policy = "deny" }
    key "frontend/gprd/_meta" { policy = "write" }"#;
const META_ALONE: &str = r#"key "frontend/gprd/_meta" { policy = "write" }"#;
const ROWS: &str = r#"{"rows":[{"server":"web/a","groups":["canary"]},{"server":"web/drained"}]}"#;

fn url(tidegate: &Tidegate) -> String {
    format!("http://{}", tidegate.http())
}

/// Runs it on this store, asking this replica.
fn accept(consul: &Consul, replica: &str, arguments: &[&str]) -> Output {
    accept_in(&consul_environment(consul), replica, arguments)
}

/// Runs it with a token of its own.
fn accept_as(consul: &Consul, secret: &str, replica: &str, arguments: &[&str]) -> Output {
    accept_in(&consul_environment_as(consul, secret), replica, arguments)
}

fn accept_in(environment: &[(String, String)], replica: &str, arguments: &[&str]) -> Output {
    let common = ["accept", "--env", "gprd", "--kv", "consul"];
    let all = [&common[..], &["--replica", replica], arguments].concat();
    tidegate(&all, environment)
}

#[track_caller]
fn expect(output: &Output, code: i32, texts: &[&str]) {
    let shown = format!("{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(code), "{shown}");
    for text in texts {
        assert!(shown.contains(text), "no {text:?} in {shown}");
    }
}

fn snapshot(tidegate: &Tidegate) -> Value {
    serde_json::from_slice(&tidegate.get("/api/v1/snapshot").body).expect("the API says JSON")
}

/// A service that follows `newer`, and whose store was put back to what stood before it.
fn restored(consul: Consul, newer: impl FnOnce(&Consul)) -> Story {
    set_up(&consul);
    consul.kv_put(&key("settings"), ROWS);
    let older = consul.snapshot_save();
    newer(&consul);
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story.tidegate.ask_line("web/a canary node=lb-1");
    story.consul.snapshot_restore(&older);
    story.await_held("a restore", WENT_BACK);
    story
}

#[test]
fn a_restored_store_is_believed_after_it_is_shown_what_that_changes() {
    let story = restored(Consul::dev(), |consul| {
        consul.kv_put(&key("canary-state"), "40%");
        consul.kv_put(&key("_meta"), r#"{"schema":1,"epoch":1,"gen":7}"#);
    });
    let here = url(&story.tidegate);
    let shown = [
        "a (http://127.0.0.1:",
        ") is held: the store's history went back",
        "canary-state: {\"v\":1,\"state\":\"ready\",\"weight\":40} -> {\"v\":1,\"state\":\"ready\",\"weight\":100}",
        "web/a on lb-1: ready 40% -> ready 100%",
    ];
    let dry = accept(&story.consul, &here, &["--dry-run"]);
    expect(&dry, 0, &[&shown[..], &["nothing was written"]].concat());
    assert!(!dry.stdout.contains("web/drained"), "{}", dry.stdout);
    let without = accept(&story.consul, &here, &[]);
    expect(&without, 2, &["no terminal to ask at"]);
    assert_eq!(story.consul.kv_get(&key("_meta")), Some(META.into()));
    let output = accept(&story.consul, &here, &["--yes", "--by", "me"]);
    expect(
        &output,
        0,
        &[&shown[..], &["accepted: ", "answers"]].concat(),
    );
    // It answers when the command ends.
    assert_eq!(story.tidegate.ask_line(DRAINED), "up drain");
    assert_eq!(story.tidegate.ask_line("web/a canary"), "up ready 100%");
    let meta = story.consul.kv_get(&key("_meta")).expect("it is written");
    let meta: Value = serde_json::from_slice(&meta).expect("it is JSON");
    assert_eq!((&meta["gen"], &meta["by"]), (&8.into(), &"me".into()));
    story.assert_never_opened();
    let again = accept(&story.consul, &here, &["--yes"]);
    expect(&again, 3, &["is current", "Nothing needs to be accepted"]);
    let forced = accept(&story.consul, &here, &["--yes", "--force"]);
    expect(&forced, 0, &["WARNING: no replica needs it"]);
}

/// Runs it at a terminal at which this is typed.
fn accept_at_a_terminal(consul: &Consul, replica: &str, typed: &str) -> Output {
    let accept = [
        "accept",
        "--env",
        "gprd",
        "--kv",
        "consul",
        "--replica",
        replica,
    ];
    at_a_terminal(&accept, &consul_environment(consul), typed)
}

#[test]
fn at_a_terminal_it_asks_and_writes_only_after_a_yes() {
    let story = restored(Consul::dev(), |consul| {
        consul.kv_put(&key("canary-state"), "40%");
    });
    let here = url(&story.tidegate);
    let question = "Answer from what frontend/gprd/ holds now";
    for typed in ["n", "", "yess"] {
        let output = accept_at_a_terminal(&story.consul, &here, typed);
        expect(&output, 3, &[question, "nothing was written"]);
        assert_eq!(story.consul.kv_get(&key("_meta")), Some(META.into()));
    }
    let output = accept_at_a_terminal(&story.consul, &here, "y");
    expect(
        &output,
        0,
        &["ready 40%", question, "accepted: ", "answers"],
    );
    story.await_current("accepted");
    story.assert_never_opened();
}

#[test]
fn a_restored_state_may_open_what_was_drained_and_says_so() {
    let story = restored(Consul::dev(), |consul| {
        consul.kv_delete(&key("server-overrides/web/drained"));
        consul.kv_put(&key("server-overrides/web/drained"), "drain");
        consul.kv_put(&key("server-overrides/web/late"), "maint");
    });
    story.tidegate.ask_line("web/late");
    story.consul.kv_delete(&key("server-overrides/web/drained"));
    let here = url(&story.tidegate);
    let json = accept(&story.consul, &here, &["--yes", "--output", "json"]);
    expect(&json, 0, &[]);
    let view: Value = serde_json::from_str(&json.stdout).expect("it is JSON alone");
    let keys = view["keys"].as_array().expect("a list");
    let paths: Vec<_> = keys.iter().map(|key| key["path"].as_str()).collect();
    let (drained, late) = ("server-overrides/web/drained", "server-overrides/web/late");
    assert_eq!(paths, [Some(drained), Some(late)]);
    let row = &view["rows"][0];
    let told = (&row["server"], &row["before"], &row["after"]);
    let expected = [&"web/drained".into(), &"drain".into(), &"ready 100%".into()];
    assert_eq!([told.0, told.1, told.2], expected as [&Value; 3]);
    story.recorder.await_answer("up ready 100%", NOTICED_WITHIN);
}

#[test]
fn a_wiped_store_is_refused_until_there_are_keys() {
    let mut story = Story::begin(Consul::dev());
    story.consul.kill();
    story.consul.start();
    story.await_held("a wiped store", WENT_BACK);
    let here = url(&story.tidegate);
    let empty = accept(&story.consul, &here, &["--yes"]);
    expect(&empty, 3, &["there is nothing to accept", "tidegate init"]);
    story
        .consul
        .kv_put(&key("server-overrides/web/drained"), "drain");
    story.consul.kv_put(&key("canary-state"), "ready");
    let output = accept(&story.consul, &here, &["--yes"]);
    let gone = "server-overrides/api/other: {\"v\":1,\"state\":\"maint\"} -> (nothing)";
    expect(&output, 0, &[gone, "accepted: "]);
    story.await_current("accepted after a wipe");
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
}

#[test]
fn the_new_epoch_is_above_all_that_a_replica_has_seen() {
    let consul = Consul::dev();
    set_up(&consul);
    let far = 1_u64 << 40;
    consul.kv_put(
        &key("_meta"),
        format!(r#"{{"schema":1,"epoch":{far},"gen":7}}"#),
    );
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story.consul.kv_put(&key("_meta"), META);
    story.await_held("a zombie write", "generation 1.1");
    let view = snapshot(&story.tidegate);
    let seen = [
        &view["highest_epoch"],
        &view["highest_gen"],
        &view["broken_epoch"],
    ];
    assert_eq!(seen, [&Value::from(far), &7.into(), &far.into()]);
    let here = url(&story.tidegate);
    let output = accept(&story.consul, &here, &["--yes"]);
    let written = format!("is generation {}.8", far + 1);
    expect(&output, 0, &["no answer changes", &written]);
    story.await_current("accepted");
    assert_eq!(snapshot(&story.tidegate)["broken_epoch"], Value::Null);
    story.assert_never_opened();
}

/// A token that sees a part blesses nothing, whatever it may write.
fn check_narrow(consul: Consul, rules: &str, texts: &[&str]) {
    let story = restored(consul, |consul| {
        consul.kv_put(&key("server-overrides/web/late"), "maint");
    });
    story.consul.policy("narrow", rules);
    let secret = story.consul.token_for(&["narrow"]);
    let here = url(&story.tidegate);
    let narrow = || accept_as(&story.consul, &secret, &here, &["--yes"]);
    expect(&narrow(), 3, texts);
    // Also when nobody tells which keys there were.
    let alone = accept_as(&story.consul, &secret, NOBODY, &["--yes", "--force"]);
    expect(&alone, 3, &["may be a part"]);
    assert_eq!(story.consul.kv_get(&key("_meta")), Some(META.into()));
    story.consul.policy("narrow", LIST_AND_WRITE);
    expect(&narrow(), 0, &["accepted: "]);
    story.await_current("accepted with the right to list");
}

const POLICY: &str = r#"key_prefix "frontend/gprd/" { policy = "list" }"#;

#[test]
fn a_token_that_may_write_the_sentinel_alone_accepts_nothing_where_listing_needs_a_right() {
    let texts = ["may not read frontend/gprd/", POLICY];
    check_narrow(Consul::dev_with_acl(), META_ALONE, &texts);
}

#[test]
fn a_token_that_may_write_the_sentinel_alone_accepts_nothing_where_listings_are_filtered() {
    let texts = ["may not read frontend/gprd/", POLICY];
    check_narrow(Consul::dev_with_filtering_acl(), META_ALONE, &texts);
}

#[test]
fn a_token_from_which_a_part_is_hidden_accepts_nothing() {
    let texts = ["may not read frontend/gprd/server-overrides/web/", POLICY];
    check_narrow(Consul::dev_with_acl(), HIDDEN_BELOW, &texts);
}

#[test]
fn who_is_held_for_another_reason_is_told_what_to_do_instead() {
    let consul = Consul::dev_with_acl();
    set_up(&consul);
    consul.policy(
        "responder",
        r#"key_prefix "frontend/gprd/" { policy = "list" }"#,
    );
    let secret = consul.token_for(&["responder"]);
    let tidegate = Tidegate::start_as(&consul, &secret);
    let story = Story::with(consul, tidegate);
    story.consul.policy("responder", HIDDEN_BELOW);
    story.consul.kv_put(&key("canary-state"), "maint");
    story.await_held("rights below a folder", "rights are missing");
    let here = url(&story.tidegate);
    let output = accept(&story.consul, &here, &["--yes", "--force"]);
    expect(
        &output,
        3,
        &["No new epoch ends that", "rights are missing"],
    );
    story.consul.kv_put(&key("_meta"), "{");
    let output = accept(&story.consul, &here, &["--yes"]);
    expect(&output, 3, &["_meta cannot be read", "or delete that key"]);
}

#[test]
fn without_a_replica_to_compare_with_it_says_so() {
    let consul = Consul::dev();
    set_up(&consul);
    let refused = accept(&consul, NOBODY, &["--yes"]);
    expect(&refused, 3, &["cannot be asked", "--force"]);
    let output = accept(&consul, NOBODY, &["--yes", "--force"]);
    let drained = "server-overrides/web/drained: (nothing) -> {\"v\":1,\"state\":\"drain\"}";
    expect(
        &output,
        0,
        &["WARNING: no replica can be asked", drained, "accepted: "],
    );
}

#[test]
fn a_replica_of_another_environment_is_no_reference() {
    let consul = Consul::dev();
    set_up(&consul);
    let (_state, other) = Tidegate::start_drained();
    let common = ["accept", "--env", "gstg", "--kv", "consul", "--yes"];
    let here = url(&other);
    let arguments = [&common[..], &["--replica", &here]].concat();
    let output = tidegate(&arguments, &consul_environment(&consul));
    expect(
        &output,
        2,
        &["is a replica of frontend/gprd/, not of frontend/gstg/"],
    );
}

#[test]
fn an_older_checkout_of_a_folder_is_believed_after_it_is_accepted() {
    let (state, service) = Tidegate::start_drained();
    let (env, kv) = (["--env", "gprd"], state.kv());
    let written = tidegate(
        &[&["canary", "--ready", "--kv", &kv], &env[..]].concat(),
        &[],
    );
    assert_eq!(written.code, Some(0), "{written:?}");
    service.await_answer("web/a canary node=lb-1", "up ready 100%", NOTICED_WITHIN);
    // As `git checkout` does: file by file, the sentinel of that time among them.
    put_back(&state);
    service.await_readyz(503, WENT_BACK, NOTICED_WITHIN);
    let listen = service.http().to_string();
    let arguments = ["accept", "--yes", "--kv", &kv, "--http-listen", &listen];
    let output = tidegate(&[&arguments, &env[..]].concat(), &[]);
    expect(&output, 0, &["canary-state: ", "accepted: ", "answers"]);
    assert_eq!(service.ask_line("web/a canary"), "up drain");
}

/// The sentinel first: the directive before it would be believed, as the newest generation's.
fn put_back(state: &StateFolder) {
    state.put("_meta", META);
    state.put("canary-state", "drain");
}

#[test]
fn all_peers_of_the_configuration_are_asked_and_waited_for() {
    let trio = Trio::start();
    let kv = trio.state.kv();
    let drain = ["canary", "--gprd", "--maint", "--kv", &kv];
    assert_eq!(tidegate(&drain, &[]).code, Some(0));
    for replica in &trio.replicas {
        replica.await_answer("web/a canary node=lb-1", "up maint", NOTICED_WITHIN);
    }
    put_back(&trio.state);
    for replica in &trio.replicas {
        replica.await_readyz(503, WENT_BACK, NOTICED_WITHIN);
    }
    let peers = SLOTS.iter().zip(&trio.replicas);
    let peers = peers.map(|(slot, replica)| format!("{slot}={}", url(replica)));
    let peers = peers.collect::<Vec<_>>().join(",");
    let environment = [("TIDEGATE_PEERS".to_owned(), peers)];
    let arguments = ["accept", "--env", "gprd", "--kv", &kv, "--yes"];
    let output = tidegate(&arguments, &environment);
    let mut texts = vec!["canary-state: ".to_owned()];
    for (slot, replica) in SLOTS.iter().zip(&trio.replicas) {
        let url = url(replica);
        texts.extend([format!("{slot} ({url}) is held"), format!("{url} answers")]);
    }
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    expect(&output, 0, &texts);
    for replica in &trio.replicas {
        assert_eq!(replica.ask_line("web/a canary"), "up drain");
    }
}

#[test]
fn a_replica_that_does_not_answer_in_time_is_named() {
    let story = restored(Consul::dev(), |consul| {
        consul.kv_put(&key("canary-state"), "40%");
    });
    let here = url(&story.tidegate);
    let output = accept(&story.consul, &here, &["--yes", "--wait", "0s"]);
    expect(&output, 7, &["it is written, and http://127.0.0.1:"]);
    story.await_current("accepted");
    eventually("accepted twice is not needed", NOTICED_WITHIN, || {
        let output = accept(&story.consul, &here, &["--yes"]);
        crate::harness::wait::check(output.code == Some(3), || format!("{output:?}"))
    });
}
