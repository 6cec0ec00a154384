//! `tidegate forget`.

use clap::Args;
use serde::Deserialize;

use super::context::{ConfigArgs, runtime};
use super::replica::{Replica, ReplicaArgs};
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::name::Name;

/// Forget a node that was taken away, before its day of silence is over.
#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The node's whole name, as the fleet view shows it.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    replicas: ReplicaArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Deserialize)]
struct Forgotten {
    replica: String,
    rows: usize,
}

impl Forget {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let usage = |text| Failure::new(Exit::Usage, text);
        let node = Name::parse(&self.node)
            .map_err(|error| usage(format!("{:?} is no node: {error}", self.node)))?;
        let config = || self.config.load_for_command(flags);
        let replicas = self.replicas.replicas(config)?;
        let runtime = runtime()?;
        let (mut rows, mut failed) = (0, Vec::new());
        for replica in &replicas {
            let url = &replica.url;
            match runtime.block_on(ask(replica, &node)) {
                Ok(forgotten) => {
                    rows += forgotten.rows;
                    let Forgotten { replica, rows } = forgotten;
                    print(&format!(
                        "{replica} ({url}): {rows} rows of {node} forgotten\n"
                    ))?;
                }
                Err(error) => failed.push(format!("{url}: {error}")),
            }
        }
        if !failed.is_empty() {
            return Err(Failure::new(Exit::Failed, failed.join("\n")));
        }
        if rows == 0 {
            return Err(usage(format!("no node is called {node}")));
        }
        Ok(())
    }
}

/// Asks one replica.
async fn ask(replica: &Replica, node: &Name) -> Result<Forgotten, String> {
    // A name holds nothing that a URL would have to escape.
    let path = format!("/api/v1/fleet/forget?node={node}");
    let body = replica.post(&path).await?;
    serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
}
