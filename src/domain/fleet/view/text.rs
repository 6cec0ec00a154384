//! The same view as a table for a terminal.

use jiff::Timestamp;

use super::{NodeView, ReplicaView, RowView, View, WireVersion};
use crate::domain::columns::aligned;
use crate::domain::fleet::span;

const REPLICA_COLUMNS: [&str; 3] = ["REPLICA", "NEWEST INDEX", "REPORT"];
const ROW_COLUMNS: [&str; 9] = [
    "NODE",
    "ZONE",
    "SERVER",
    "STATE",
    "ANSWER",
    "INDEX",
    "LAST POLL",
    "POLLS",
    "UNANSWERED",
];
/// What stands where there is nothing to say.
const NOTHING: &str = "-";

impl View {
    /// Plain text: the numbers, the replicas, the problems, and a line for each row.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = self.summary();
        text.push('\n');
        let replicas: Vec<_> = self.replicas.iter().map(ReplicaView::cells).collect();
        text += &aligned(REPLICA_COLUMNS, &replicas);
        if !self.problems.is_empty() {
            text.push('\n');
        }
        for problem in &self.problems {
            text += &format!("{}: {}\n", problem.kind, problem.text);
        }
        text.push('\n');
        let nodes = self.nodes.iter();
        let rows: Vec<_> = nodes.flat_map(|node| node.cells(self.at)).collect();
        text += &aligned(ROW_COLUMNS, &rows);
        if self.rows_left_out > 0 {
            let left_out = self.rows_left_out;
            text += &format!("{left_out} more rows: keep to some with node= and server=\n");
        }
        text
    }

    fn summary(&self) -> String {
        let totals = &self.totals;
        let newest = self.newest.as_ref().map_or_else(
            || "no listing in force".to_owned(),
            |WireVersion {
                 epoch,
                 r#gen,
                 index,
             }| {
                format!("newest listing: index {index}, epoch {epoch}, generation {gen}")
            },
        );
        let incomplete = if self.complete {
            ""
        } else {
            "; INCOMPLETE: not every replica has reported"
        };
        format!(
            "{} nodes, {} silent; {} rows, {} silent, {} behind; {newest}{incomplete}\n",
            totals.nodes, totals.nodes_silent, totals.rows, totals.rows_silent, totals.rows_behind,
        )
    }
}

impl ReplicaView {
    fn cells(&self) -> [String; 3] {
        let report = match &self.why {
            // It may hold what a peer sent.
            Some(why) => format!("missing: {}", why.escape_debug()),
            None => self.at.map_or_else(String::new, |at| at.to_string()),
        };
        [self.replica.clone(), index(self.newest.as_ref()), report]
    }
}

impl NodeView {
    fn cells(&self, now: Timestamp) -> impl Iterator<Item = [String; 9]> {
        let zones = match &self.zones[..] {
            [] => NOTHING.to_owned(),
            zones => zones.join(","),
        };
        let row = move |row: &RowView| {
            let ago = span(row.last_poll, now).as_secs_f64();
            [
                self.node.clone(),
                zones.clone(),
                row.server.clone(),
                row.state().to_owned(),
                row.answer.clone().unwrap_or_else(|| NOTHING.to_owned()),
                index(row.told.as_ref()),
                format!("{ago:.1} s ago"),
                row.polls.to_string(),
                row.unanswered.to_string(),
            ]
        };
        self.rows.iter().map(row)
    }
}

impl RowView {
    const fn state(&self) -> &'static str {
        match (self.silent, self.behind) {
            (true, true) => "silent, behind",
            (true, false) => "silent",
            (false, true) => "behind",
            (false, false) => "ok",
        }
    }
}

fn index(version: Option<&WireVersion>) -> String {
    version.map_or_else(|| NOTHING.to_owned(), |version| version.index.to_string())
}
