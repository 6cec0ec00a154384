//! What the reading commands look at: the store, the replicas, and `HAProxy` itself.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Failure;
use super::context::{ConfigArgs, Context};
use super::replica::{Replica, ReplicaArgs};
use crate::clock;
use crate::config::{Config, Flags, ObserveConfig};
use crate::domain::deploy::{self, Deploy};
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

/// What one look found.
pub(super) struct Seen {
    /// When.
    pub(super) at: Timestamp,
    /// What stands in the store.
    pub(super) stored: Option<Stored>,
    /// What the replicas were asked; `None` when none of them told.
    pub(super) fleet: Option<Merged>,
    /// The replicas that told, as each has itself and the others.
    pub(super) replicas: Vec<Replicas>,
    /// Those that did not.
    pub(super) lost: Vec<Missing>,
    /// Why the store could not be read.
    pub(super) unread: Option<Missing>,
    /// The replicas that are known of, and that nobody named.
    unasked: Option<Missing>,
    observation: Observation,
}

/// The store's listing, compiled.
pub(super) struct Stored {
    pub(super) snapshot: Snapshot,
    /// The deploy locks by stage.
    pub(super) locks: Vec<(String, Result<Deploy, String>)>,
}

/// What the replicas said.
#[derive(Default)]
struct Asked {
    reports: Vec<Report>,
    replicas: Vec<Replicas>,
    lost: Vec<Missing>,
}

/// How a replica has itself and the others: `/api/v1/replicas`.
#[derive(Deserialize)]
pub(super) struct Replicas {
    pub(super) replica: String,
    pub(super) version: String,
    pub(super) authority: String,
    pub(super) reason: String,
    pub(super) index: Option<u64>,
    pub(super) draining: bool,
    pub(super) problems: Vec<String>,
    pub(super) peers: Vec<Peer>,
}

/// One of the others.
#[derive(Deserialize)]
pub(super) struct Peer {
    pub(super) slot: String,
    pub(super) counted_as: String,
    pub(super) index: Option<u64>,
    pub(super) trouble: Option<String>,
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
        let seen = self.context.block_on(self.seen());
        seen.view(seen.stored.as_ref())
    }

    /// Waits on the same runtime.
    pub(super) fn wait(&self, span: Duration) {
        self.context.block_on(async { sleep(span).await });
    }

    /// Asks everybody at once.
    pub(super) async fn seen(&self) -> Seen {
        let (stored, asked, observation) =
            tokio::join!(self.stored(), self.asked(), observe(&self.config.observe));
        let (stored, unread) = match stored {
            Ok(stored) => (Some(stored), None),
            Err(why) => (None, Some(missing("the store", why))),
        };
        let unasked = asked.unasked(self.replicas.len());
        Seen {
            at: clock::now(),
            stored,
            fleet: asked.fleet(),
            replicas: asked.replicas,
            lost: asked.lost,
            unread,
            unasked,
            observation,
        }
    }

    async fn stored(&self) -> Result<Stored, String> {
        let prefix = &self.context.prefix;
        let listing = self.context.list(prefix).await;
        let listing = listing.map_err(|error| error.to_string())?;
        let snapshot = Snapshot::build(&listing).map_err(|error| format!("{prefix}: {error}"))?;
        Ok(Stored {
            snapshot,
            locks: deploy::locks(&listing),
        })
    }

    /// What all replicas were asked. Without any of them nothing is known of it.
    pub(super) async fn fleet(&self) -> (Option<Merged>, Vec<Missing>) {
        let asked = self.asked().await;
        let (fleet, unasked) = (asked.fleet(), asked.unasked(self.replicas.len()));
        (fleet, asked.lost.into_iter().chain(unasked).collect())
    }

    async fn asked(&self) -> Asked {
        let mut questions = JoinSet::new();
        for (at, replica) in self.replicas.iter().cloned().enumerate() {
            let prefix = self.context.prefix.clone();
            questions.spawn(async move {
                let told = ask(&replica, &prefix).await;
                let what = format!("replica {}", replica.url);
                (at, told.map_err(|why| missing(&what, why)))
            });
        }
        let mut answers = questions.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let mut asked = Asked::default();
        for (_, answer) in answers {
            match answer {
                Ok((report, replicas)) => {
                    asked.reports.push(report);
                    asked.replicas.push(replicas);
                }
                Err(missing) => asked.lost.push(missing),
            }
        }
        asked
    }
}

impl Asked {
    fn fleet(&self) -> Option<Merged> {
        let reports = self.reports.iter().cloned();
        (!self.reports.is_empty()).then(|| Merged::of(reports))
    }

    /// Those that are known of, and that nobody named.
    fn unasked(&self, named: usize) -> Option<Missing> {
        let known = self.replicas.iter().map(|told| told.peers.len() + 1);
        let all = known.max().unwrap_or(0);
        let unasked = all.saturating_sub(named);
        (unasked > 0).then(|| {
            let why = "not asked; give each by --replica, or all by peers";
            missing(&format!("{unasked} of {all} replicas"), why.to_owned())
        })
    }
}

impl Seen {
    /// The view of it, by what stands in the store or stood there before.
    pub(super) fn view(&self, stored: Option<&Stored>) -> View {
        let replicas = self.lost.iter().chain(&self.unasked);
        View::new(Parts {
            snapshot: stored.map(|stored| &stored.snapshot),
            fleet: self.fleet.as_ref(),
            observation: self.observation.clone(),
            missing: self.unread.iter().chain(replicas).cloned().collect(),
            now: self.at,
        })
    }
}

fn missing(what: &str, why: String) -> Missing {
    let what = what.to_owned();
    Missing { what, why }
}

async fn ask(replica: &Replica, prefix: &Prefix) -> Result<(Report, Replicas), String> {
    let report = replica.get("/api/v1/fleet?local=true").await?;
    let report = Report::parse(&report, prefix).map_err(|error| error.to_string())?;
    let replicas = replica.get("/api/v1/replicas").await?;
    let replicas = serde_json::from_slice(&replicas)
        .map_err(|error| format!("its answer cannot be read: {error}"))?;
    Ok((report, replicas))
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
