//! What becomes of a reading.

use std::collections::BTreeMap;

use super::Refusal;

/// What to do with a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// In force; `changed` when its contents are other than before.
    Accepted {
        /// Whether the contents differ from those in force before.
        changed: bool,
    },
    /// Ask the source these things, then hand the reading to [`super::Authority::examined`].
    Examine(Questions),
    /// Not believed. A full read without an index comes next.
    Refused,
}

/// What is asked before a doubtful reading is believed; the table-wide index always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Questions {
    /// Vanished paths to ask for by name.
    pub paths: Vec<String>,
}

/// The source's answers to [`Questions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The paths that were asked for.
    pub asked: Vec<String>,
    /// The table-wide index.
    pub table_index: u64,
    /// The first path that may not be read.
    pub denied: Option<Refusal>,
    /// The paths that are there after all, with their modify indexes.
    pub present: BTreeMap<String, u64>,
}
