//! Keeps what the authority knows on disk, before anybody is answered from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::clock;
use crate::disk::Disk;
use crate::domain::authority::Authority;
use crate::domain::memory::Memory;
use crate::metrics::SourceCounters;

/// How long the disk may take before the new listing is put in force all the same: a dead disk
/// must not keep the fleet from following.
const SAVE_TIME_MAX: Duration = Duration::from_millis(500);

/// Keeps what the authority knows.
pub struct Keeper {
    disk: Disk,
    counters: Arc<SourceCounters>,
    kept: Option<Memory>,
    failing: bool,
}

impl Keeper {
    /// Keeps on this disk.
    #[must_use]
    pub const fn new(disk: Disk, counters: Arc<SourceCounters>) -> Self {
        Self {
            disk,
            counters,
            kept: None,
            failing: false,
        }
    }

    /// Keeps what is known now, if it is other than what was kept last.
    pub(super) async fn keep(&mut self, authority: &Authority) {
        let Some(memory) = authority.memory(clock::now()) else {
            return;
        };
        if self.kept.as_ref().is_some_and(|kept| kept.knows(&memory)) {
            return;
        }
        let (disk, written) = (self.disk.clone(), memory.clone());
        let save = spawn_blocking(move || disk.save(&written).map_err(|error| error.to_string()));
        let outcome = match timeout(SAVE_TIME_MAX, save).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the disk takes longer than {SAVE_TIME_MAX:?}")),
        };
        match outcome {
            Ok(()) => {
                if self.failing {
                    info!("the listing is kept again");
                }
                self.failing = false;
                self.kept = Some(memory);
            }
            Err(error) => {
                self.counters.memory_errors.fetch_add(1, Ordering::Relaxed);
                if !self.failing {
                    warn!(%error, "the listing cannot be kept over a restart; answering goes on");
                }
                self.failing = true;
            }
        }
    }
}
