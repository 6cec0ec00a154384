//! One thread that accepts and answers.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cache::{Cache, Rendered};
use super::{FINISH_TIME_MAX, Shared, connection};
use crate::clock;
use crate::domain::fleet::{Identity, Told};
use crate::domain::request::Request;
use crate::fleet::Tally;
use crate::metrics::{Silence, WorkerCounters};
use crate::progress::Beat;

/// The pause after a failure of accept: descriptors come back when connections close, at the
/// latest when their time is over.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How often a worker shows a sign of life.
const BEAT: Duration = Duration::from_secs(1);

/// What the connections of one worker share.
pub(super) struct Worker {
    shared: Arc<Shared>,
    pub(super) counters: Arc<WorkerCounters>,
    tally: Arc<Tally>,
    cache: RefCell<Cache>,
}

/// An answer, and when it was given.
pub(super) struct Reply {
    pub(super) rendered: Rendered,
    at: Timestamp,
}

/// A place among the connections that may be open at once.
struct Permit(Rc<Worker>);

/// What one worker is made of.
pub(super) struct Parts {
    pub(super) listener: std::net::TcpListener,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) tally: Arc<Tally>,
    pub(super) shared: Arc<Shared>,
    /// Cancelled when the worker ends without being told to.
    pub(super) died: CancellationToken,
    pub(super) beat: Beat,
}

/// Starts the thread.
pub(super) fn start(number: usize, parts: Parts) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || LocalSet::new().block_on(&runtime, serve(parts));
    std::thread::Builder::new()
        .name(format!("agent-{number}"))
        .spawn(run)
}

/// Accepts until stopped, then lets open polls finish.
async fn serve(parts: Parts) {
    let end_of_part = parts.died.drop_guard();
    let listener = match TcpListener::from_std(parts.listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the agent's listener cannot be used");
            return;
        }
    };
    let cache = RefCell::new(Cache::new(parts.shared.replica.clone()));
    let worker = Rc::new(Worker {
        shared: parts.shared,
        counters: parts.counters,
        tally: parts.tally,
        cache,
    });
    let polls = TaskTracker::new();
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = worker.shared.stop.cancelled() => break,
            _ = beats.tick() => parts.beat.now(),
            accepted = listener.accept() => match accepted {
                Ok((stream, source)) => worker.take(stream, source, &polls),
                Err(error) => {
                    worker.counters.accept_errors.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%error, "accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    polls.close();
    // Connections that only wait for HAProxy's close are no loss.
    let _ = timeout(FINISH_TIME_MAX, polls.wait()).await;
    end_of_part.disarm();
}

impl Worker {
    fn take(self: &Rc<Self>, stream: TcpStream, source: SocketAddr, polls: &TaskTracker) {
        match self.permit() {
            Some(permit) => {
                let poll = async move {
                    connection::serve(&permit.0, stream, source.ip()).await;
                };
                polls.spawn_local(poll);
            }
            None => self.counters.silent(Silence::OverLimit),
        }
    }

    fn permit(self: &Rc<Self>) -> Option<Permit> {
        let shared = &self.shared;
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= shared.connections_max {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.counters.open.fetch_add(1, Ordering::Relaxed);
        Some(Permit(Rc::clone(self)))
    }

    /// The answer to a request line; `None` when this replica must be silent now.
    pub(super) fn answer(&self, line: &[u8], source: IpAddr) -> Option<Reply> {
        let published = self.shared.store.load();
        let snapshot = published.answering(clock::moment())?;
        let at = clock::now();
        let mut cache = self.cache.borrow_mut();
        let rendered = cache.answer(snapshot, line, source, at);
        Some(Reply { rendered, at })
    }

    /// A poll was told its answer.
    pub(super) fn told(&self, reply: &Reply) {
        let Rendered {
            answer,
            version,
            identity,
            ..
        } = &reply.rendered;
        self.counters.answered(*answer);
        if let Some(identity) = identity {
            let (at, version, answer) = (reply.at, *version, *answer);
            let told = Told {
                at,
                version,
                answer,
            };
            self.tally.record(identity, at, Some(told));
        }
    }

    /// A poll did not get its answer.
    pub(super) fn not_told(&self, reply: &Reply, why: Silence) {
        self.counters.silent(why);
        if let Some(identity) = &reply.rendered.identity {
            self.tally.record(identity, reply.at, None);
        }
    }

    /// A poll was closed because this replica must be silent: a node that asks is there all the
    /// same, and not shown as silent itself.
    pub(super) fn no_authority(&self, line: &[u8], source: IpAddr) {
        self.counters.silent(Silence::NoAuthority);
        if let Ok(request) = Request::parse(line) {
            let identity = Arc::new(Identity::new(&request, source));
            self.tally.record(&identity, clock::now(), None);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.counters.open.fetch_sub(1, Ordering::Relaxed);
        self.0.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
