//! What the reading commands look at: the store, the replicas, and `HAProxy` itself.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Failure;
use super::context::{ConfigArgs, Context};
use super::replica::{Replica, ReplicaArgs};
use crate::clock;
use crate::config::{Config, Flags, ObserveConfig};
use crate::domain::fleet::{Merged, Report};
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::domain::observed::{Missing, Observation};
use crate::domain::snapshot::Snapshot;
use crate::domain::view::{Parts, View};
use crate::haproxy::socket::StatsAddress;

/// How many stats sockets are asked at once: more would only fill the network.
pub(super) const SOCKETS_AT_ONCE_MAX: usize = 32;

/// Where a reading command looks.
#[derive(Debug, Args)]
pub(super) struct LookArgs {
    #[command(flatten)]
    replicas: ReplicaArgs,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Everything that is looked at, opened.
pub(super) struct Look {
    pub(super) config: Config,
    pub(super) context: Context,
    replicas: Vec<Replica>,
}

/// What one replica said.
struct Told {
    report: Report,
    /// How many replicas it knows, itself included.
    replicas: usize,
}

#[derive(Deserialize)]
struct Replicas {
    peers: Vec<serde::de::IgnoredAny>,
}

impl LookArgs {
    /// Reads the configuration; nothing is asked yet.
    pub(super) fn open(&self, flags: &Flags) -> Result<Look, Failure> {
        let config = self.config.load_for_command(flags)?;
        let replicas = self.replicas.replicas(&config)?;
        Ok(Look {
            context: Context::new(&config)?,
            replicas,
            config,
        })
    }
}

impl Look {
    /// Asks everybody. Whoever does not answer is named in the view.
    pub(super) fn view(&self) -> View {
        self.context.block_on(self.look())
    }

    /// Waits on the same runtime.
    pub(super) fn wait(&self, span: Duration) {
        self.context.block_on(async { sleep(span).await });
    }

    async fn look(&self) -> View {
        let (snapshot, (fleet, mut missing), observation) =
            tokio::join!(self.snapshot(), self.fleet(), observe(&self.config.observe),);
        let snapshot = snapshot.map_err(|why| {
            let what = "the store".to_owned();
            missing.insert(0, Missing { what, why });
        });
        View::new(Parts {
            snapshot: snapshot.as_ref().ok(),
            fleet: fleet.as_ref(),
            observation,
            missing,
            now: clock::now(),
        })
    }

    async fn snapshot(&self) -> Result<Snapshot, String> {
        let prefix = &self.context.prefix;
        let listing = self.context.list(prefix).await;
        let listing = listing.map_err(|error| error.to_string())?;
        Snapshot::build(&listing).map_err(|error| format!("{prefix}: {error}"))
    }

    /// What all replicas were asked. Without any of them nothing is known of it.
    pub(super) async fn fleet(&self) -> (Option<Merged>, Vec<Missing>) {
        let mut questions = JoinSet::new();
        for (at, replica) in self.replicas.iter().cloned().enumerate() {
            let prefix = self.context.prefix.clone();
            questions.spawn(async move {
                let told = ask(&replica, &prefix).await;
                (at, told.map_err(|why| missing(&replica, why)))
            });
        }
        let mut answers = questions.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let (mut reports, mut all, mut lost) = (Vec::new(), 0, Vec::new());
        for (_, answer) in answers {
            match answer {
                Ok(told) => {
                    all = all.max(told.replicas);
                    reports.push(told.report);
                }
                Err(missing) => lost.push(missing),
            }
        }
        let not_asked = all.saturating_sub(self.replicas.len());
        if not_asked > 0 {
            lost.push(Missing {
                what: format!("{not_asked} of {all} replicas"),
                why: "not asked; give each by --replica, or all by peers".to_owned(),
            });
        }
        let fleet = (!reports.is_empty()).then(|| Merged::of(reports));
        (fleet, lost)
    }
}

fn missing(replica: &Replica, why: String) -> Missing {
    let what = format!("replica {}", replica.url);
    Missing { what, why }
}

async fn ask(replica: &Replica, prefix: &Prefix) -> Result<Told, String> {
    let report = replica.get("/api/v1/fleet?local=true").await?;
    let report = Report::parse(&report, prefix).map_err(|error| error.to_string())?;
    let replicas = replica.get("/api/v1/replicas").await?;
    let replicas: Replicas = serde_json::from_slice(&replicas)
        .map_err(|error| format!("its answer cannot be read: {error}"))?;
    Ok(Told {
        report,
        replicas: replicas.peers.len() + 1,
    })
}

/// Asks Prometheus and every stats socket.
pub(super) async fn observe(sources: &ObserveConfig) -> Observation {
    let permits = Arc::new(Semaphore::new(SOCKETS_AT_ONCE_MAX));
    let mut questions = JoinSet::new();
    for (node, address) in sources.stats.clone() {
        let permits = Arc::clone(&permits);
        questions.spawn(async move {
            // It is closed by nobody.
            let _permit = permits.acquire_owned().await;
            show_stat(node, &address).await
        });
    }
    let mut observation = match &sources.prometheus {
        Some(prometheus) => prometheus.observe().await,
        None => Observation::default(),
    };
    let mut sockets = questions.join_all().await;
    sockets.sort_by(|one, other| one.sources.cmp(&other.sources));
    for seen in sockets {
        observation.add(seen);
    }
    observation
}

async fn show_stat(node: Name, address: &StatsAddress) -> Observation {
    let what = format!("stats of {node}");
    let mut observation = Observation {
        sources: vec![what.clone()],
        ..Observation::default()
    };
    match address.show_stat().await {
        Ok(seen) => {
            observation.nodes.insert(node, seen);
        }
        Err(error) => {
            let why = error.to_string();
            observation.missing.push(Missing { what, why });
        }
    }
    observation
}
