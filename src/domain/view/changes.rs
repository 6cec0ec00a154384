//! What became other between two looks.

use std::collections::{BTreeMap, BTreeSet};

use super::row::Row;
use super::table::plain;
use super::{Problem, View};
use crate::domain::observed::Missing;

/// A line for each row that is another in what is desired, served or observed, with the moment of
/// the later look; for each that is no longer known; and for whoever cannot be asked, and keys that
/// are wrong, from now on or no longer.
#[must_use]
pub fn changes(before: &View, after: &View) -> Vec<String> {
    let (old, new) = (by_row(before), by_row(after));
    let known: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut lines = troubles(before, after);
    for row in known {
        if old.get(row) == new.get(row) {
            continue;
        }
        let (server, node) = row;
        let text = new.get(row).map_or("no longer known", String::as_str);
        lines.push(format!("{} {server} on {node}: {text}", after.at));
    }
    lines
}

/// Why somebody cannot be asked may be told in other words at each look: whether is what counts.
fn troubles(before: &View, after: &View) -> Vec<String> {
    let missing = |view: &View| {
        let all = view.missing.iter();
        let one = |it: &Missing| (format!("missing  {}", it.what), format!(": {}", it.why));
        all.map(one).collect::<BTreeMap<_, _>>()
    };
    let problems = |view: &View| {
        let all = view.problems.iter();
        let one = |it: &Problem| format!("problem  {}: {}", it.path, plain(&it.text));
        all.map(|it| (one(it), String::new()))
            .collect::<BTreeMap<_, _>>()
    };
    let mut lines = Vec::new();
    for (old, new) in [
        (missing(before), missing(after)),
        (problems(before), problems(after)),
    ] {
        let over = old.keys().filter(|what| !new.contains_key(*what));
        lines.extend(over.map(|what| format!("{} no longer {what}", after.at)));
        let begun = new.iter().filter(|(what, _)| !old.contains_key(*what));
        lines.extend(begun.map(|(what, why)| format!("{} {what}{why}", after.at)));
    }
    lines
}

fn by_row(view: &View) -> BTreeMap<(&str, &str), String> {
    let row = |row: &'_ Row| shown(row);
    let rows = view.rows.iter();
    rows.map(|it| ((it.server.as_str(), it.node.as_str()), row(it)))
        .collect()
}

fn shown(row: &Row) -> String {
    let desired = row.desired.as_ref();
    let desired = desired.map_or("-", |desired| desired.answer.as_str());
    let served = row.served.as_ref().map(|served| {
        let silent = if served.silent { " (silent)" } else { "" };
        format!("{}{silent}", served.answer.as_deref().unwrap_or("nothing"))
    });
    let served = served.as_deref().unwrap_or("-");
    let observed = row
        .observed
        .as_ref()
        .map(|observed| plain(&observed.status));
    let observed = observed.as_deref().unwrap_or("-");
    format!("desired {desired}, served {served}, HAProxy {observed}")
}
