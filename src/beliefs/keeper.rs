//! Keeps what the authority knows on disk, before anybody is answered from it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::Keep;
use crate::disk::Disk;
use crate::domain::memory::Memory;
use crate::metrics::SourceCounters;

/// How long the disk may take before the new listing is put in force all the same: a dead disk
/// must not keep the fleet from following.
const SAVE_TIME_MAX: Duration = Duration::from_millis(500);

/// The pause before what could not be kept is tried again: a disk that is full stays so for a
/// while.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// Writes a memory to the disk, however long that takes.
type Save = Arc<dyn Fn(&Memory) -> io::Result<()> + Send + Sync>;

/// Keeps what the authority knows.
pub struct Keeper {
    save: Save,
    counters: Arc<SourceCounters>,
    kept: Option<Arc<Memory>>,
    /// A write that took too long, or that nobody waits for.
    writing: Option<Writing>,
    failing: bool,
    /// When the last write began.
    begun: Instant,
}

/// A write under way.
struct Writing {
    memory: Arc<Memory>,
    task: JoinHandle<Result<(), String>>,
}

impl Keeper {
    /// Keeps on this disk.
    #[must_use]
    pub fn new(disk: Disk, counters: Arc<SourceCounters>) -> Self {
        Self::saving(move |memory: &Memory| disk.save(memory), counters)
    }

    fn saving(
        save: impl Fn(&Memory) -> io::Result<()> + Send + Sync + 'static,
        counters: Arc<SourceCounters>,
    ) -> Self {
        Self {
            save: Arc::new(save),
            counters,
            kept: None,
            writing: None,
            failing: false,
            begun: Instant::now(),
        }
    }

    /// Writes a memory, unless the write before it is not over. Two at once would write into one
    /// file, and a disk that hangs would take one thread after the other, until none is left for
    /// the source. Nor is it waited for twice: each wait holds up what the peers say.
    async fn write(&mut self, memory: Arc<Memory>) -> Result<(), String> {
        let late = || Err(format!("the disk takes longer than {SAVE_TIME_MAX:?}"));
        let before = self.writing.as_ref();
        if before.is_some_and(|before| !before.task.is_finished()) {
            return late();
        }
        let mut writing = self.begin(memory);
        let Ok(outcome) = timeout(SAVE_TIME_MAX, &mut writing.task).await else {
            self.writing = Some(writing);
            return late();
        };
        self.writing = None;
        outcome.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn begin(&mut self, memory: Arc<Memory>) -> Writing {
        self.begun = Instant::now();
        let (save, written) = (Arc::clone(&self.save), Arc::clone(&memory));
        let write = move || save(&written).map_err(|error| error.to_string());
        let task = spawn_blocking(write);
        Writing { memory, task }
    }

    fn written(&mut self, memory: Arc<Memory>, outcome: Result<(), String>) {
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

#[async_trait]
impl Keep for Keeper {
    async fn keep(&mut self, memory: Arc<Memory>) {
        if self.kept.as_ref().is_some_and(|kept| kept.knows(&memory)) {
            return;
        }
        self.kept = None;
        let outcome = self.write(Arc::clone(&memory)).await;
        self.written(memory, outcome);
    }

    async fn retry(&mut self, memory: &Arc<Memory>) {
        if !self.failing {
            return;
        }
        match self.writing.take() {
            Some(writing) if writing.task.is_finished() => {
                let outcome = writing.task.await;
                let outcome = outcome.unwrap_or_else(|error| Err(error.to_string()));
                if writing.memory.knows(memory) || outcome.is_err() {
                    self.written(writing.memory, outcome);
                }
            }
            Some(writing) => self.writing = Some(writing),
            None if self.begun.elapsed() >= RETRY_EVERY => {
                self.writing = Some(self.begin(Arc::clone(memory)));
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Mutex, mpsc};

    use tokio::task::yield_now;
    use tokio::time::advance;

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

    /// The pause is over at once: time stands still unless the test moves it.
    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_kept_is_tried_again_until_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Prefix::new("frontend", "gprd").unwrap()).unwrap();
        let counters = Arc::new(SourceCounters::default());
        let mut keeper = Keeper::new(disk.clone(), Arc::clone(&counters));
        let errors = || counters.memory_errors.load(Ordering::Relaxed);
        // Something that cannot be written over stands in the way.
        let in_the_way = folder.path().join("memory.new");
        fs::create_dir(&in_the_way).unwrap();
        keeper.keep(memory(1)).await;
        keeper.retry(&memory(1)).await;
        assert!(keeper.writing.is_none(), "there is a pause");
        retry(&mut keeper).await;
        assert_eq!(errors(), 2);

        fs::remove_dir(&in_the_way).unwrap();
        retry(&mut keeper).await;
        assert_eq!(errors(), 2);
        assert!(!keeper.failing);
        let found = disk.load().unwrap().memory.unwrap();
        assert_eq!(found.listing.unwrap().index, 1);
        advance(RETRY_EVERY).await;
        keeper.retry(&memory(1)).await;
        assert!(keeper.writing.is_none(), "it is kept");
    }

    /// Lets the pause pass, and one more try come to its end.
    async fn retry(keeper: &mut Keeper) {
        advance(RETRY_EVERY).await;
        keeper.retry(&memory(1)).await;
        while !keeper.writing.as_ref().unwrap().task.is_finished() {
            yield_now().await;
        }
        keeper.retry(&memory(1)).await;
    }

    #[tokio::test]
    async fn a_disk_that_hangs_takes_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Prefix::new("frontend", "gprd").unwrap()).unwrap();
        let (comes_back, hangs) = mpsc::channel::<()>();
        let (writes, hangs) = (Arc::new(AtomicUsize::new(0)), Mutex::new(hangs));
        let save = {
            let (disk, writes) = (disk.clone(), Arc::clone(&writes));
            move |memory: &Memory| {
                writes.fetch_add(1, Ordering::Relaxed);
                // Until the sender is dropped.
                let _ = hangs.lock().unwrap().recv();
                disk.save(memory)
            }
        };
        let counters = Arc::new(SourceCounters::default());
        let mut keeper = Keeper::saving(save, Arc::clone(&counters));
        let begun = Instant::now();
        for index in 1..=3 {
            keeper.keep(memory(index)).await;
        }
        let took = begun.elapsed();
        assert!(took < SAVE_TIME_MAX * 2, "waited more than once: {took:?}");
        assert_eq!(counters.memory_errors.load(Ordering::Relaxed), 3);

        assert_eq!(writes.load(Ordering::Relaxed), 1);
        drop(comes_back);
        // The end of the write is noticed a moment later.
        while keeper.failing {
            keeper.keep(memory(3)).await;
            yield_now().await;
        }
        let found = disk.load().unwrap().memory.unwrap();
        assert_eq!(found.listing.unwrap().index, 3);
    }
}
