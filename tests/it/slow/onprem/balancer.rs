//! HAProxy in front of three replicas, as `deploy/onprem/balancer.cfg` has it.

use std::net::SocketAddr;

use crate::harness::balancer::BALANCED;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::stats::Row;
use crate::harness::tidegate::poll;
use crate::harness::wait::{PATIENCE, check, eventually};
use crate::slow::scene::{INTERVAL, Plan, Scene, Servers};

const PLAN: Plan = Plan {
    nodes: 4,
    servers: 50,
    consul: Servers::One,
};
/// What was on its way to a replica at the moment at which it was killed: of 130 polls a second, each
/// there for a millisecond.
const UNDER_WAY_MAX: usize = 2;
/// A node resets its connection once it has its line, and HAProxy passes that on: no port is kept
/// busy for a minute after a poll. Room for a few that met otherwise.
const PORTS_MAX: usize = 5;

#[test]
fn nodes_are_told_the_right_things_and_a_rolling_restart_loses_no_poll() {
    let name = "behind HAProxy 2.6: rolling restart";
    let mut scene = Scene::start_behind_haproxy(name, PLAN, Version::V26);
    for place in 0..scene.replicas.len() {
        let code = scene.replicas[place].tidegate.stop();
        assert_eq!(code, Some(0));
        scene.replicas[place].tidegate.start_again();
        scene.balancer.await_healthy(&[0, 1, 2]);
    }
    scene.writer().await_writes(2);
    let (polls, ports) = (scene.balancer.polls(), scene.balancer.ports_in_time_wait());
    println!("FIGURES {name}: {ports} ports in TIME_WAIT after {polls} polls");
    assert!(polls > 1_000 && ports <= PORTS_MAX, "{ports} of {polls}");
    // Who ends in order, as HAProxy does not, leaves one behind, nearly always.
    eventually("ports in TIME_WAIT are counted", PATIENCE, || {
        for _ in 0..PORTS_MAX * 4 {
            poll(balanced(), "web/s09 canary node=lb-1").expect("it is answered");
        }
        let after = scene.balancer.ports_in_time_wait();
        check(after > PORTS_MAX, || format!("{after} are counted"))
    });
    scene.finish().assert_right().assert_none_lost();
}

#[test]
fn a_killed_replica_loses_no_poll_but_those_under_way() {
    let name = "behind HAProxy 2.8: one replica killed";
    let mut scene = Scene::start_behind_haproxy(name, PLAN, Version::V28);
    scene.replicas[1].tidegate.kill();
    scene.balancer.await_healthy(&[0, 2]);
    scene.writer().await_writes(3);
    scene.replicas[1].tidegate.start_again();
    scene.balancer.await_healthy(&[0, 1, 2]);
    scene.writer().await_writes(2);
    let outcome = scene.finish();
    outcome
        .assert_right()
        .assert_silent_for_at_most(INTERVAL * 2);
    let lost = outcome.findings.lost;
    assert!(lost <= UNDER_WAY_MAX, "{lost} polls were lost");
}

#[test]
fn with_no_replica_left_polls_are_closed_without_a_byte_and_nodes_keep_their_state() {
    let name = "behind HAProxy 2.8: all replicas killed";
    let mut scene = Scene::start_behind_haproxy(name, PLAN, Version::V28);
    scene.writer().pause();
    scene.await_all_told();
    let before = states(&scene);
    for replica in &mut scene.replicas {
        replica.tidegate.kill();
    }
    scene.balancer.await_healthy(&[]);
    let answer = poll(balanced(), "web/s09 canary node=lb-1 base=100");
    assert_eq!(answer.expect("it takes connections"), "");
    eventually("every node sees an empty answer", PATIENCE, || {
        let rows = all_servers(&scene);
        let other = rows.iter().find(|row| row.agent_status() != "L7RSP");
        check(other.is_none(), || {
            format!("{:?}", other.map(Row::agent_status))
        })
    });
    assert_eq!(states(&scene), before);
    for replica in &mut scene.replicas {
        replica.tidegate.relaunch();
    }
    scene.balancer.await_healthy(&[0, 1, 2]);
    scene.await_all_polled();
    scene.finish().assert_right();
}

/// What the replicas see of a connection is the balancer's.
#[test]
fn a_poll_that_does_not_say_its_node_is_the_balancers() {
    let name = "behind HAProxy 2.6: who asks";
    let plan = Plan {
        nodes: 1,
        servers: 5,
        ..PLAN
    };
    let scene = Scene::start_behind_haproxy(name, plan, Version::V26);
    poll(balanced(), "web/s01 canary").expect("it is answered");
    eventually(
        "the fleet view has a node of that address",
        PATIENCE,
        || {
            let fleet = scene.replicas[0].tidegate.get("/api/v1/fleet").text();
            let node = format!("\"{BALANCED}\"");
            check(fleet.contains(&node), || fleet.clone())
        },
    );
}

fn balanced() -> SocketAddr {
    SocketAddr::from((BALANCED, 8790))
}

fn all_servers(scene: &Scene) -> Vec<Row> {
    let rows = scene.nodes.iter().flat_map(Haproxy::show_stat);
    rows.filter(|row| row.field("type") == "2").collect()
}

fn states(scene: &Scene) -> Vec<(String, u32)> {
    let state = |row: &Row| (row.status().to_owned(), row.weight());
    all_servers(scene).iter().map(state).collect()
}
