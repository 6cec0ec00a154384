//! `tidegate serve`.

use std::sync::Arc;

use clap::Args;

use super::context::{ConfigArgs, open};
use super::{Exit, Failure};
use crate::config::Flags;
use crate::telemetry::Telemetry;

/// Run the service.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
}

impl Serve {
    pub(super) fn run(self, flags: &Flags) -> Result<(), Failure> {
        let config = self.config.load(flags)?;
        let (path, flags) = (self.config, flags.clone());
        let reread = move || path.load(&flags);
        let reread = Arc::new(reread);
        let again = Arc::clone(&reread);
        let read = move || Ok(again()?.log);
        let telemetry = Telemetry::start(&config, read)
            .map_err(|error| Failure::new(Exit::Usage, format!("log.level: {error}")))?;
        let source = open(&config)?;
        let reread = move || reread().map_err(|failure| failure.to_string());
        Ok(crate::serve::run(&config, source, &telemetry, &reread)?)
    }
}
