//! One environment on one page: what a person wants to see at a glance.
//!
//! A function of the [`View`], the snapshot and what is believed; nothing is decided or counted here
//! that they do not say. Everything is bounded: what is left out is counted, what is out of the
//! ordinary comes first.

pub use self::canary::{Canary, Exception};
pub use self::findings::{Finding, Findings, Weight};
pub use self::matrix::{Cell, Kind, Matrix, Server};
pub use self::nodes::{NodeLine, Nodes};
pub use self::ramp::Course;
pub use self::standing::{Standing, Stands};

use jiff::Timestamp;

use super::authority::Verdict;
use super::deploy::Deploy;
use super::fleet::{Merged, Missing};
use super::key::Prefix;
use super::name::Name;
use super::snapshot::Snapshot;
use super::view::View;

/// How many servers are listed.
pub const SERVERS_MAX: usize = 120;
/// How many zones have a column; a site has three.
pub const ZONES_MAX: usize = 8;
/// How many nodes are listed, and how many a ramp draws.
pub const NODES_MAX: usize = 200;
/// How many findings are listed.
pub const FINDINGS_MAX: usize = 40;
/// How many directives are listed.
pub const STANDING_MAX: usize = 25;
/// How many names one line repeats.
pub const NAMES_MAX: usize = 6;

/// What a board is made of.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// Whose board it is.
    pub prefix: &'a Prefix,
    /// What is believed; `None` before the first good listing.
    pub snapshot: Option<&'a Snapshot>,
    /// The deploy locks by stage, or why one cannot be read.
    pub deploys: &'a [(String, Result<Deploy, String>)],
    /// Whether each replica answers, and why; the one without a name is whose board it is.
    pub verdicts: &'a [(Option<Name>, Verdict)],
    /// What is not as it should be with this replica and its peers.
    pub replica_problems: &'a [String],
    /// The reports of all replicas.
    pub fleet: &'a Merged,
    /// Who has not reported.
    pub missing: &'a [Missing],
    /// The rows: of the snapshot and these reports.
    pub view: &'a View,
}

/// An environment at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// As of when.
    pub at: Timestamp,
    /// How many rows there are: servers of nodes.
    pub rows: usize,
    /// The canary.
    pub canary: Canary,
    /// What needs somebody.
    pub findings: Findings,
    /// Servers by the zones of the nodes.
    pub matrix: Matrix,
    /// The nodes.
    pub nodes: Nodes,
    /// What was written last, and stands.
    pub stands: Stands,
}

impl Board {
    /// Puts it together.
    #[must_use]
    pub fn new(parts: &Parts<'_>) -> Self {
        Self {
            at: parts.view.at,
            rows: parts.view.rows.len(),
            canary: Canary::new(parts),
            findings: Findings::new(parts),
            matrix: Matrix::new(parts.view),
            nodes: Nodes::new(parts.view),
            stands: Stands::new(parts),
        }
    }
}

/// The words by which a command finds this environment: `--env gprd`, and `--root` where it is
/// another than the usual one.
#[must_use]
pub fn environment_flags(prefix: &Prefix) -> String {
    let (root, environment) = prefix.parts();
    if root == USUAL_ROOT {
        format!("--env {environment}")
    } else {
        format!("--env {environment} --root {root}")
    }
}

/// The default of the setting `root`.
const USUAL_ROOT: &str = "frontend";

/// Names in one line, and how many more there are.
fn names<'a>(all: impl IntoIterator<Item = &'a Name>) -> String {
    let mut all = all.into_iter();
    let shown: Vec<_> = all.by_ref().take(NAMES_MAX).map(Name::as_str).collect();
    let more = all.count();
    let shown = shown.join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}

mod canary;
mod findings;
mod matrix;
mod nodes;
mod ramp;
mod standing;
#[cfg(test)]
mod tests;
pub mod text;
