//! What became other between two looks.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use super::row::Row;
use super::table::plain;

/// A line for each row that is another in what is desired, served or observed, with the moment of
/// the later look; and for each that is no longer known.
#[must_use]
pub fn changes(before: &View, after: &View) -> Vec<String> {
    let (old, new) = (by_row(before), by_row(after));
    let known: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut lines = Vec::new();
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
