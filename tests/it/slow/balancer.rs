//! Three replicas behind a real balancer while something happens to them: HAProxy servers of four
//! nodes are told nothing wrong, and lose polls only where nobody could know yet.

use std::time::Duration;

use super::scene::{INTERVAL, Plan, Scene, Servers};
use crate::harness::balancer::NOTICED_WITHIN;
use crate::harness::wait::let_pass;

const PLAN: Plan = Plan {
    nodes: 4,
    servers: 50,
    consul: Servers::One,
};

/// A poll is sent to a lost replica up to the moment that the balancer notices; it waits for one
/// interval, and the next comes one later.
const LOST_FOR_MAX: Duration = NOTICED_WITHIN.saturating_add(INTERVAL.saturating_mul(3));

/// Replicas that lose Consul together are silent from the end of the first lease until each has
/// heard that no other sees it; a poll that fails comes again one interval later.
const AGREED_WITHIN: Duration = INTERVAL.saturating_mul(2);

/// A lost replica is back: polls were lost only until the balancer had noticed.
fn end_after_a_loss(scene: Scene) {
    scene.balancer.await_healthy(&[0, 1, 2]);
    scene.writer().await_writes(2);
    let outcome = scene.finish();
    outcome
        .assert_right()
        .assert_silent_for_at_most(LOST_FOR_MAX);
}

#[test]
fn a_rolling_restart_loses_no_poll() {
    let mut scene = Scene::start_written("rolling restart", PLAN);
    for place in 0..scene.replicas.len() {
        let code = scene.replicas[place].tidegate.stop();
        assert_eq!(code, Some(0));
        scene.replicas[place].tidegate.start_again();
        scene.balancer.await_healthy(&[0, 1, 2]);
    }
    scene.writer().await_writes(2);
    scene.finish().assert_right().assert_none_lost();
}

#[test]
fn a_killed_replica_loses_polls_until_the_balancer_notices() {
    let mut scene = Scene::start_written("one replica killed", PLAN);
    scene.replicas[1].tidegate.kill();
    scene.balancer.await_healthy(&[0, 2]);
    scene.writer().await_writes(3);
    scene.replicas[1].tidegate.start_again();
    end_after_a_loss(scene);
}

#[test]
fn a_consul_that_is_gone_for_all_costs_the_polls_until_the_replicas_agree() {
    let mut scene = Scene::start_written("Consul gone for all", PLAN);
    let begin = scene.now();
    scene.consul_space.cut_off();
    scene.await_all(200, "agreed");
    let_pass(Duration::from_secs(5));
    scene.consul_space.heal();
    scene.was_agreed_since(begin);
    scene.writer().await_writes(3);
    let outcome = scene.finish();
    outcome
        .assert_right()
        .assert_silent_for_at_most(AGREED_WITHIN);
}

#[test]
fn a_replica_cut_from_consul_alone_goes_on_through_its_peers() {
    let scene = Scene::start_written("one replica cut from Consul only", PLAN);
    scene.replicas[1].cut_from_consul();
    scene.writer().await_writes(6);
    scene.replicas[1].space.heal();
    scene.await_all(200, "current");
    scene.writer().await_writes(2);
    scene.finish().assert_right();
}

#[test]
fn a_replica_cut_from_everything_is_out_until_it_is_healed() {
    let scene = Scene::start_written("one replica cut from everything", PLAN);
    scene.replicas[1].space.cut_off();
    scene.balancer.await_healthy(&[0, 2]);
    scene.writer().await_writes(3);
    scene.replicas[1].space.heal();
    end_after_a_loss(scene);
}
