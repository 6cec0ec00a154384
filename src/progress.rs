//! Signs of life of the parts that must never stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock;
use crate::domain::authority::Moment;

/// How long a part may be without progress. A worker shows one each second; the watcher after
/// each read, of which the longest (a blocking one) takes 7 s.
pub const STALL: Duration = Duration::from_secs(15);

/// The signs of life of all parts.
#[derive(Debug, Clone)]
pub struct Progress(Arc<[Part]>);

/// One part's hold on its sign of life.
#[derive(Debug, Clone)]
pub struct Beat {
    parts: Arc<[Part]>,
    at: usize,
}

#[derive(Debug)]
struct Part {
    name: String,
    /// Milliseconds of the monotonic clock.
    last: AtomicU64,
}

impl Progress {
    /// The watcher, and this many workers; all show a sign of life now.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let names = (0..workers).map(|number| format!("agent-{number}"));
        let part = |name| Part {
            name,
            last: AtomicU64::new(millis(clock::moment())),
        };
        Self(
            std::iter::once("watch".to_owned())
                .chain(names)
                .map(part)
                .collect(),
        )
    }

    /// The watcher's.
    #[must_use]
    pub fn of_the_watcher(&self) -> Beat {
        self.of(0)
    }

    /// A worker's, counted from 0.
    ///
    /// # Panics
    /// When there are fewer workers.
    #[must_use]
    pub fn of_worker(&self, number: usize) -> Beat {
        self.of(number + 1)
    }

    /// The first part without progress for longer than [`STALL`].
    #[must_use]
    pub fn stalled(&self, now: Moment) -> Option<&str> {
        let stands = |part: &&Part| {
            let last = Moment(Duration::from_millis(part.last.load(Ordering::Relaxed)));
            now.since(last) > STALL
        };
        self.0.iter().find(stands).map(|part| part.name.as_str())
    }

    fn of(&self, at: usize) -> Beat {
        assert!(at < self.0.len(), "every part has its place");
        let parts = Arc::clone(&self.0);
        Beat { parts, at }
    }
}

impl Beat {
    /// There is progress.
    pub fn now(&self) {
        self.at(clock::moment());
    }

    fn at(&self, moment: Moment) {
        self.parts[self.at]
            .last
            .store(millis(moment), Ordering::Relaxed);
    }
}

fn millis(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_stands_still_is_named() {
        let progress = Progress::new(2);
        let start = clock::moment();
        let later = |span: Duration| Moment(start.0 + span);
        assert_eq!(progress.stalled(later(STALL / 2)), None);
        let late = later(STALL * 2);
        assert_eq!(progress.stalled(late), Some("watch"));
        progress.of_the_watcher().at(late);
        progress.of_worker(0).at(late);
        assert_eq!(progress.stalled(late), Some("agent-1"));
        progress.of_worker(1).at(late);
        assert_eq!(progress.stalled(late), None);
    }
}
