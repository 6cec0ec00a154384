//! The block that chat shows of the canary, as its users know it.

use std::collections::{BTreeMap, BTreeSet};

use super::row::{Row, counts};

/// What stands above the block.
const CANARIES: &str = ":canary:\n:canary:\n:canary:\n";
/// How wide a backend's name is at least.
const NAME_WIDTH: usize = 20;

/// The block: a line for each backend with its sessions and how many rows have each state, then the
/// servers by state. Rows of weight 0 are not shown: they get no traffic.
#[must_use]
pub fn chatops<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let weighs = |row: &&Row| {
        let observed = row.observed.as_ref();
        observed.and_then(|observed| observed.weight) != Some(0)
    };
    let mut backends = BTreeMap::<_, Vec<&Row>>::new();
    let mut states = BTreeMap::<_, BTreeSet<_>>::new();
    for row in rows.filter(weighs) {
        backends.entry(row.server.backend()).or_default().push(row);
        let servers = states.entry(&*row.state).or_default();
        servers.insert(row.server.as_str());
    }
    let mut text = format!("{CANARIES}```\n");
    for (name, rows) in backends {
        text += &format!("{name:<NAME_WIDTH$}: conn:{}", sessions(&rows));
        for (state, count) in counts(rows.into_iter()) {
            text += &format!(" {state}:{count}");
        }
        text.push('\n');
    }
    for (state, servers) in states {
        let servers: Vec<_> = servers.into_iter().collect();
        text += &format!("*{state}*: {}\n", servers.join(", "));
    }
    text + "```\n"
}

/// A `?` where nobody says.
fn sessions(rows: &[&Row]) -> String {
    let known = rows
        .iter()
        .filter_map(|row| row.observed.as_ref()?.sessions);
    let known: Vec<u64> = known.collect();
    if known.is_empty() {
        "?".to_owned()
    } else {
        known
            .iter()
            .fold(0_u64, |sum, n| sum.saturating_add(*n))
            .to_string()
    }
}
