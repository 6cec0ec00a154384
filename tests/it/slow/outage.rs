//! Consul is out of reach for all: what HAProxy nodes and replicas that start meanwhile are told,
//! and who is silent when somebody out of sight may know better.

use std::time::Duration;

use super::scene::{INTERVAL, Plan, Scene, Servers};
use crate::harness::balancer::NOTICED_WITHIN;
use crate::harness::netns::Way;
use crate::harness::stats::Row;
use crate::harness::wait::{PATIENCE, check, eventually, let_pass, throughout};

const PLAN: Plan = Plan {
    nodes: 2,
    servers: 50,
    consul: Servers::One,
};

/// A new process spreads its first polls over a second; the rest is room for a busy machine.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// Several leases, rounds of questions and polls: what does not change in that time stays so.
const STAYS: Duration = Duration::from_secs(3);

/// A scene with Consul gone for all, and every replica answering what was agreed upon.
fn begin(name: &'static str) -> Scene {
    let scene = Scene::start_written(name, PLAN);
    scene.writer().pause();
    scene.await_all_told();
    scene.consul_space.cut_off();
    scene.await_all(200, "agreed");
    scene
}

/// Consul is back, and the writer too.
fn end(scene: &Scene) {
    scene.consul_space.heal();
    scene.await_all(200, "current");
    scene.writer().go_on();
    scene.writer().await_writes(3);
}

/// The same, and nothing was lost but what the way to the agreement costs.
fn end_after_a_short_silence(scene: Scene) {
    end(&scene);
    scene
        .finish()
        .assert_right()
        .assert_silent_for_at_most(INTERVAL * 2);
}

/// Waits until every server of a node is in the state that it was in.
fn await_states(scene: &Scene, node: usize, before: &[(String, String)]) {
    eventually("every server is what it was", TOLD_WITHIN, || {
        let now = states(scene, node);
        let differs = now.iter().zip(before).find(|(now, before)| now != before);
        check(differs.is_none(), || format!("{differs:?}"))
    });
}

/// Each server and its state. The weight of a closed one says nothing: HAProxy keeps the one that
/// it had when it was open.
fn states(scene: &Scene, node: usize) -> Vec<(String, String)> {
    let rows = scene.nodes[node].show_stat();
    let servers = rows.iter().filter(|row| row.field("type") == "2");
    let state = |row: &Row| {
        if is_open(row.status()) {
            format!("{} at {}", row.status(), row.weight())
        } else {
            row.status().to_owned()
        }
    };
    servers
        .map(|row| (row.field("svname").to_owned(), state(row)))
        .collect()
}

fn is_open(status: &str) -> bool {
    status.starts_with("no check")
}

#[test]
fn a_reload_during_an_outage_drains_again_what_was_drained() {
    let mut scene = begin("Consul gone, HAProxy reloaded");
    for node in 0..scene.nodes.len() {
        let before = states(&scene, node);
        let closed = before.iter().filter(|(_, status)| !is_open(status));
        assert!(closed.count() > 0, "nothing to drain again: {before:?}");
        scene.nodes[node].reload();
        await_states(&scene, node, &before);
    }
    end_after_a_short_silence(scene);
}

#[test]
fn a_replica_restarted_during_an_outage_answers_the_same() {
    let mut scene = begin("Consul gone, replicas restarted");
    let question = "web/s09 canary node=lb-1 base=100";
    let before = scene.replicas[0].tidegate.ask_line(question);
    for place in 0..scene.replicas.len() {
        scene.replicas[place].tidegate.stop();
        scene.replicas[place].tidegate.start_again();
        assert_eq!(scene.replicas[place].tidegate.ask_line(question), before);
        scene.balancer.await_healthy(&[0, 1, 2]);
    }
    end_after_a_short_silence(scene);
}

#[test]
fn while_one_of_three_is_out_of_sight_during_an_outage_the_others_are_silent() {
    for (name, hide, show) in OUT_OF_SIGHT {
        let mut scene = begin(name);
        hide(&mut scene);
        for place in [0, 1] {
            let reason = "cut-off";
            let tidegate = &scene.replicas[place].tidegate;
            tidegate.await_readyz(503, reason, PATIENCE);
        }
        throughout("the two that see each other are silent", STAYS, || {
            let answers = [0, 1].map(|place| scene.replicas[place].tidegate.ask_line("web/s09"));
            check(answers.iter().all(String::is_empty), || {
                format!("{answers:?}")
            })
        });
        show(&mut scene);
        scene.await_all(200, "agreed");
        scene.await_all_polled();
        end(&scene);
        scene.finish().assert_right();
    }
}

type Act = fn(&mut Scene);

/// How the third replica disappears without anybody being told, and how it comes back.
const OUT_OF_SIGHT: [(&str, Act, Act); 2] = [
    (
        "Consul gone, packets of one replica dropped",
        |scene| scene.replicas[2].space.cut_off(),
        |scene| scene.replicas[2].space.heal(),
    ),
    (
        "Consul gone, one replica hung",
        |scene| scene.replicas[2].tidegate.process().pause(),
        |scene| scene.replicas[2].tidegate.process().resume(),
    ),
];

#[test]
fn a_replica_that_is_seen_to_be_dead_during_an_outage_silences_nobody() {
    let ends: [(&str, Act); 2] = [
        ("Consul gone, one replica killed", |scene| {
            scene.replicas[2].tidegate.kill();
        }),
        ("Consul gone, one replica stopped", |scene| {
            scene.replicas[2].tidegate.stop();
        }),
    ];
    for (name, end_it) in ends {
        let mut scene = begin(name);
        end_it(&mut scene);
        scene.balancer.await_healthy(&[0, 1]);
        let_pass(STAYS);
        for place in [0, 1] {
            scene.replicas[place]
                .tidegate
                .await_readyz(200, "agreed", PATIENCE);
        }
        scene.replicas[2].tidegate.start_again();
        scene.balancer.await_healthy(&[0, 1, 2]);
        end(&scene);
        let outcome = scene.finish();
        let limit = NOTICED_WITHIN + INTERVAL * 3;
        outcome.assert_right().assert_silent_for_at_most(limit);
    }
}

#[test]
fn of_three_replicas_only_the_one_that_sees_consul_answers_when_the_others_see_only_each_other() {
    let scene = Scene::start_written("one sees Consul, two see each other", PLAN);
    let third = scene.replicas[2].space.address();
    for replica in &scene.replicas[..2] {
        replica.cut_from_consul();
        replica.space.cut(third, Way::Both);
    }
    scene.balancer.await_healthy(&[2]);
    scene.writer().await_writes(4);
    scene.await_all_polled();
    for replica in &scene.replicas[..2] {
        replica.tidegate.await_readyz(503, "cut-off", PATIENCE);
    }
    for replica in &scene.replicas[..2] {
        replica.space.heal();
    }
    scene.balancer.await_healthy(&[0, 1, 2]);
    scene.writer().await_writes(2);
    scene.finish().assert_right();
}
