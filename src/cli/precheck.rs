//! `tidegate precheck` and `tidegate gate`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::ask::tell;
use super::look::LookArgs;
use super::output::{Output, json};
use super::selector::{self, SelectorArgs};
use super::status::span;
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::observed::Missing;
use crate::domain::view::{Gate as Answer, Precheck as Found, Stage, View};

/// Say whether a deploy may go on.
#[derive(Debug, Args)]
pub(super) struct Precheck {
    /// What is deployed.
    #[arg(long, value_enum)]
    stage: StageName,
    #[command(flatten)]
    selector: SelectorArgs,
    #[command(flatten)]
    common: Common,
}

/// Say whether the canary is up.
#[derive(Debug, Args)]
pub(super) struct Gate {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// The oldest word of HAProxy that still counts.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = span)]
    max_age: Duration,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    look: LookArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StageName {
    /// The main stage.
    Main,
    /// The canary stage.
    Cny,
}

impl Precheck {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let selector = self.selector.read()?;
        let view = selector::look(&self.common.look.open(flags)?, selector.as_ref())?;
        let stage = match self.stage {
            StageName::Main => Stage::Main,
            StageName::Cny => Stage::Cny,
        };
        let found = Found::new(&view, stage, self.common.max_age);
        print(&match self.common.output {
            Output::Table => found.to_string(),
            Output::Json => json(&found),
        })?;
        if found.passes {
            return Ok(());
        }
        remark(&view);
        let (rows, reasons) = (found.blocking.len(), found.reasons.len());
        let text = format!("the precheck blocks: {rows} rows, {reasons} other reasons");
        Err(Failure::new(Exit::Blocked, text))
    }
}

impl Gate {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let view = self.common.look.open(flags)?.view();
        let answer = Answer::new(&view, self.common.max_age);
        print(&match self.common.output {
            Output::Table => answer.to_string(),
            Output::Json => json(&answer),
        })?;
        if answer.up {
            return Ok(());
        }
        remark(&view);
        Err(Failure::new(Exit::Blocked, "the gate says no"))
    }
}

/// Who else did not answer: what the decision rests on is among its reasons already.
fn remark(view: &View) {
    for Missing { what, why } in &view.missing[..view.missing.len() - view.unseen] {
        tell(&format!("missing: {what}: {why}\n"));
    }
}
