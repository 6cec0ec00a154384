//! `tidegate set`.

use clap::Args;

use super::context::ConfigArgs;
use super::write::{Change, ScopeArgs, WriteArgs};
use super::{Exit, Failure};
use crate::config::Flags;
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::{DirectiveKey, Scope, Target};
use crate::domain::name::ServerId;

/// Set the state of servers.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// ready, drain, maint, or a percentage of the configured weight such as 40%.
    #[arg(value_name = "STATE", value_parser = state)]
    state: Desired,
    #[command(flatten)]
    rows: ServerRows,
}

/// Overrides of servers, and what it takes to change them.
#[derive(Debug, Args)]
pub(super) struct ServerRows {
    /// Servers as backend/server.
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Set {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        // One change, one id, whichever number of servers.
        let directive = self.rows.write.directive(self.state.clone());
        self.rows.apply(flags, Some(&directive))
    }
}

impl ServerRows {
    /// Writes the same override for every server, or takes each away.
    pub(super) fn apply(
        &self,
        flags: &Flags,
        directive: Option<&Directive>,
    ) -> Result<(), Failure> {
        let change = |key| Change {
            key,
            directive: directive.cloned(),
        };
        let keys = self.keys(&self.scope.scope()?)?;
        let context = self.config.open(flags)?;
        self.write
            .apply(&context, keys.into_iter().map(change).collect())
    }

    /// The keys of the overrides, each once.
    fn keys(&self, scope: &Scope) -> Result<Vec<DirectiveKey>, Failure> {
        let mut keys = Vec::new();
        for text in &self.servers {
            let id = ServerId::parse(text)
                .map_err(|error| Failure::new(Exit::Usage, format!("{text:?}: {error}")))?;
            let key = DirectiveKey {
                scope: scope.clone(),
                target: Target::Server(id),
            };
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(keys)
    }
}

/// A state in the words of a bare directive.
fn state(text: &str) -> Result<Desired, String> {
    let directive = Directive::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    if directive == Directive::bare(directive.desired.clone()) && !text.contains('{') {
        Ok(directive.desired)
    } else {
        Err("write ready, drain, maint, or a percentage such as 40%".to_owned())
    }
}
