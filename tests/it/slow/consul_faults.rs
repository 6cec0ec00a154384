//! Three Consul servers, an agent for each of three replicas, and everything that can happen to
//! them: HAProxy servers behind the balancer see no wrong transition.

use std::fs;
use std::time::Duration;

use super::scene::{Plan, REPLICA_TOKEN, Scene, Servers, give_rights};
use crate::harness::consul::{Consul, ROOT_TOKEN};
use crate::harness::state_folder::META;
use crate::harness::tidegate::tidegate_behind;
use crate::harness::wait::let_pass;

const PLAN: Plan = Plan {
    nodes: 2,
    servers: 20,
    consul: Servers::Three,
};

/// Longer than a blocked read sleeps over a missed wake.
const NOTICED_BY_ALL: Duration = Duration::from_secs(7);

/// Consul is well again: writes succeed, and every replica follows.
fn recovered(scene: &Scene) {
    scene.writer().go_on();
    scene.writer().await_writes(3);
    scene.await_all(200, "current");
    scene.writer().await_writes(2);
}

/// An environment that became empty stays held until it is set up again.
fn set_up_anew(scene: Scene) {
    let_pass(NOTICED_BY_ALL);
    scene.await_all(503, "held");
    scene.writer().begin_era(0);
    init(&scene);
    scene.writer().read_anew();
    recovered(&scene);
    scene.finish().assert_right();
}

/// `tidegate init`: a new epoch ends a broken history.
fn init(scene: &Scene) {
    let environment = [
        ("CONSUL_HTTP_ADDR".to_owned(), scene.consul.client().url()),
        ("CONSUL_HTTP_TOKEN".to_owned(), ROOT_TOKEN.to_owned()),
    ];
    let arguments = ["init", "--env", "gprd", "--kv", "consul"];
    let launcher = scene.consul_space.launcher();
    let output = tidegate_behind(&launcher, &arguments, &environment);
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// What is there counts from now on, a person says.
fn accept(scene: &Scene) {
    let meta = META.replace(r#""epoch":1"#, r#""epoch":2"#);
    scene.consul.client().kv_put("frontend/gprd/_meta", meta);
}

#[test]
fn a_killed_leader() {
    let mut scene = Scene::start_written("leader killed", PLAN);
    let cluster = scene.consul.cluster();
    let leader = cluster.leader();
    cluster.servers[leader].kill();
    let begin = scene.now();
    scene.writer().await_writes(1);
    scene.was_agreed_since(begin);
    recovered(&scene);
    scene.consul.cluster().servers[leader].start();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_killed_follower() {
    let mut scene = Scene::start_written("follower killed", PLAN);
    let cluster = scene.consul.cluster();
    let follower = (cluster.leader() + 1) % 3;
    cluster.servers[follower].kill();
    recovered(&scene);
    scene.consul.cluster().servers[follower].start();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_hung_leader() {
    let mut scene = Scene::start_written("leader hung", PLAN);
    let cluster = scene.consul.cluster();
    let leader = cluster.leader();
    cluster.servers[leader].process().pause();
    let begin = scene.now();
    scene.writer().await_writes(3);
    scene.was_agreed_since(begin);
    scene.consul.cluster().servers[leader].process().resume();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_hung_agent_of_one_replica() {
    let mut scene = Scene::start_written("one agent hung", PLAN);
    scene.consul.cluster().clients[1].process().pause();
    scene.writer().await_writes(6);
    scene.consul.cluster().clients[1].process().resume();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_restarted_agent_of_one_replica() {
    let mut scene = Scene::start_written("one agent restarted", PLAN);
    let agent = &mut scene.consul.cluster().clients[1];
    agent.stop();
    agent.start();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_quorum_that_is_lost_for_a_minute() {
    let mut scene = Scene::start_written("quorum lost for 60 s", PLAN);
    let begin = scene.now();
    for server in &mut scene.consul.cluster().servers[..2] {
        server.kill();
    }
    scene.await_all(200, "agreed");
    let_pass(Duration::from_mins(1));
    for server in &mut scene.consul.cluster().servers[..2] {
        server.launch();
    }
    for server in &mut scene.consul.cluster().servers[..2] {
        server.await_ready();
    }
    scene.was_agreed_since(begin);
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_restored_snapshot() {
    let scene = Scene::start_written("snapshot restored", PLAN);
    scene.writer().pause();
    let (snapshot, kept_up_to) = (
        scene.consul.client().snapshot_save(),
        scene.writer().index(),
    );
    scene.writer().go_on();
    scene.writer().await_writes(3);
    scene.writer().pause();
    scene.consul.client().snapshot_restore(&snapshot);
    scene.await_all(503, "held");
    let_pass(NOTICED_BY_ALL);
    scene.await_all(503, "held");
    scene.writer().begin_era(kept_up_to);
    accept(&scene);
    scene.writer().read_anew();
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_wiped_cluster() {
    let mut scene = Scene::start_written("cluster wiped", PLAN);
    scene.writer().pause();
    let cluster = scene.consul.cluster();
    for server in &mut cluster.servers {
        server.kill();
        fs::remove_dir_all(server.folder().join("data")).expect("the server's data is there");
    }
    cluster.servers.iter_mut().for_each(Consul::launch);
    cluster.servers.iter_mut().for_each(Consul::await_ready);
    // The old token is unknown.
    scene.await_all(503, "held");
    give_rights(scene.consul.client());
    // An empty environment.
    set_up_anew(scene);
}

#[test]
fn a_parent_deleted_recursively() {
    let scene = Scene::start_written("parent deleted recursively", PLAN);
    scene.writer().pause();
    scene.consul.client().kv_delete_recurse("frontend/");
    scene.await_all(503, "held");
    set_up_anew(scene);
}

#[test]
fn rights_lost() {
    let scene = Scene::start_written("rights lost", PLAN);
    let consul = scene.consul.client();
    consul.policy("replica", r#"key_prefix "elsewhere/" { policy = "list" }"#);
    scene.await_all(503, "held");
    scene.writer().await_writes(2);
    consul.policy(
        "replica",
        r#"key_prefix "frontend/gprd/" { policy = "list" }"#,
    );
    recovered(&scene);
    scene.finish().assert_right();
}

#[test]
fn a_deleted_token() {
    let scene = Scene::start_written("token deleted", PLAN);
    scene.consul.client().delete_token(REPLICA_TOKEN);
    scene.await_all(503, "held");
    scene.writer().await_writes(2);
    give_rights(scene.consul.client());
    recovered(&scene);
    scene.finish().assert_right();
}
