//! The short names of the two environments.

use clap::Args;

/// The two environments by their short names.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "environment")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag each, at most one of them given"
)]
pub(in crate::cli) struct EnvironmentArgs {
    /// The environment gprd.
    #[arg(long)]
    gprd: bool,
    /// The environment gprd.
    #[arg(long)]
    production: bool,
    /// The environment gstg.
    #[arg(long)]
    gstg: bool,
    /// The environment gstg.
    #[arg(long)]
    staging: bool,
}

impl EnvironmentArgs {
    pub(in crate::cli) const fn name(&self) -> Option<&'static str> {
        if self.gprd || self.production {
            Some("gprd")
        } else if self.gstg || self.staging {
            Some("gstg")
        } else {
            None
        }
    }
}
