//! `tidegate canary`.

use std::time::Duration;

use clap::Args;

use super::context::ConfigArgs;
use super::write::{Change, ScopeArgs, WriteArgs};
use super::{Exit, Failure};
use crate::config::Flags;
use crate::domain::answer::{Percent, State};
use crate::domain::directive::{Desired, Directive, Plan};
use crate::domain::key::{CANARY, DirectiveKey, Scope, Target};
use crate::domain::name::Name;

/// How long `--disable` drains before maintenance.
const DISABLE_AFTER: Duration = Duration::from_mins(1);

/// Set the state of the canary group.
#[derive(Debug, Args)]
pub(super) struct Canary {
    #[command(flatten)]
    environment: EnvironmentArgs,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// The short names of the two environments.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "environment")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag each, at most one of them given"
)]
struct EnvironmentArgs {
    /// The environment gprd.
    #[arg(long)]
    gprd: bool,
    /// The environment gprd.
    #[arg(long)]
    production: bool,
    /// The environment gstg.
    #[arg(long)]
    gstg: bool,
    /// The environment gstg.
    #[arg(long)]
    staging: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag each, exactly one of them given"
)]
struct Wanted {
    /// Takes traffic.
    #[arg(long)]
    ready: bool,
    /// The same as --ready.
    #[arg(long)]
    enable: bool,
    /// Finishes what it has, gets nothing new.
    #[arg(long)]
    drain: bool,
    /// Out of service, at once.
    #[arg(long)]
    maint: bool,
    /// Drain, and maintenance after 60 s. It is a plan in the KV: no client has to stay alive.
    #[arg(long)]
    disable: bool,
    /// Take the directive of --zone or --node away again: its nodes follow the fleet's.
    #[arg(long)]
    clear: bool,
}

impl Canary {
    pub(super) fn run(self, flags: Flags) -> Result<(), Failure> {
        let flags = match self.environment.name() {
            Some(name) => flags.with("environment", name),
            None => flags,
        };
        let target = Target::Group(Name::parse(CANARY).expect("the canary's name is a name"));
        let key = DirectiveKey {
            scope: self.scope.scope()?,
            target,
        };
        if self.wanted.clear && key.scope == Scope::Fleet {
            let text = "--clear needs --zone or --node: without its own key the group would freeze";
            return Err(Failure::new(Exit::Usage, text));
        }
        let context = self.config.open(&flags)?;
        let directive = (!self.wanted.clear).then(|| self.wanted.directive(&self.write));
        self.write.apply(&context, vec![Change { key, directive }])
    }
}

impl EnvironmentArgs {
    const fn name(&self) -> Option<&'static str> {
        if self.gprd || self.production {
            Some("gprd")
        } else if self.gstg || self.staging {
            Some("gstg")
        } else {
            None
        }
    }
}

impl Wanted {
    fn directive(&self, write: &WriteArgs) -> Directive {
        let desired = if self.ready || self.enable {
            Desired::Ready {
                weight: Percent::FULL,
                ramp: None,
            }
        } else if self.maint {
            Desired::Maint
        } else {
            Desired::Drain
        };
        let then = self.disable.then_some(Plan {
            state: State::Maint,
            after: DISABLE_AFTER,
        });
        Directive {
            then,
            ..write.directive(desired)
        }
    }
}
