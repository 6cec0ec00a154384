//! The forms in which commands print what they found.

use clap::ValueEnum;
use serde::Serialize;

/// How a command prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Table,
    Json,
}

/// A value as JSON, a newline at its end.
pub(super) fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(value);
    json.expect("strings and numbers always serialise") + "\n"
}
