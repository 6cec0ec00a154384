//! For which polls a directive is written.

use clap::Args;

use super::Standing;
use crate::cli::{Exit, Failure};
use crate::domain::key::Scope;
use crate::domain::name::Name;

/// For which polls a directive is written.
#[derive(Debug, Args)]
pub(in crate::cli) struct ScopeArgs {
    /// Only for the polls of the nodes in this zone; the last part of its name is enough (-z b).
    #[arg(long, short, value_name = "ZONE", conflicts_with = "node")]
    zone: Option<String>,
    /// Only for the polls of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl ScopeArgs {
    /// Whether what was given are names at all.
    pub(in crate::cli) fn check(&self) -> Result<(), Failure> {
        for (flag, text) in [("--zone", &self.zone), ("--node", &self.node)] {
            if let Some(text) = text {
                name(flag, text)?;
            }
        }
        Ok(())
    }

    /// Where it is written. A zone may be shortened when the zones are known.
    pub(in crate::cli) fn within(&self, standing: &Standing) -> Result<Scope, Failure> {
        match (&self.zone, &self.node) {
            (Some(zone), _) if standing.topology.zones().is_empty() => {
                name("--zone", zone).map(Scope::Zone)
            }
            (Some(zone), _) => standing
                .topology
                .zone_named(zone)
                .map(Scope::Zone)
                .map_err(|error| Failure::new(Exit::Usage, format!("--zone: {error}"))),
            (None, Some(node)) => name("--node", node).map(Scope::Node),
            (None, None) => Ok(Scope::Fleet),
        }
    }

    /// Whether every poll is meant.
    pub(in crate::cli) const fn is_fleet(&self) -> bool {
        self.zone.is_none() && self.node.is_none()
    }
}

fn name(flag: &str, text: &str) -> Result<Name, Failure> {
    Name::parse(text).map_err(|error| Failure::new(Exit::Usage, format!("{flag}: {error}")))
}
