//! `tidegate compare`.

use std::time::Duration;

use clap::Args;

use super::look::LookArgs;
use super::output::{Output, json};
use super::selector::{self, SelectorArgs};
use super::status::span;
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::view::Compare as Compared;

/// Say whether rows in shadow mode may be switched.
#[derive(Debug, Args)]
pub(super) struct Compare {
    #[command(flatten)]
    selector: SelectorArgs,
    /// The oldest word of HAProxy that still counts.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = span)]
    max_age: Duration,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    look: LookArgs,
}

impl Compare {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let selector = self.selector.read()?;
        let view = selector::look(&self.look.open(flags)?, selector.as_ref())?;
        let compared = Compared::new(&view, self.max_age);
        print(&match self.output {
            Output::Table => compared.to_string(),
            Output::Json => json(&compared),
        })?;
        if compared.ready {
            return Ok(());
        }
        let text = match compared.hindering() {
            0 => "no row is in shadow mode".to_owned(),
            rows => format!("not ready to switch: {rows} rows"),
        };
        Err(Failure::new(Exit::Differs, text))
    }
}
