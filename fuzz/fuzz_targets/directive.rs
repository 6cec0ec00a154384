//! Any bytes as a value in the KV: no panic, a readable directive reads the same once written, it
//! never takes back what it gave, and each answer from it is a line that HAProxy can take.
#![no_main]

use jiff::{SignedDuration, Timestamp};
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::domain::directive::Directive;
use tidegate_fuzz::domain::ramp::STEPS_MAX;
use tidegate_fuzz::{check_answer, snapshot};

/// Each step of a ramp, a plan and an end: no directive changes more often.
const CHANGES_MAX: usize = STEPS_MAX + 2;

fuzz_target!(|bytes: &[u8]| {
    let start: Timestamp = "2026-11-30T12:00:00Z".parse().expect("a moment");
    if let Ok(directive) = Directive::parse(bytes) {
        let written = directive.to_json();
        let again = Directive::parse(written.as_bytes());
        assert_eq!(again.as_ref(), Ok(&directive), "{written}");
        assert!(directive.asks_the_same(&directive));
        follow(&directive, start);
    }
    let snapshot = snapshot(&[("canary-state", bytes), ("nodes/n/group-states/ci", bytes)]);
    for (line, hours) in [
        (&b"web/a canary\n"[..], 0),
        (b"web/a canary node=n base=1\n", 1),
        (b"web/a ci node=n mode=shadow\n", 24),
        (b"web/a ci canary\n", -24 * 365),
    ] {
        check_answer(&snapshot, line, start + SignedDuration::from_hours(hours));
    }
});

/// From change to change: each lies behind the one before, and there is a last one.
fn follow(directive: &Directive, start: Timestamp) {
    let (mut now, mut changes) = (start, 0);
    while let Some(next) = directive.next_change(now) {
        assert!(next > now, "{next} is not after {now}");
        let lifted = directive.is_lifted(now);
        assert!(
            !lifted || directive.is_lifted(next),
            "a lift is taken back at {next}"
        );
        let _ = directive.state(next, "n", "canary-state");
        changes += 1;
        assert!(changes <= CHANGES_MAX, "it changes without end");
        now = next;
    }
}
