//! `tidegate serve`.

use clap::Args;

use super::context::{ConfigArgs, open};
use super::{Exit, Failure};
use crate::config::Flags;
use crate::telemetry;

/// Run the service.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Serve {
    pub(super) fn run(self, flags: &Flags) -> Result<(), Failure> {
        let config = self.config.load(flags)?;
        let flags = flags.clone();
        let read = move || Ok(self.config.load(&flags)?.log);
        let logs = telemetry::start(&config.log, read)
            .map_err(|error| Failure::new(Exit::Usage, format!("log.level: {error}")))?;
        let source = open(&config.kv)?;
        Ok(crate::serve::run(&config, source, &logs)?)
    }
}
