//! Collects and keeps, off the answering path.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Fleet, FleetFile};

/// How often the fleet is kept. 3,000 rows are 150 kB; what an unorderly end loses are the last
/// polls of rows that go on polling.
pub const SAVE_EVERY: Duration = Duration::from_secs(30);
/// How often the workers' counts are collected at least.
const COLLECT_EVERY: Duration = Duration::from_secs(1);
/// How long the disk may take at the end.
const LAST_SAVE_TIME_MAX: Duration = Duration::from_secs(2);

struct Keeper {
    fleet: Arc<Fleet>,
    file: Option<FleetFile>,
    /// A write that is not over yet. Two at once would write into one file, and a disk that hangs
    /// would take one thread after the other.
    writing: Option<JoinHandle<Result<(), String>>>,
    begun: Instant,
    failing: bool,
}

impl Fleet {
    /// Collects each second and when a worker calls, and keeps the fleet in the file, until `stop`
    /// and once more then. Polls of the moments after that are not in it.
    pub async fn run(self: Arc<Self>, file: Option<FleetFile>, stop: CancellationToken) {
        let mut keeper = Keeper {
            fleet: self,
            file,
            writing: None,
            begun: Instant::now(),
            failing: false,
        };
        let mut ticks = interval(COLLECT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = ticks.tick() => keeper.tick().await,
                () = keeper.fleet.tallies.full() => keeper.aside(Fleet::take_in).await,
            }
        }
        if timeout(LAST_SAVE_TIME_MAX, keeper.save()).await.is_err() {
            warn!("the fleet was not kept: the disk takes longer than {LAST_SAVE_TIME_MAX:?}");
        }
    }
}

impl Keeper {
    async fn tick(&mut self) {
        self.aside(Fleet::log_shared_names).await;
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish().await;
        }
        if self.begun.elapsed() >= SAVE_EVERY && self.writing.is_none() {
            self.begin();
        }
    }

    /// Waits for its end, on no thread of the runtime.
    async fn aside(&self, work: fn(&Fleet)) {
        let fleet = Arc::clone(&self.fleet);
        if let Err(error) = spawn_blocking(move || work(&fleet)).await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
    }

    /// Writes once more and waits for the end of it.
    async fn save(&mut self) {
        self.finish().await;
        self.begin();
        self.finish().await;
    }

    fn begin(&mut self) {
        let Some(file) = self.file.clone() else {
            return;
        };
        self.begun = Instant::now();
        let fleet = Arc::clone(&self.fleet);
        let write = move || {
            let kept = fleet.told(|report| file.kept(report));
            file.save(&kept).map_err(|error| error.to_string())
        };
        self.writing = Some(spawn_blocking(write));
    }

    async fn finish(&mut self) {
        let Some(writing) = self.writing.take() else {
            return;
        };
        let outcome = writing.await;
        match outcome.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(()) => {
                if self.failing {
                    info!("the fleet is kept again");
                }
                self.failing = false;
            }
            Err(error) => {
                self.fleet.save_errors.fetch_add(1, Ordering::Relaxed);
                if !self.failing {
                    warn!(%error, "the fleet cannot be kept over a restart; answering goes on");
                }
                self.failing = true;
            }
        }
    }
}
