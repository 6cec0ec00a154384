//! `tidegate clear`.

use clap::Args;

use super::Failure;
use super::set::ServerRows;
use crate::config::Flags;

/// Clear server overrides.
#[derive(Debug, Args)]
pub(super) struct Clear {
    #[command(flatten)]
    rows: ServerRows,
}

impl Clear {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        self.rows.apply(flags, None)
    }
}
