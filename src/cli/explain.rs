//! `tidegate explain`.

use clap::Args;

use super::context::ConfigArgs;
use super::output::{Output, json};
use super::{Exit, Failure, print};
use crate::clock;
use crate::config::Flags;
use crate::domain::explain::Explanation;
use crate::domain::name::Name;
use crate::domain::snapshot::Snapshot;

/// Say what a request line is answered, and why.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The line as `agent-send` writes it.
    #[arg(value_name = "REQUEST LINE")]
    request: String,
    /// Address of the node that asks; it counts when the line has no `node=`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    source: String,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Explain {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let source = Name::parse(&self.source)
            .map_err(|error| Failure::new(Exit::Usage, format!("--source: {error}")))?;
        let context = self.config.open(flags)?;
        let listing = context.block_on(context.list(&context.prefix))?;
        let snapshot = Snapshot::build(&listing).map_err(|error| {
            let text = format!("{}: nothing is answered: {error}", context.prefix);
            Failure::new(Exit::Failed, text)
        })?;
        let line = self.request.as_bytes();
        let explanation = Explanation::new(&snapshot, line, &source, &context.slot, clock::now());
        match self.output {
            Output::Table => print(&explanation.to_string()),
            Output::Json => print(&json(&explanation)),
        }
    }
}
