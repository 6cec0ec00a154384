//! What operators and pipelines write, on real stores: the plan, the rails, the history and undo,
//! ramps held and resumed, the deploy lock, and waiting until the fleet was told.

use serde_json::Value;

use crate::follows::WRITTEN;
use crate::follows::commands::Place;
use crate::harness::process::Output;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

mod announce;
mod asked;
mod changes;
mod diff;
mod exporter;
mod guard;
pub(crate) mod killed;
mod lost_answers;
mod migration;
mod out_of_reach;
mod ramps;
mod writers;

/// Two main servers of which one has to stay, and a canary one.
const SETTINGS: &str = r#"{"rails":{"unattended":true},
    "rows":[{"server":"web/a","groups":["main"]},{"server":"web/b","groups":["main"]},
            {"server":"web/c","groups":["main"]},{"server":"web/cny","groups":["canary"],"weight":5}],
    "nodes":[{"name":"lb-1","zone":"z-b"},{"name":"lb-2","zone":"z-c"}]}"#;

#[track_caller]
pub(crate) fn expect(output: &Output, code: i32, texts: &[&str]) -> String {
    let shown = format!("{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(code), "{shown}");
    for text in texts {
        assert!(shown.contains(text), "no {text:?} in {shown}");
    }
    shown
}

/// An environment that knows its fleet, and whose groups exist.
fn set_up(place: &Place) {
    place.done(&["init"]);
    place.put("settings", SETTINGS);
    place.put("group-states/main", "ready");
}

/// The change's id in what a command printed.
pub(crate) fn id(shown: &str) -> String {
    let line = shown
        .lines()
        .find_map(|line| line.split("tidegate undo ").nth(1));
    line.expect("it says how to undo it").trim().to_owned()
}

/// The history as JSON, the newest change first.
fn history(place: &Place, filter: &[&str]) -> Vec<Value> {
    let shown = place.done(&[&["history", "--output", "json"], filter].concat());
    serde_json::from_str(&shown).expect("it is JSON")
}
