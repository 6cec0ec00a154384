//! What the whole process needs beside: the first checks soon after a start, and later ones spread.

use super::edit::Edits;
use crate::domain::haproxy::lint::{Scene, WINDOW_MS_MAX};
use crate::domain::haproxy::reading::{Line, Reading};
use crate::domain::haproxy::server::Given;

/// By it a line that was rendered is known again. It is no comment that allows anything.
const MARK: &str = "# by tidegate render";
/// The first checks come within 50 ms of a start; later ones are not all at once.
const MAX_SPREAD: &str = "max-spread-checks 50ms";
const SPREAD: &str = "spread-checks 10";
const GLOBAL: &str = "global";

/// Puts the lines in that are missing while somebody asks, and takes them out when nobody does.
pub(super) fn settle(reading: &Reading<'_>, scene: &Scene<'_>, asks: bool, edits: &mut Edits) {
    if !asks {
        for (at, line) in reading.lines.iter().enumerate() {
            if is_rendered(reading, line) {
                edits.0.entry(at).or_default().is_removed = true;
            }
        }
        return;
    }
    let global = &scene.configuration.global;
    let is_short = |given: &Given<u64>| given.value <= WINDOW_MS_MAX;
    let has_max = global.max_spread_checks.as_ref().is_some_and(is_short);
    let has_spread = global
        .spread_checks
        .as_ref()
        .is_some_and(|given| given.value != "0");
    // A later line counts, so each goes behind the one that it replaces.
    let max = global.max_spread_checks.as_ref().map(|given| given.line);
    let spread = global.spread_checks.as_ref().map(|given| given.line);
    for (has, replaced, text) in [(has_spread, spread, SPREAD), (has_max, max, MAX_SPREAD)] {
        let line = format!("    {text} {MARK}\n");
        match replaced.or(global.line) {
            _ if has => {}
            Some(at) => edits.0.entry(at).or_default().behind += &line,
            None => {
                let before = &mut edits.0.entry(0).or_default().before;
                if before.is_empty() {
                    *before = format!("{GLOBAL} {MARK}\n");
                }
                *before += &line;
            }
        }
    }
}

fn is_rendered(reading: &Reading<'_>, line: &Line) -> bool {
    let text = reading.bytes(line).trim_ascii();
    [GLOBAL, MAX_SPREAD, SPREAD]
        .iter()
        .any(|words| text == format!("{words} {MARK}").as_bytes())
}
