//! Load on an HAProxy frontend, and who answered it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::http;

/// A forgotten load ends by itself.
const REQUESTS_MAX: u64 = 200_000;
const REQUEST_MAX: Duration = Duration::from_secs(5);

/// Answers by the name that the backend gave, and requests that got no 200.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) by_backend: BTreeMap<String, u64>,
    pub(crate) failures: u64,
}

impl Counts {
    pub(crate) fn of(&self, backend: &str) -> u64 {
        self.by_backend.get(backend).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_backend.values().sum::<u64>() + self.failures
    }

    fn add(&mut self, other: Self) {
        for (name, count) in other.by_backend {
            *self.by_backend.entry(name).or_default() += count;
        }
        self.failures += other.failures;
    }

    fn request(&mut self, target: SocketAddr) {
        match http::request(target, "GET", "/", &[], b"", REQUEST_MAX) {
            Ok(answer) if answer.status == 200 => {
                *self.by_backend.entry(answer.text()).or_default() += 1;
            }
            Ok(_) | Err(_) => self.failures += 1,
        }
    }
}

/// Sends `count` requests, one after the other.
pub(crate) fn send(target: SocketAddr, count: u64) -> Counts {
    let mut counts = Counts::default();
    (0..count).for_each(|_| counts.request(target));
    counts
}

/// Load in the background.
pub(crate) struct Load {
    /// Dropping it stops the workers.
    stop: Vec<Sender<()>>,
    workers: Vec<JoinHandle<Counts>>,
}

impl Load {
    /// `workers` clients, each pausing for `pause` after each answer.
    pub(crate) fn start(target: SocketAddr, workers: usize, pause: Duration) -> Self {
        let (stop, workers) = (0..workers)
            .map(|_| {
                let (tx, rx) = mpsc::channel();
                (tx, std::thread::spawn(move || work(target, pause, &rx)))
            })
            .unzip();
        Self { stop, workers }
    }

    /// Ends the load and gives what was counted.
    pub(crate) fn stop(self) -> Counts {
        drop(self.stop);
        let mut counts = Counts::default();
        for worker in self.workers {
            counts.add(worker.join().expect("a worker does not panic"));
        }
        counts
    }
}

fn work(target: SocketAddr, pause: Duration, stop: &Receiver<()>) -> Counts {
    let mut counts = Counts::default();
    for _ in 0..REQUESTS_MAX {
        counts.request(target);
        if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    counts
}
