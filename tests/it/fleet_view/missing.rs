//! Replicas that say nothing of the fleet: named, with the reason, while the rest is shown.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::forget::check as check_forget;
use super::{await_fleet, find, list, url};
use crate::harness::tidegate::Tidegate;
use crate::harness::trio::{SLOTS, Trio};
use crate::harness::wait::{PATIENCE, check, eventually};

/// The limit of a question, and a loaded machine.
const NAMED_WITHIN: Duration = Duration::from_secs(4);
/// An answer takes microseconds; this is for a loaded machine.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

#[test]
fn a_dead_replica_is_named_and_the_rest_is_shown() {
    let mut trio = asked();
    trio.replicas[2].kill();
    let fleet = expect_missing(&trio.replicas[0], &["c"], "no replica runs there");
    assert_eq!(find(&fleet, "lb-b")["rows"][0]["answer"], "drain");
}

#[test]
fn a_hung_replica_is_named_in_time_and_no_poll_waits_for_it() {
    let mut trio = asked();
    trio.replicas[1].process().pause();
    let a = &trio.replicas[0];
    std::thread::scope(|scope| {
        let looking: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| look_until_missing(a, "b")))
            .collect();
        while !looking
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            let begin = Instant::now();
            assert_eq!(a.ask_line("web/a canary node=lb-a"), "up drain");
            let taken = begin.elapsed();
            assert!(taken < ANSWERED_WITHIN, "{taken:?}");
        }
        for look in looking {
            let longest = look.join().expect("it does not panic");
            assert!(longest < NAMED_WITHIN, "{longest:?}");
        }
    });
    let fleet = expect_missing(a, &["b"], "no whole answer within");
    assert_eq!(find(&fleet, "lb-c")["rows"][0]["answer"], "drain");
    check_forget(&["lb-c", "--replica", &url(a)], 1, "b: not forgotten: ");
    trio.replicas[1].process().resume();
    await_fleet(&trio.replicas[0], "all report again", |fleet| {
        fleet["complete"] == true
    });
}

#[test]
fn a_replica_with_another_secret_is_named_on_both_sides_and_forgets_nothing() {
    let mut trio = asked();
    trio.set_token(2, "another-secret-of-replicas");
    expect_missing(&trio.replicas[0], &["c"], "give all replicas the same");
    let fleet = expect_missing(&trio.replicas[2], &["a", "b"], "401");
    assert!(!find(&fleet, "lb-c").is_null(), "{fleet}");
    let forget = ["lb-c", "--replica", &url(&trio.replicas[0])];
    check_forget(&forget, 1, "c: not forgotten: ");
    let fleet = super::fleet(&trio.replicas[2]);
    assert!(!find(&fleet, "lb-c").is_null(), "{fleet}");
}

#[test]
fn a_replica_of_another_fleet_is_named_and_its_node_of_that_name_is_left_alone() {
    let mut trio = asked();
    trio.replicas[2].kill();
    trio.replace(2, &["--root", "other"]);
    let text = "it serves other/gprd/, not frontend/gprd/";
    expect_missing(&trio.replicas[0], &["c"], text);
    // It answers nothing, and counts polls.
    assert_eq!(trio.replicas[2].ask_line("web/a node=lb-a"), "");
    let forget = ["lb-a", "--replica", &url(&trio.replicas[0])];
    check_forget(&forget, 1, text);
    let fleet = super::fleet(&trio.replicas[2]);
    assert!(!find(&fleet, "lb-a").is_null(), "{fleet}");
    let fleet = super::fleet(&trio.replicas[0]);
    assert!(find(&fleet, "lb-a").is_null(), "{fleet}");
}

/// Three replicas, each asked by a node of its own.
fn asked() -> Trio {
    let trio = Trio::start();
    for (slot, replica) in SLOTS.iter().zip(&trio.replicas) {
        let line = format!("web/a canary node=lb-{slot}");
        assert_eq!(replica.ask_line(&line), "up drain");
    }
    await_fleet(&trio.replicas[0], "all are known", |fleet| {
        fleet["totals"]["rows"] == 3
    });
    trio
}

/// Waits until these are missing, each for a reason that says this; gives the view.
fn expect_missing(replica: &Tidegate, slots: &[&str], text: &str) -> Value {
    let fleet = await_fleet(replica, "they are missing", |fleet| missing(fleet) == slots);
    assert_eq!(fleet["complete"], false);
    for slot in slots {
        let mut all = list(&fleet, "replicas").iter();
        let why = all
            .find(|one| one["replica"] == *slot)
            .map(|one| &one["why"]);
        let why = why.and_then(Value::as_str).unwrap_or_default();
        assert!(why.contains(text), "{why:?} lacks {text:?}");
    }
    fleet
}

/// Looks until a replica is missing; gives how long the longest look took.
fn look_until_missing(replica: &Tidegate, slot: &str) -> Duration {
    let mut longest = Duration::ZERO;
    eventually("it is missing", PATIENCE, || {
        let begin = Instant::now();
        let fleet = super::fleet(replica);
        longest = longest.max(begin.elapsed());
        check(missing(&fleet) == [slot], || fleet.to_string()).map(|()| longest)
    })
}

fn missing(fleet: &Value) -> Vec<&str> {
    let all = list(fleet, "replicas").iter();
    let missing = all.filter(|one| one["reported"] == false);
    missing.filter_map(|one| one["replica"].as_str()).collect()
}
