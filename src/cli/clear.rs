//! `tidegate clear`.

use clap::Args;

use super::Failure;
use super::context::ConfigArgs;
use super::set::ServerArgs;
use super::write::{Change, ScopeArgs, WriteArgs};
use crate::config::Flags;

/// Clear server overrides.
#[derive(Debug, Args)]
pub(super) struct Clear {
    #[command(flatten)]
    servers: ServerArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Clear {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let keys = self.servers.keys(&self.scope.scope()?)?;
        let context = self.config.open(flags)?;
        let clear = |key| Change {
            key,
            directive: None,
        };
        self.write
            .apply(&context, keys.into_iter().map(clear).collect())
    }
}
