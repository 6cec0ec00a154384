//! The TCP server that answers HAProxy's agent checks.
//!
//! One thread per core, each with a runtime, a listener (`SO_REUSEPORT`) and an answer cache of its
//! own. Everything else of the process runs elsewhere and cannot hold an answer up.
//!
//! ```text
//! listener ──► worker: accept, read ──► desk: answer, count ──► write ──► closing: HAProxy resets
//!                  │ no line yet                ▲                          it, then it is closed
//!                  └──────────► late ───────────┘
//! ```

mod cache;
mod closing;
mod desk;
mod late;
mod listener;
mod opening;
mod places;
mod socket;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::name::Name;
use crate::domain::network::Networks;
use crate::fleet::Tallies;
use crate::metrics::WorkerCounters;
use crate::progress::Progress;
use crate::store::Store;

/// How long a request may be silent before it counts as ended. A string that was set at run time
/// cannot hold a newline. The first byte is waited for longer, [`REQUEST_TIME_MAX`], unless the place
/// is wanted: in a herd, after a lost packet, or on a machine that stood still, a node's line comes
/// late, and `unknown-request` would leave its server as it is.
pub const SILENCE: Duration = Duration::from_millis(100);
/// How long a request may take in all: HAProxy sends its line in one segment.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(1);
/// How long to wait for HAProxy's close, which then leaves no `TIME_WAIT` on either side.
pub const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
/// How long a stopping agent finishes open polls.
pub const FINISH_TIME_MAX: Duration = Duration::from_secs(1);
/// The longest that the first polls may wait for this replica's authority: a worker that waits shows
/// no sign of life.
pub const OPENING_TIME_MAX: Duration = Duration::from_secs(5);

/// How to serve.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen. Behind a passthrough balancer the destination is the balancer's address:
    /// bind all addresses.
    pub listen: SocketAddr,
    /// Number of threads.
    pub workers: usize,
    /// The most connections at once, over all workers; one more is closed without a byte, unless
    /// an answered one can make room.
    pub connections_max: usize,
    /// How an answered connection ends.
    pub close: Close,
    /// Who is answered; everybody else is closed without a byte.
    pub allow: Networks,
    /// The replica's name in answers.
    pub replica: Name,
    /// How long polls wait at the start, at most, until this replica may answer; at most
    /// [`OPENING_TIME_MAX`].
    pub opening: Duration,
}

/// How an answered connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// HAProxy resets it, and the service closes it later: nobody keeps a `TIME_WAIT`.
    Lazy,
    /// The service ends it with the answer, in one segment.
    Fin,
}

/// A bound agent that does not answer yet.
#[derive(Debug)]
pub struct Agent {
    listeners: Vec<TcpListener>,
    /// How many of them, the first, come from the process before.
    adopted: usize,
    address: SocketAddr,
    settings: Settings,
    counters: Vec<Arc<WorkerCounters>>,
    tallies: Tallies,
}

/// What the workers share.
#[derive(Debug)]
struct Shared {
    store: Arc<Store>,
    replica: Name,
    connections: AtomicUsize,
    connections_max: usize,
    workers: usize,
    close: Close,
    allow: Networks,
    opening: Duration,
    stop: CancellationToken,
}

impl Agent {
    /// One listener per worker: those that were `kept` of the process before, with the polls that
    /// wait there, as far as they are of this address and there are workers for them; the others
    /// are bound. What is kept and not taken over stops listening, whoever else holds it.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn bind(settings: Settings, kept: Vec<OwnedFd>) -> io::Result<Self> {
        let mut listeners = listener::adopt(kept, settings.listen, settings.workers)?;
        let adopted = listeners.len();
        if listeners.is_empty() {
            listener::check_free(settings.listen)?;
            listeners.push(listener::bind(settings.listen)?);
        }
        let address = listeners[0].local_addr()?;
        for _ in listeners.len()..settings.workers {
            listeners.push(listener::bind(address)?);
        }
        let counters = listeners.iter().map(|_| Arc::default()).collect();
        let tallies = Tallies::new(listeners.len());
        Ok(Self {
            listeners,
            adopted,
            address,
            settings,
            counters,
            tallies,
        })
    }

    /// The listeners that were bound by this process, for who keeps them for the next one.
    #[must_use]
    pub fn bound(&self) -> &[TcpListener] {
        &self.listeners[self.adopted..]
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counters of each worker.
    #[must_use]
    pub fn counters(&self) -> &[Arc<WorkerCounters>] {
        &self.counters
    }

    /// What each worker counts of its polls.
    #[must_use]
    pub const fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// Starts the workers, which end after `stop`. A worker that panics cancels `died`.
    ///
    /// # Errors
    /// When a thread or its runtime cannot be made.
    pub fn start(
        self,
        store: Arc<Store>,
        stop: CancellationToken,
        died: &CancellationToken,
        progress: &Progress,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let shared = Arc::new(Shared {
            store,
            replica: self.settings.replica,
            connections: AtomicUsize::new(0),
            connections_max: self.settings.connections_max,
            workers: self.settings.workers,
            close: self.settings.close,
            allow: self.settings.allow,
            opening: self.settings.opening.min(OPENING_TIME_MAX),
            stop,
        });
        let counts = self.counters.into_iter().zip(self.tallies.iter().cloned());
        let parts = self.listeners.into_iter().zip(counts).enumerate();
        parts
            .map(|(number, (listener, (counters, tally)))| {
                let worker = worker::Parts {
                    listener,
                    counters,
                    tally,
                    shared: Arc::clone(&shared),
                    died: died.clone(),
                    beat: progress.of_worker(number),
                };
                worker::start(number, worker)
            })
            .collect()
    }
}
