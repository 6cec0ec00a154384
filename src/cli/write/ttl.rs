//! When a directive ends.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::{Exit, Failure};
use crate::clock;
use crate::domain::directive::{Directive, Expiry, OnExpiry};

/// When a directive ends.
#[derive(Debug, Args)]
pub(in crate::cli) struct TtlArgs {
    /// When it ends; see --on-expiry.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
    /// What happens at its end: it keeps standing and is shown as a problem, or no longer counts.
    #[arg(long, value_enum, requires = "ttl", default_value_t = AtEnd::Alert)]
    on_expiry: AtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AtEnd {
    Alert,
    Lift,
}

impl TtlArgs {
    /// A directive with this end.
    pub(in crate::cli) fn on(&self, directive: Directive) -> Result<Directive, Failure> {
        let Some(ttl) = self.ttl else {
            return Ok(directive);
        };
        let until = clock::now().checked_add(ttl);
        let until = until.map_err(|error| Failure::new(Exit::Usage, format!("--ttl: {error}")))?;
        let on_expiry = match self.on_expiry {
            AtEnd::Alert => OnExpiry::Alert,
            AtEnd::Lift => OnExpiry::Lift,
        };
        let expiry = Some(Expiry { until, on_expiry });
        Ok(Directive {
            expiry,
            ..directive
        })
    }
}
