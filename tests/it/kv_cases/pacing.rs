//! How often the source is asked.

use super::{NOTICED_WITHIN, Story, key};
use crate::harness::consul::Consul;

const WHOLE: &str = "tidegate_source_reads_total{outcome=\"ok\"}";
const WRITES: u32 = 200;

#[test]
fn a_burst_of_writes_is_read_at_most_ten_times_a_second_and_to_its_end() {
    let story = Story::begin(Consul::dev());
    let (begin, before) = (story.recorder.now(), story.tidegate.count(WHOLE));
    for number in 1..=WRITES {
        let value = format!("{}%", 1 + number % 90);
        story.consul.kv_put(&key("canary-state"), value);
    }
    let took = story.recorder.since(begin);
    let last = format!("up ready {}%", 1 + WRITES % 90);
    story
        .tidegate
        .await_answer("web/any canary", &last, NOTICED_WITHIN);
    let all = story.recorder.since(begin);
    let readings = story.tidegate.count(WHOLE) - before;
    println!("{WRITES} writes in {took:.2?}, answered after {all:.2?}, {readings} whole readings");
    // One may have been due at the start, one more be under way at the end.
    let most = 2 + all.as_millis() / 100;
    assert!(
        (1..=most).contains(&readings.into()),
        "{readings}, at most {most}"
    );
    story.await_current("after the burst");
    story.recorder.assert_only(&["up drain"]);
}
