//! How it follows.

use std::time::{Duration, Instant};

use super::words;
use crate::harness::events::Events;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// As many as may be told of changes at once.
const VIEWERS_MAX: usize = 32;
/// The parts of the page in their order.
const SECTIONS: [&str; 7] = [
    "top", "canary", "problems", "replicas", "servers", "nodes", "stands",
];
/// How late a change may be seen.
const UPDATE_MAX: Duration = Duration::from_secs(1);

#[test]
fn a_change_is_on_the_page_within_a_second() {
    let (state, tidegate) = Tidegate::start_drained();
    let mut events = open(&tidegate, None);
    assert!(words(&events.await_named("canary").data).starts_with("drain"));
    for word in ["maint", "40%", "drain"] {
        let begun = Instant::now();
        state.put("canary-state", word);
        let event = events.await_named("canary");
        assert!(words(&event.data).contains(word), "{}", event.data);
        assert!(begun.elapsed() < UPDATE_MAX, "{:?}", begun.elapsed());
    }
}

#[test]
fn who_comes_again_is_sent_what_is_new() {
    let (_state, tidegate) = Tidegate::start_drained();
    let mut events = open(&tidegate, None);
    let head = events.head.to_ascii_lowercase();
    for line in [
        "content-type: text/event-stream",
        "cache-control: no-",
        "connection: close",
        "content-security-policy: default-src 'none'",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let first = events.await_named("stands");
    let id = first.id.expect("the last section says how far it is");
    let mut again = open(&tidegate, Some(&id));
    let event = again.next().expect("it goes on").expect("an event");
    assert_eq!(event.name, "top");
    // An id of another process says nothing.
    let mut other = open(&tidegate, Some("0000000000000000-99"));
    let names: Vec<_> = (0..7)
        .map(|_| other.next().unwrap().unwrap().name)
        .collect();
    assert_eq!(names, SECTIONS);
}

#[test]
fn one_viewer_too_many_is_told_so_and_keeps_nobody_else_out() {
    let (_state, tidegate) = Tidegate::start_drained();
    let mut held: Vec<_> = (0..VIEWERS_MAX).map(|_| open(&tidegate, None)).collect();
    let refused = Events::open(tidegate.http(), "/events", None).expect("it answers");
    assert_eq!(refused.status, 503, "{}", refused.head);
    assert!(
        refused.head.to_ascii_lowercase().contains("retry-after"),
        "{}",
        refused.head
    );
    for path in ["/", "/readyz", "/metrics"] {
        assert_eq!(tidegate.get(path).status, 200, "{path}");
    }
    assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
    held.pop();
    eventually("its place is free again", PATIENCE, || {
        let events = Events::open(tidegate.http(), "/events", None).map_err(|e| e.to_string())?;
        check(events.status == 200, || events.status.to_string())
    });
}

#[test]
fn streams_end_when_the_service_stops() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    let mut events = open(&tidegate, None);
    events.await_named("top");
    let begun = Instant::now();
    assert_eq!(tidegate.stop(), Some(0));
    assert!(begun.elapsed() < UPDATE_MAX, "{:?}", begun.elapsed());
    while events.next().expect("it ends in order").is_some() {}
}

fn open(tidegate: &Tidegate, known: Option<&str>) -> Events {
    let events = Events::open(tidegate.http(), "/events", known).expect("the service listens");
    assert_eq!(events.status, 200, "{}", events.head);
    events
}
