//! The whole story of a change on a real Consul: from who asked, over three replicas, to the last of
//! four HAProxy nodes; and what it costs when the collector of traces dies on the way.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::follows::commands::Place;
use crate::harness::process::Output;
use crate::harness::replicas::SLOTS;
use crate::harness::tidegate::{Tidegate, poll};
use crate::harness::wait::{PATIENCE, check, eventually, throughout};
use crate::operators::id;
use crate::traces::{READY, Scene};

/// Longer than each replica looks for what was delivered, and sends what it has.
const STAYS: Duration = Duration::from_secs(5);
/// A poll takes less than a millisecond; the rest is room for a busy machine. With the usual
/// agent-inter HAProxy would still take it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// With a lease that no pause of a busy machine outlasts: a poll that is not answered is the
/// collector's doing.
const PATIENT: [&str; 2] = ["--poll-interval", "20s"];
/// A line that is answered without becoming a row, so that what was delivered stays as it is.
const PROBE: (&str, &str) = ("probe", "unknown-request");

/// Polls every replica all the time while something else happens: each poll is answered, in time.
fn undisturbed<T>(scene: &mut Scene, during: impl FnOnce(&mut Scene) -> T) -> T {
    /// Also when what happens meanwhile fails.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let agents: Vec<_> = scene.replicas.all.iter().map(Tidegate::agent).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        let polling = agents
            .iter()
            .map(|agent| threads.spawn(|| poll_until(*agent, &stop)));
        let polling: Vec<_> = polling.collect();
        let stopping = Stop(&stop);
        let done = during(scene);
        drop(stopping);
        for polling in polling {
            let (polls, slowest) = polling.join().expect("every poll is answered");
            println!("{polls} polls, the slowest {slowest:?}");
            assert!(
                polls > 100 && slowest < ANSWER_TIME_MAX,
                "{polls} {slowest:?}"
            );
        }
        done
    })
}

/// How many polls there were until `stop`, and how long the slowest took.
fn poll_until(agent: SocketAddr, stop: &AtomicBool) -> (usize, Duration) {
    let (mut polls, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let answer = poll(agent, PROBE.0).expect("a replica is there");
        assert_eq!(answer, PROBE.1, "poll {polls} of {agent}");
        (polls, slowest) = (polls + 1, slowest.max(begin.elapsed()));
    }
    (polls, slowest)
}

/// Drains or undrains, and waits for the answer of every node as a pipeline does.
fn write(scene: &Scene, state: &str) -> Output {
    let urls: Vec<_> = scene
        .replicas
        .all
        .iter()
        .map(|replica| format!("--replica=http://{}", replica.http()))
        .collect();
    let urls = urls.iter().map(String::as_str);
    let flags: Vec<_> = [state, "--reason", "bad deploy"]
        .into_iter()
        .chain(urls)
        .collect();
    scene.canary(&flags)
}

#[test]
fn a_drain_on_consul_is_read_end_to_end_by_links_and_times() {
    let scene = Scene::start_on(Place::consul(), &[]);
    let output = write(&scene, "--drain");
    scene.follow("DRAIN");
    scene.expect_story(&output);
    let command = scene.command(&id(&output.stdout));
    let transitions = scene.await_linked("state.transition", &command, SLOTS[..3].len());
    let traces: BTreeSet<_> = transitions.iter().map(|it| &it.span.trace_id).collect();
    assert_eq!(traces.len(), 3, "each replica has a trace of its own");
    // Consul's answer to the write is on its way while the replicas hear of it: what is certain is
    // that nobody hears before it is asked for, and that all had it before the last node had.
    let writes = scene.collector.named("kv.write");
    let write = writes
        .iter()
        .find(|it| it.span.trace_id == command.span.trace_id);
    let (asked, _) = write.expect("the story has it").times();
    let delivered = &scene.await_linked("delivered", &command, 1)[0];
    let (_, had) = delivered.times();
    for transition in &transitions {
        let (begin, end) = transition.times();
        assert!(
            asked < begin && begin <= end && end <= had,
            "{transition:?} {delivered:?}"
        );
        for (attribute, state) in [("before", "ready"), ("after", "drain")] {
            let directive = transition.attribute(attribute);
            let state = format!("\"state\":\"{state}\"");
            assert!(directive.contains(&state), "{directive}");
        }
    }
    throughout("one replica tells, once", STAYS, || {
        let all = scene.collector.named("delivered");
        check(all.len() == 1, || format!("{all:#?}"))
    });
    scene.expect_no_others(3);
}

#[test]
fn a_collector_that_dies_in_the_middle_disturbs_no_answer_and_the_next_story_is_whole() {
    let mut scene = Scene::start_on(Place::consul(), &PATIENT);
    let counts = |scene: &Scene, outcome: &str| -> Vec<u64> {
        let series = format!("tidegate_trace_spans_total{{outcome=\"{outcome}\"}}");
        scene
            .replicas
            .all
            .iter()
            .map(|it| it.count(&series))
            .collect()
    };
    let whole = undisturbed(&mut scene, |scene| {
        let output = write(scene, "--drain");
        // The command has told its part; the replicas are about to tell theirs.
        scene.collector.kill();
        assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{output:?}");
        scene.follow("DRAIN");
        for (state, status) in [("--ready", READY), ("--maint", "MAINT"), ("--ready", READY)] {
            let output = write(scene, state);
            assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{output:?}");
            scene.follow(status);
        }
        eventually("every replica counts what it lost", PATIENCE, || {
            let failed = counts(scene, "failed");
            check(failed.iter().all(|count| *count > 0), || {
                format!("{failed:?}")
            })
        });
        assert_eq!(
            counts(scene, "dropped"),
            [0, 0, 0],
            "there was room for so few"
        );
        scene.collector.start_again();
        let output = write(scene, "--drain");
        scene.follow("DRAIN");
        output
    });
    scene.expect_story(&whole);
    let lost = counts(&scene, "failed");
    throughout("nothing more is lost", Duration::from_secs(1), || {
        let now = counts(&scene, "failed");
        check(now == lost, || format!("{now:?}, not {lost:?}"))
    });
    for replica in &mut scene.replicas.all {
        let log = replica.process().log_text();
        for line in ["traces cannot be sent", "traces are sent again"] {
            assert_eq!(log.matches(line).count(), 1, "{log}");
        }
    }
}
