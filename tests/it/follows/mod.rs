//! Real HAProxy nodes of both versions follow the real program, end to end.

pub(crate) mod commands;
mod enrolled;
mod example_fleet;
mod ramps;
mod refusals;
mod shown;
mod states;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::stats::Row;
use crate::harness::wait::{check, eventually};

/// `agent-inter` of the nodes here.
pub(crate) const INTER: Duration = Duration::from_secs(1);
/// What comes on top of one `agent-inter`, counted from the service's own new answer: less than
/// another interval, so that a second poll does not pass for the first.
pub(crate) const MARGIN: Duration = Duration::from_millis(900);
/// From a write to the service's new answer: not what these tests measure.
pub(crate) const WRITTEN: Duration = Duration::from_secs(5);

/// The backend `web` of one node, row by row; nobody sends it requests.
pub(crate) struct Web {
    agent: SocketAddr,
    inter: Duration,
    /// Where every row leads.
    target: SocketAddr,
    lines: String,
}

impl Web {
    pub(crate) fn new(agent: SocketAddr, inter: Duration) -> Self {
        Self {
            agent,
            inter,
            target: SocketAddr::from(([127, 0, 0, 1], 1)),
            lines: String::new(),
        }
    }

    /// The same, with rows that lead somewhere: for health checks.
    pub(crate) fn to(mut self, target: SocketAddr) -> Self {
        self.target = target;
        self
    }

    /// A row `web/<name>` that asks with `words` after its id; `more` ends its line.
    pub(crate) fn row(mut self, name: &str, words: &str, more: &str) -> Self {
        let request = format!("web/{name} {words}");
        let line = AgentServer {
            name,
            address: self.target,
            agent: self.agent,
            request: request.trim_end(),
            inter: self.inter,
            more,
        };
        writeln!(self.lines, "{line}").expect("a string takes every byte");
        self
    }

    pub(crate) fn config(&self) -> String {
        format!(
            "{DEFAULTS}\nbackend web\n    balance roundrobin\n{}",
            self.lines
        )
    }

    /// One node of each version with these rows: `lb-26` in `zone-26`, and `lb-28` in `zone-28`.
    pub(crate) fn start(&self) -> [Haproxy; 2] {
        let versions = [
            (Version::V26, "lb-26", "zone-26"),
            (Version::V28, "lb-28", "zone-28"),
        ];
        versions.map(|(version, node, zone)| {
            Haproxy::start_node(version, node, &[("LB_ZONE", zone)], &self.config())
        })
    }
}

/// Where a row stands: the beginning of its status, and its weight unless that does not matter.
pub(crate) type Seen<'a> = (&'a str, Option<u32>);

/// Waits until each of these rows of `web` stands as expected on every node, and says how long
/// that took.
pub(crate) fn await_rows(
    nodes: &[Haproxy],
    expected: &[(String, Seen<'_>)],
    limit: Duration,
) -> Duration {
    let begin = std::time::Instant::now();
    eventually("all rows stand as expected", limit, || {
        nodes.iter().try_for_each(|node| rows_stand(node, expected))
    });
    begin.elapsed()
}

/// Whether each of these rows of `web` stands as expected; the error lists those that do not.
pub(crate) fn rows_stand(node: &Haproxy, expected: &[(String, Seen<'_>)]) -> Result<(), String> {
    let rows = node.show_stat();
    let find = |name: &str| {
        rows.iter()
            .find(|row| row.field("pxname") == "web" && row.field("svname") == name)
            .unwrap_or_else(|| panic!("HAProxy knows no server web/{name}"))
    };
    let others: Vec<_> = expected
        .iter()
        .map(|(name, seen)| (find(name), seen))
        .filter(|(row, seen)| !stands(row, **seen))
        .map(|(row, seen)| format!("{}, expected {seen:?}", describe(row)))
        .collect();
    check(others.is_empty(), || others.join("; "))
}

fn stands(row: &Row, (status, weight): Seen<'_>) -> bool {
    row.status().starts_with(status) && weight.is_none_or(|weight| row.weight() == weight)
}

/// One row in a few words.
pub(crate) fn describe(row: &Row) -> String {
    format!(
        "{} is {} at {}, agent {} {:?}",
        row.field("svname"),
        row.status(),
        row.weight(),
        row.agent_status(),
        row.last_agt()
    )
}
