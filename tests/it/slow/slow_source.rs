//! A source that answers slowly is still the source.

use std::time::Duration;

use crate::harness::consul::Consul;
use crate::harness::delay::Delay;
use crate::harness::http;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::eventually;
use crate::kv_cases::{DRAINED, NOTICED_WITHIN, Story, key, set_up};

/// Runs a service behind a delay for some time; gives the part of that time in which it was
/// current.
fn current_part(delay: Duration, lasting: Duration) -> f64 {
    let consul = Consul::dev();
    set_up(&consul);
    let way = Delay::before(consul.http());
    way.set(delay);
    let environment = [("CONSUL_HTTP_ADDR".to_owned(), way.url())];
    let mut tidegate = Tidegate::launch(&["--kv", "consul"], &environment);
    tidegate.await_ready();
    let story = Story::with(consul, tidegate);
    let (mut probes, mut current) = (0, 0);
    let begin = story.recorder.now();
    eventually("the time is over", lasting * 2, || {
        let answer = http::get(story.tidegate.http(), "/readyz").map_err(|e| e.to_string())?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        probes += 1;
        current += u32::from(answer.text().starts_with("current"));
        (story.recorder.since(begin) >= lasting)
            .then_some(())
            .ok_or_else(|| "not yet".to_owned())
    });
    story
        .consul
        .kv_put(&key("server-overrides/web/drained"), "maint");
    let followed = story.recorder.await_answer("up maint", NOTICED_WITHIN);
    let part = f64::from(current) / f64::from(probes);
    println!(
        "delay {delay:?}: current {:.0} % of the time, a change followed after {followed:.2?} ({DRAINED})",
        part * 100.0
    );
    // Slow is no reason to be silent, nor to say anything else.
    story.recorder.assert_only(&["up drain", "up maint"]);
    part
}

#[test]
fn a_source_that_takes_a_third_of_the_lease_stays_current() {
    let part = current_part(Duration::from_millis(500), Duration::from_secs(4));
    assert!(part > 0.99, "current for {part} of the time");
}

#[test]
fn a_source_that_takes_a_second_is_followed_and_answered_from() {
    // More than half a lease: it is `agreed` in between, with the same answers.
    let part = current_part(Duration::from_secs(1), Duration::from_secs(4));
    assert!(part > 0.2, "current for {part} of the time");
}
