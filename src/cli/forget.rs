//! `tidegate forget`.

use clap::Args;
use serde::Deserialize;

use super::context::ConfigArgs;
use super::replica::Replica;
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::name::Name;

/// Forget a node that was taken away, before its day of silence is over.
#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The node's whole name, as the fleet view shows it.
    #[arg(value_name = "NODE")]
    node: String,
    /// The HTTP listener of a replica on this machine, http://HOST:PORT; more than once for more
    /// than one. [default: the one of the configuration]
    #[arg(long = "replica", value_name = "URL")]
    replicas: Vec<String>,
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
        let replicas = self.replicas(flags)?;
        let (mut rows, mut failed) = (0, Vec::new());
        for replica in &replicas {
            let url = &replica.url;
            match ask(replica, &node) {
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

    /// The replicas to ask.
    fn replicas(&self, flags: &Flags) -> Result<Vec<Replica>, Failure> {
        if !self.replicas.is_empty() {
            let given = self.replicas.iter().map(|url| Replica::parse(url));
            let parsed = given.collect::<Result<Vec<_>, _>>();
            return parsed.map_err(|text| Failure::new(Exit::Usage, text));
        }
        let listen = self.config.load_for_command(flags)?.http.listen;
        Ok(vec![Replica::listening_at(listen)])
    }
}

/// Asks one replica.
fn ask(replica: &Replica, node: &Name) -> Result<Forgotten, String> {
    // A name holds nothing that a URL would have to escape.
    let body = replica.post(&format!("/api/v1/fleet/forget?node={node}"))?;
    serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
}
