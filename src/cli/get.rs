//! `tidegate get`.

use clap::Args;

use super::ask::tell;
use super::look::LookArgs;
use super::output::{Output, json};
use super::selector::{self, SelectorArgs};
use super::status::something;
use super::{Failure, print};
use crate::config::Flags;
use crate::domain::view::View;

/// Show the states of servers.
#[derive(Debug, Args)]
pub(super) struct Get {
    #[command(flatten)]
    selector: SelectorArgs,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    look: LookArgs,
}

impl Get {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let selector = self.selector.read()?;
        let view = selector::look(&self.look.open(flags)?, selector.as_ref())?;
        let states = view.server_states();
        let text = match self.output {
            Output::Table => states.iter().map(|state| format!("{state}\n")).collect(),
            Output::Json => json(&states),
        };
        remark(&view);
        print(&text)?;
        something(&view)
    }
}

/// What the lines cannot say goes to standard error: they are read by programs.
fn remark(view: &View) {
    let mut text = String::new();
    if view.observed_from.is_empty() {
        text += "note: these are the states that were served; for HAProxy's own word give \
                 --prometheus or --stats\n";
    }
    for missing in &view.missing {
        text += &format!("missing: {}: {}\n", missing.what, missing.why);
    }
    tell(&text);
}
