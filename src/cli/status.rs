//! `tidegate status`.

mod picture;
mod watch;

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::look::LookArgs;
use super::output::json;
use super::selector::{self, SelectorArgs};
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::view::{View, chatops};

/// Show what is desired, what was served, and what HAProxy has.
#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    selector: SelectorArgs,
    /// How to print it; chatops is the canary's block for chat.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    /// Look again and again, each TIME (2s unless given), until Ctrl-C. A terminal is drawn anew
    /// with what the status page shows, a ramp as a bar; elsewhere (and where TERM is dumb) the
    /// first look is written whole and then a line for each change. As JSON each look that differs
    /// is a line.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = interval
    )]
    watch: Option<Duration>,
    #[command(flatten)]
    look: LookArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
    Chatops,
}

/// How often one may look: each look asks the store, the replicas and HAProxy.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

impl Status {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let selector = self.selector.read()?;
        let look = self.look.open(flags)?;
        if let Some(interval) = self.watch {
            return watch::watch(&look, selector.as_ref(), self.output, interval);
        }
        let view = selector::look(&look, selector.as_ref())?;
        print(&self.output.of(&view))?;
        something(&view)
    }
}

impl Output {
    fn of(self, view: &View) -> String {
        match self {
            Self::Table => view.to_string(),
            Self::Json => json(view),
            Self::Chatops => chatops(view.rows.iter().filter(|row| row.canary)),
        }
    }
}

/// Nothing at all is no answer.
pub(super) fn something(view: &View) -> Result<(), Failure> {
    if view.index.is_some() || !view.rows.is_empty() {
        return Ok(());
    }
    let missing: String = selector::missing(view).collect();
    let text = format!("nothing could be had{missing}");
    Err(Failure::new(Exit::Unreachable, text))
}

/// A time such as `2m`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write a time such as 90s"))
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = span(text)?;
    if interval < INTERVAL_MIN {
        return Err(format!("at least {INTERVAL_MIN:?}"));
    }
    Ok(interval)
}
