//! Keeps what the authority knows on disk, before anybody is answered from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::Keep;
use crate::disk::Disk;
use crate::domain::memory::Memory;
use crate::metrics::SourceCounters;

/// How long the disk may take before the new listing is put in force all the same: a dead disk
/// must not keep the fleet from following.
const SAVE_TIME_MAX: Duration = Duration::from_millis(500);

/// Keeps what the authority knows.
pub struct Keeper {
    disk: Disk,
    counters: Arc<SourceCounters>,
    kept: Option<Arc<Memory>>,
    /// A write that took too long and is not over yet.
    writing: Option<JoinHandle<Result<(), String>>>,
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
            writing: None,
            failing: false,
        }
    }

    /// Writes a memory, once the write before it is over. Two at once would write into one file,
    /// and a disk that hangs would take one thread after the other, until none is left for the
    /// source.
    async fn write(&mut self, memory: Arc<Memory>) -> Result<(), String> {
        let end = Instant::now() + SAVE_TIME_MAX;
        let late = || format!("the disk takes longer than {SAVE_TIME_MAX:?}");
        if let Some(mut before) = self.writing.take()
            && timeout_at(end, &mut before).await.is_err()
        {
            self.writing = Some(before);
            return Err(late());
        }
        let disk = self.disk.clone();
        let write = move || disk.save(&memory).map_err(|error| error.to_string());
        let mut writing = spawn_blocking(write);
        if let Ok(outcome) = timeout_at(end, &mut writing).await {
            return outcome.unwrap_or_else(|error| Err(error.to_string()));
        }
        self.writing = Some(writing);
        Err(late())
    }
}

#[async_trait]
impl Keep for Keeper {
    async fn keep(&mut self, memory: Arc<Memory>) {
        if self.kept.as_ref().is_some_and(|kept| kept.knows(&memory)) {
            return;
        }
        self.kept = None;
        match self.write(Arc::clone(&memory)).await {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read as _;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::domain::evidence::Evidence;
    use crate::domain::key::Prefix;
    use crate::domain::listing::Listing;

    fn memory(index: u64) -> Arc<Memory> {
        let entries = [].into();
        Arc::new(Memory {
            listing: Some(Arc::new(Listing { index, entries })),
            evidence: Evidence::default(),
            broken: None,
            at: jiff::Timestamp::UNIX_EPOCH,
        })
    }

    #[tokio::test]
    async fn a_disk_that_hangs_takes_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Prefix::new("frontend", "gprd").unwrap()).unwrap();
        // A pipe that nobody reads holds whoever opens it.
        let pipe = folder.path().join("memory.new");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let counters = Arc::new(SourceCounters::default());
        let mut keeper = Keeper::new(disk.clone(), Arc::clone(&counters));
        for index in 1..=3 {
            keeper.keep(memory(index)).await;
        }
        assert_eq!(counters.memory_errors.load(Ordering::Relaxed), 3);

        let reader = spawn_blocking(move || {
            let mut text = String::new();
            let mut pipe_end = File::open(&pipe).unwrap();
            fs::remove_file(&pipe).unwrap();
            pipe_end.read_to_string(&mut text).unwrap();
            text
        });
        let text = reader.await.unwrap();
        assert_eq!(text.matches("tidegate-memory").count(), 1, "{text}");
        keeper.keep(memory(3)).await;
        let found = disk.load().unwrap().memory.unwrap();
        assert_eq!(found.listing.unwrap().index, 3);
    }
}
