//! Is the canary up? What a release tool asks. Whatever is not known means no.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::table::{ago, names, why};
use super::{Backend, CANARY_BACKEND, Row, View};
use crate::domain::name::Name;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// Whether the canary is up.
    pub up: bool,
    /// How many canary backends there are, each node's counted.
    pub backends: usize,
    /// Why it is not.
    pub reasons: Vec<String>,
}

impl Gate {
    /// Asks a view: every canary backend must be up on every node, by a word that is not too old.
    #[must_use]
    pub fn new(view: &View, max_age: Duration) -> Self {
        let canary = || view.backends.iter().filter(|backend| backend.canary);
        let mut reasons = Vec::new();
        if view.observed_from.is_empty() {
            let text = "nobody was asked what HAProxy has: give --prometheus or --stats";
            reasons.push(text.to_owned());
        }
        let missing = &view.missing[view.missing.len() - view.unseen..];
        let unseen = missing.iter();
        reasons.extend(unseen.map(|missing| format!("{}: {}", missing.what, missing.why)));
        if canary().count() == 0 {
            reasons.push("no canary backend is known".to_owned());
        }
        let is_old = |backend: &&Backend| {
            let age = Duration::try_from(view.at.duration_since(backend.at));
            age.is_ok_and(|age| age > max_age)
        };
        for backend in canary().filter(is_old) {
            let (name, node) = (&backend.backend, &backend.node);
            let age = ago(backend.at, view.at);
            reasons.push(format!("{name} on {node} was last seen {age}: too old"));
        }
        reasons.extend(unknown(view));
        reasons.extend(down(view, |backend| backend.canary && !is_old(&backend)));
        Self {
            up: reasons.is_empty(),
            backends: canary().count(),
            reasons,
        }
    }
}

/// A line for each canary backend that some node polls for and that nobody has seen there: the node's
/// HAProxy was not asked.
fn unknown(view: &View) -> Vec<String> {
    let is_seen = |row: &Row| {
        let mut seen = view.backends.iter();
        seen.any(|seen| seen.node == row.node && seen.backend.as_str() == row.server.backend())
    };
    let is_canary = |backend: &str| {
        let mut known = view.backends.iter();
        let is_known = known.any(|known| known.canary && known.backend.as_str() == backend);
        is_known || backend.starts_with(CANARY_BACKEND)
    };
    let mut unknown = BTreeMap::<&str, BTreeSet<&str>>::new();
    for row in &view.rows {
        let polls = row.served.as_ref().is_some_and(|served| !served.silent);
        if polls && is_canary(row.server.backend()) && !is_seen(row) {
            let nodes = unknown.entry(row.server.backend()).or_default();
            nodes.insert(row.node.as_str());
        }
    }
    let line = |(backend, nodes): (&str, BTreeSet<&str>)| {
        format!("{backend} is not known on {}", names(nodes.into_iter()))
    };
    unknown.into_iter().map(line).collect()
}

/// A line for each backend that is down somewhere, with what is asked for its servers.
fn down(view: &View, looked_at: impl Fn(&Backend) -> bool) -> Vec<String> {
    let mut down = BTreeMap::<&Name, Vec<&str>>::new();
    let here = |backend: &&Backend| !backend.up && looked_at(backend);
    for backend in view.backends.iter().filter(here) {
        let nodes = down.entry(&backend.backend).or_default();
        nodes.push(backend.node.as_str());
    }
    let mut lines = Vec::new();
    for (name, nodes) in down {
        let nodes = names(nodes.into_iter());
        let mut line = format!("{name} is down on {nodes}");
        let its = view.rows.iter();
        let its = its.filter(|row| row.server.backend() == name.as_str() && row.state != "UP");
        let mut whys: Vec<_> = its.filter_map(|row| why(row.desired.as_ref()?)).collect();
        whys.sort();
        whys.dedup();
        if !whys.is_empty() {
            line += &format!("; {}", whys.join("; "));
        }
        lines.push(line);
    }
    lines
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.up {
            return writeln!(f, "canary is up: {} canary backends", self.backends);
        }
        writeln!(f, "canary is not up:")?;
        self.reasons
            .iter()
            .try_for_each(|reason| writeln!(f, "  {reason}"))
    }
}
