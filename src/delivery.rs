//! When the fleet had a change, and how far its ramps are: told in traces, and only there.
//!
//! One replica tells that a change was delivered: of those that have it, the first by slot. The
//! others look as well, and keep silent; when the first one is lost on the way, or does not come to
//! it within ten seconds, the next one tells. Two may tell only when they do not see each other. Ramps are told by every replica, as each one
//! computes them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::ramps::Ramps;
use crate::clock;
use crate::domain::fleet::Merged;
use crate::domain::name::Name;
use crate::fleet::{Fleet, Gatherer};
use crate::store::{InForce, Store};
use crate::telemetry::{self, Sighting};

pub use self::judge::{Delivered, judge};

/// How often the fleet is looked at while a change is under way, and the ramps always.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked for the first listing. A ramp that is written within that time after a
/// start counts as one that ran before.
const FIRST_LOOK_EVERY: Duration = Duration::from_millis(20);
/// For how long a change is followed. Rows ask every few seconds; one that has not asked by then
/// has an alert of its own.
const FOLLOWED_FOR: Duration = Duration::from_mins(2);
/// The most changes that are followed at once; of more, the oldest are given up.
const FOLLOWED_MAX: usize = 32;
/// The most changes that wait to be followed.
pub const WAITING_MAX: usize = 64;

/// Follows changes to the last node.
pub struct Delivery {
    replica: Name,
    store: Arc<Store>,
    fleet: Arc<Fleet>,
    others: Arc<Gatherer>,
    changes: mpsc::Receiver<InForce>,
    followed: VecDeque<InForce>,
    ramps: Ramps,
}

impl Delivery {
    /// Follows nothing yet.
    #[must_use]
    pub fn new(
        replica: Name,
        store: Arc<Store>,
        fleet: Arc<Fleet>,
        others: Arc<Gatherer>,
        changes: mpsc::Receiver<InForce>,
    ) -> Self {
        Self {
            replica,
            store,
            fleet,
            others,
            changes,
            followed: VecDeque::new(),
            ramps: Ramps::default(),
        }
    }

    /// Looks each second until `stop`. Without traces there is nobody to look for.
    pub async fn run(mut self, stop: CancellationToken) {
        if !telemetry::enabled() {
            stop.cancelled().await;
            return;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.first_look() => {}
        }
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.look() => {}
            }
        }
    }

    /// Sees which ramps run already, as soon as any can be known.
    async fn first_look(&mut self) {
        while self.store.load().snapshot.is_none() {
            sleep(FIRST_LOOK_EVERY).await;
        }
        self.look().await;
    }

    async fn look(&mut self) {
        let snapshot = self.store.load().snapshot.clone();
        if let Some(snapshot) = snapshot {
            self.ramps.look(&snapshot, clock::now());
        }
        while let Ok(change) = self.changes.try_recv() {
            if self.followed.len() >= FOLLOWED_MAX {
                self.followed.pop_front();
            }
            self.followed.push_back(change);
        }
        if self.followed.is_empty() {
            return;
        }
        let gathered = match self.others.gather().await {
            Ok(gathered) => gathered,
            Err(error) => {
                warn!(%error, "it is not known who has the change");
                return;
            }
        };
        let fleet = Arc::clone(&self.fleet);
        // It looks at every row.
        let merged = spawn_blocking(move || {
            let merged = gathered.merged(fleet.report());
            (merged, gathered.missing.len())
        });
        if let Ok((merged, missing)) = merged.await {
            self.settle(&merged, missing);
        }
    }

    /// Tells of what was delivered, and of what will not be.
    fn settle(&mut self, merged: &Merged, missing: usize) {
        let now = clock::now();
        let replica = self.replica.clone();
        self.followed.retain(|change| {
            let delivered = judge(merged, change.version, change.at, now);
            let over = now.duration_since(change.at).unsigned_abs() >= FOLLOWED_FOR;
            let told = delivered.rows_left == 0 && delivered.tells.is_some();
            if (told || over) && delivered.tells.as_ref() == Some(&replica) {
                tell(change, &delivered, missing, now);
            }
            !told && !over
        });
    }
}

fn tell(change: &InForce, delivered: &Delivered, missing: usize, now: Timestamp) {
    let all = delivered.rows_left == 0;
    let (nodes, rows, left) = (delivered.nodes, delivered.rows, delivered.rows_left);
    let last = delivered.last.as_ref();
    let sighting = Sighting {
        name: "delivered",
        begin: change.at,
        end: if all {
            last.map_or(change.at, |(at, _)| *at)
        } else {
            now
        },
        asked: &change.asked,
        attributes: vec![
            ("index", change.version.index.to_string()),
            ("generation", change.version.generation.to_string()),
            ("nodes", nodes.to_string()),
            ("rows", rows.to_string()),
            ("rows_left", left.to_string()),
            ("nodes_silent", delivered.nodes_silent.to_string()),
            ("replicas_missing", missing.to_string()),
            (
                "last_node",
                last.map(|(_, node)| node.to_string()).unwrap_or_default(),
            ),
        ],
        failed: (!all)
            .then(|| format!("{left} rows that poll were not told within {FOLLOWED_FOR:?}")),
    };
    let trace_id = sighting.tell();
    let (index, trace_id) = (change.version.index, trace_id.as_deref());
    if all {
        info!(
            index,
            nodes, rows, trace_id, "delivered to all nodes that poll"
        );
    } else {
        warn!(
            index,
            nodes, rows, left, trace_id, "not delivered to all nodes"
        );
    }
}

mod judge;
mod ramps;
