//! `tidegate forget`.

use clap::Args;
use serde::Deserialize;

use super::context::{ConfigArgs, runtime};
use super::replica::{Replica, named, of_this_machine, replicas};
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::name::Name;

/// Forget a node that was taken away, before its day of silence is over: at all replicas, which the
/// one that is asked tells.
#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The node's whole name, as the fleet view shows it.
    #[arg(value_name = "NODE")]
    node: String,
    /// The HTTP listener of a replica on this machine, http://HOST:PORT, which tells its peers; more
    /// than once for replicas that are no peers. [default: the one of the configuration]
    #[arg(long = "replica", value_name = "URL")]
    replicas: Vec<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What a replica says of itself and of the others.
#[derive(Deserialize)]
struct Forgotten {
    replicas: Vec<ForgottenAt>,
}

#[derive(Deserialize)]
struct ForgottenAt {
    replica: String,
    rows: Option<usize>,
    why: Option<String>,
}

impl Forget {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let usage = |text| Failure::new(Exit::Usage, text);
        let node = Name::parse(&self.node)
            .map_err(|error| usage(format!("{:?} is no node: {error}", self.node)))?;
        // The others forget at the word of a peer, not of a command on another machine.
        let replicas = if self.replicas.is_empty() {
            let config = self.config.load_for_command(flags)?;
            replicas(vec![of_this_machine(&config)], &config.http.access)?
        } else {
            named(&self.replicas, &self.config.replica_access(flags)?)?
        };
        let runtime = runtime()?;
        let (mut rows, mut failed) = (0, Vec::new());
        for replica in &replicas {
            match runtime.block_on(ask(replica, &node)) {
                Ok(forgotten) => rows += show(&node, forgotten, &mut failed)?,
                Err(error) => failed.push(format!("{}: {error}", replica.url)),
            }
        }
        if !failed.is_empty() {
            failed.push(format!(
                "who has not forgotten {node} shows it until it was silent for a day: run this \
                 again when all are reached"
            ));
            return Err(Failure::new(Exit::Failed, failed.join("\n")));
        }
        if rows == 0 {
            return Err(usage(format!("no node is called {node}")));
        }
        Ok(())
    }
}

/// Prints who forgot the node, and notes who did not; gives the number of rows.
fn show(node: &Name, forgotten: Forgotten, failed: &mut Vec<String>) -> Result<usize, Failure> {
    let mut sum = 0;
    for ForgottenAt { replica, rows, why } in forgotten.replicas {
        let replica = replica.escape_debug();
        if let Some(rows) = rows {
            sum += rows;
            print(&format!("{replica}: {rows} rows of {node} forgotten\n"))?;
        } else {
            let why = why.unwrap_or_else(|| "no reason is given".to_owned());
            failed.push(format!("{replica}: not forgotten: {}", why.escape_debug()));
        }
    }
    Ok(sum)
}

/// Asks one replica, which tells the others.
async fn ask(replica: &Replica, node: &Name) -> Result<Forgotten, String> {
    // A name holds nothing that a URL would have to escape.
    let path = format!("/api/v1/fleet/forget?node={node}");
    let body = replica.post(&path).await?;
    serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
}
