//! `canary --disable`: maintenance a minute later, with no client alive.

use std::time::{Duration, Instant};

use crate::follows::commands::Place;
use crate::follows::{Web, rows_stand};
use crate::harness::wait::{check, eventually, throughout};

const SHORT: Duration = Duration::from_millis(250);
/// What the command says.
const DRAINED: Duration = Duration::from_mins(1);

#[test]
fn a_disabled_canary_drains_for_a_minute_and_is_in_maintenance_then() {
    let place = Place::consul();
    place.done(&["init"]);
    let tidegate = place.serve();
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("a", "canary base=100", "")
        .start();
    let all = |status: &'static str| {
        let row = [("a".to_owned(), (status, None))];
        nodes.iter().try_for_each(|node| rows_stand(node, &row))
    };
    let begin = Instant::now();
    place.done(&["canary", "--disable"]);
    eventually("it drains", 10 * SHORT, || all("DRAIN"));
    let margin = Duration::from_secs(2);
    throughout(
        "it drains",
        DRAINED.saturating_sub(margin + begin.elapsed()),
        || all("DRAIN"),
    );
    eventually("it is in maintenance", 2 * margin, || all("MAINT"));
    let took = begin.elapsed();
    println!("disabled: in maintenance after {took:?}");
    check(took >= DRAINED, || format!("after {took:?}")).unwrap();
    // Twice changes nothing, and coming back ends it.
    assert!(place.done(&["canary", "--disable"]).contains("already so"));
    place.done(&["canary", "--ready"]);
    eventually("it is back", 20 * SHORT, || all("no check"));
}
