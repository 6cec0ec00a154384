//! Rows that are not what they shall be.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::View;
use super::row::Row;
use super::table::{cells, names, plain};
use crate::domain::columns::aligned;
use crate::domain::observed::Missing;

const HEAD: [&str; 6] = ["SERVER", "DESIRED", "SERVED", "HAPROXY", "NODES", "WHY"];

/// The rows of a view whose three words do not agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Differences<'a> {
    /// The moment.
    pub at: Timestamp,
    /// The store's index of the listing.
    pub index: Option<u64>,
    /// How many rows were compared.
    pub compared: usize,
    /// Whom `HAProxy`'s own word comes from.
    pub observed_from: &'a [String],
    /// What could not be had.
    pub missing: &'a [Missing],
    /// Those that differ, by server and node.
    pub rows: Vec<&'a Row>,
}

impl View {
    /// The rows that are not, or not yet, what is asked for: not told the newest listing, told
    /// something else, or told and not followed by `HAProxy`.
    #[must_use]
    pub fn differences(&self) -> Differences<'_> {
        let differ = self.rows.iter().filter(|row| row.not_converged.is_some());
        Differences {
            at: self.at,
            index: self.index,
            compared: self.rows.len(),
            observed_from: &self.observed_from,
            missing: &self.missing,
            rows: differ.collect(),
        }
    }
}

impl fmt::Display for Differences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (differ, compared) = (self.rows.len(), self.compared);
        writeln!(f, "{differ} of {compared} rows differ from what is desired")?;
        if self.observed_from.is_empty() {
            writeln!(
                f,
                "HAProxy's own word: nobody (give --prometheus or --stats)"
            )?;
        }
        for missing in self.missing {
            writeln!(f, "missing  {}: {}", missing.what, missing.why)?;
        }
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut lines = BTreeMap::<_, Vec<&str>>::new();
        for row in &self.rows {
            let why = row.not_converged.as_deref().unwrap_or_default();
            let nodes = lines.entry((cells(row), why)).or_default();
            nodes.push(row.node.as_str());
        }
        let lines = lines.into_iter().map(|((cells, why), nodes)| {
            let [id, desired, served, observed, asked] = cells;
            let nodes = names(nodes.into_iter());
            let why = match asked.as_str() {
                "" => plain(why),
                asked => format!("{}; {asked}", plain(why)),
            };
            [id, desired, served, observed, nodes, why]
        });
        f.write_str(&aligned(HEAD, &lines.collect::<Vec<_>>()))
    }
}
