//! Consul hung, killed, without a leader; and what takes ten seconds to be sure of.

use std::time::Duration;

use crate::harness::consul::Consul;
use crate::harness::consul_cluster::ConsulCluster;
use crate::harness::recorder::Recorder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::kv_cases::{DRAINED, NOTICED_WITHIN, Story, key, set_up};

const FOLLOWED_WITHIN: Duration = Duration::from_secs(12);

fn lasts(story: &Story, time: Duration, holds: impl Fn() -> Result<(), String>) {
    let begin = story.recorder.now();
    eventually("the time is over", time * 2, || {
        holds().unwrap_or_else(|seen| panic!("{seen}"));
        check(story.recorder.since(begin) >= time, || "not yet".to_owned())
    });
}

/// Writes the drained server's directive anew and waits until it is answered.
fn followed(story: &Story, what: &str) {
    let begin = story.recorder.now();
    story.tidegate.await_readyz(200, "current", FOLLOWED_WITHIN);
    let took = story.recorder.since(begin);
    story
        .consul
        .kv_put(&key("server-overrides/web/drained"), "maint");
    let change = story.recorder.await_answer("up maint", NOTICED_WITHIN);
    println!("{what}: current after {took:.2?}, a change followed after {change:.2?}");
    println!("{}", story.recorder.story());
    // Answers went on all the time.
    story.recorder.assert_only(&["up drain", "up maint"]);
}

#[test]
fn a_hung_consul_changes_nothing_and_is_followed_again() {
    let mut story = Story::begin(Consul::dev());
    story.consul.process().pause();
    story
        .tidegate
        .await_readyz(200, "agreed: the source is out of reach", NOTICED_WITHIN);
    lasts(&story, Duration::from_secs(12), || {
        let body = story.tidegate.get("/readyz").text();
        check(body.starts_with("agreed"), || body)
    });
    story.consul.process().resume();
    followed(&story, "a hung Consul");
}

#[test]
fn a_killed_consul_changes_nothing_and_is_followed_again() {
    let mut story = Story::begin(Consul::single());
    story.consul.kill();
    story
        .tidegate
        .await_readyz(200, "agreed: the source is out of reach (", NOTICED_WITHIN);
    story.consul.start();
    followed(&story, "a killed Consul");
}

#[test]
fn the_retries_are_few_while_consul_refuses_connections() {
    let mut story = Story::begin(Consul::single());
    story.consul.kill();
    story.tidegate.await_readyz(200, "agreed", NOTICED_WITHIN);
    let refused = || {
        let of = |name: &str| {
            story
                .tidegate
                .count(&format!("{name}{{outcome=\"unreachable\"}}"))
        };
        of("tidegate_source_reads_total") + of("tidegate_source_light_reads_total")
    };
    let before = refused();
    lasts(&story, Duration::from_secs(5), || Ok(()));
    let retries = refused() - before;
    println!("{retries} retries in 5 s");
    // 1 to 2 s apart in the end; the first few come faster.
    assert!((2..=10).contains(&retries), "{retries} retries in 5 s");
}

#[test]
fn a_refusal_holds_without_a_gap_for_as_long_as_it_lasts() {
    let consul = Consul::dev_with_acl();
    let story = Story::begin(consul);
    // The service has the harness's own token, so a second one must take it away.
    let root = story.consul.token().expect("an agent with ACLs").to_owned();
    story
        .consul
        .policy("all", r#"acl = "write" key_prefix "" { policy = "write" }"#);
    let other = story.consul.token_for(&["all"]);
    let accessor = story
        .consul
        .call_as(Some(&root), "GET", "/v1/acl/token/self", b"");
    let accessor: serde_json::Value =
        serde_json::from_slice(&accessor.body).expect("Consul answers in JSON");
    let path = format!(
        "/v1/acl/token/{}",
        accessor["AccessorID"].as_str().expect("an id")
    );
    let deleted = story.consul.call_as(Some(&other), "DELETE", &path, b"");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    story.await_held("a deleted token", "does not know the token");
    lasts(&story, Duration::from_secs(10), || {
        let body = story.tidegate.get("/readyz").text();
        check(body.starts_with("held"), || body)
    });
    story.assert_never_opened();
}

#[test]
fn rights_lost_below_a_rolled_up_name_hold_after_a_wait_at_the_latest() {
    let consul = Consul::dev_with_acl();
    set_up(&consul);
    let list = r#"key_prefix "frontend/gprd/" { policy = "list" }"#;
    consul.policy("responder", list);
    let secret = consul.token_for(&["responder"]);
    let tidegate = Tidegate::start_as(&consul, &secret);
    let story = Story::with(consul, tidegate);
    let hidden = r#" key_prefix "frontend/gprd/server-overrides/web/" { policy = "deny" }"#;
    story.consul.policy("responder", &format!("{list}{hidden}"));
    let begin = story.recorder.now();
    // A blocked read keeps the rights that it began with; the next one has the new ones.
    story.tidegate.await_readyz(
        503,
        "rights are missing: server-overrides/web/drained",
        FOLLOWED_WITHIN,
    );
    println!("held after {:.2?}", story.recorder.since(begin));
    story.assert_never_opened();
}

#[test]
fn a_killed_leader_changes_nothing_and_the_next_write_is_followed() {
    let mut cluster = ConsulCluster::start();
    set_up(cluster.client());
    let tidegate = Tidegate::start_on(cluster.client());
    let recorder = Recorder::start(&tidegate, DRAINED);
    recorder.await_answer("up drain", NOTICED_WITHIN);
    let leader = cluster.leader();
    cluster.servers[leader].kill();
    let begin = recorder.now();
    eventually("a write is accepted again", PATIENCE, || {
        let path = format!("/v1/kv/{}", key("server-overrides/web/drained"));
        let answer = cluster.client().call("PUT", &path, b"maint");
        check(answer.status == 200, || answer.text())
    });
    let written = recorder.since(begin);
    let followed = recorder.await_answer("up maint", FOLLOWED_WITHIN);
    println!("a killed leader: written after {written:.2?}, followed after {followed:.2?} more");
    tidegate.await_readyz(200, "current", FOLLOWED_WITHIN);
    recorder.assert_only(&["up drain", "up maint"]);
}
