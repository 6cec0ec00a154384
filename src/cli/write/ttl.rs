//! When a directive ends.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::{Exit, Failure};
use crate::clock;
use crate::domain::directive::{Directive, Expiry, OnExpiry};
use crate::domain::ramp::{EVERY_MIN, SPAN_MAX};

/// When a directive ends.
#[derive(Debug, Args)]
pub(in crate::cli) struct TtlArgs {
    /// How long it stands, such as 2h; --on-expiry says what happens then.
    #[arg(long, value_name = "TIME", value_parser = span)]
    ttl: Option<Duration>,
    /// At its end it keeps standing and is shown as a problem (alert), or no longer counts (lift).
    #[arg(long, value_enum, value_name = "WHAT", requires = "ttl", default_value_t = AtEnd::Alert)]
    on_expiry: AtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AtEnd {
    Alert,
    Lift,
}

/// A time up to an end. None at all would be over before anybody was told.
pub(in crate::cli) fn span(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let fits = (EVERY_MIN..=SPAN_MAX).contains(&span);
    fits.then_some(span)
        .ok_or_else(|| "allowed are 1s to 366days".to_owned())
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
