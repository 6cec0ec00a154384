//! The service: binds, starts every part, and stops them in order.

mod access;
mod notify;
mod peers;
mod signals;
mod token;

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, error, info, warn};

use self::signals::{Order, Signals};
use crate::agent::{self, Agent};
use crate::beliefs::{Beliefs, Keep, Keeper};
use crate::clock::{self, SystemClock};
use crate::config::{AgentClose, Config};
use crate::delivery::{self, Delivery};
use crate::disk::Disk;
use crate::domain::authority::{Authority, Times};
use crate::domain::key::Prefix;
use crate::domain::memory::Memory;
use crate::fleet::{self, Fleet, FleetFile, Gatherer, Whole};
use crate::http::{self, Access, Pages};
use crate::kv::source::Source;
use crate::metrics::{Metrics, PeerCounters, Shown, SourceCounters};
use crate::progress::Progress;
use crate::store::{InForce, Store};
use crate::telemetry::{self, Telemetry};
use crate::watch::{self, Watcher};

/// Descriptors kept for everything that is not an agent connection: the source, HTTP, files.
const DESCRIPTORS_RESERVED: u64 = 256;

/// The queue of HTTP connections not yet accepted. Where it overflows, a probe or a peer's question
/// waits a second for the next try of its machine, and then it is too late. The kernel cuts it to
/// net.core.somaxconn.
const HTTP_BACKLOG: i32 = 4_096;

/// Bound sockets: nothing answers yet.
struct Bound {
    agent: Agent,
    http: TcpListener,
}

/// Everything that runs.
struct Parts {
    source: Arc<Source>,
    beliefs: Arc<Beliefs>,
    access: Access,
    asker: JoinHandle<()>,
    watcher: JoinHandle<()>,
    pages: JoinHandle<io::Result<()>>,
    /// Held open until the agent has stopped, also when the HTTP part alone dies: to the peers, a
    /// port that refuses is a process that answers no poll.
    port: TcpListener,
    fleet: JoinHandle<()>,
    delivery: JoinHandle<()>,
    token: JoinHandle<()>,
    workers: Vec<thread::JoinHandle<()>>,
    tokens: Tokens,
}

/// The tokens by which parts are stopped and tell of their end.
#[derive(Clone, Default)]
struct Tokens {
    /// Stopping has begun: readiness is off.
    stopping: CancellationToken,
    /// Keep the fleet a last time.
    fleet: CancellationToken,
    /// Stop accepting agent checks.
    agent: CancellationToken,
    /// Stop everything else.
    rest: CancellationToken,
    /// An agent worker ended by itself.
    agent_died: CancellationToken,
}

/// Runs the service until it is told to stop.
///
/// # Errors
/// When something cannot be bound or opened, or a part dies: the text names it.
pub fn run(
    config: &Config,
    source: Source,
    telemetry: &Telemetry,
    reread: &dyn Fn() -> Result<Config, String>,
) -> anyhow::Result<()> {
    let connections_max = fit_descriptors(config.agent.connections_max)?;
    let bound = bind(config, connections_max)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .context("the control runtime cannot be made")?;
    let outcome = runtime.block_on(serve(config, source, bound, telemetry, reread));
    // What still runs was given its time, or a second signal cut it short.
    runtime.shutdown_background();
    outcome
}

fn bind(config: &Config, connections_max: usize) -> anyhow::Result<Bound> {
    let settings = agent::Settings {
        listen: config.agent.listen,
        workers: config.agent.workers,
        connections_max,
        close: match config.agent.close {
            AgentClose::Lazy => agent::Close::Lazy,
            AgentClose::Fin => agent::Close::Fin,
        },
        allow: config.agent.allow.clone(),
        replica: config.slot.clone(),
        // HAProxy gives a poll up after its agent-inter, unless its `timeout check` says more.
        opening: config.poll_interval,
    };
    // To its peers, a replica whose port refuses answers no poll: it opens first.
    let http = TcpListener::bind(config.http.listen)
        .and_then(|listener| {
            // Again, with a longer queue than the standard library's.
            rustix::net::listen(&listener, HTTP_BACKLOG)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })
        .with_context(|| format!("http.listen: {} cannot be bound", config.http.listen))?;
    // The HTTP listener is not kept: its peers, and balancers, must see that no process runs.
    let agent = Agent::bind(settings, notify::kept()?)
        .with_context(|| format!("agent.listen: {} cannot be bound", config.agent.listen))?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        prefix = %config.prefix,
        kv = %config.kv,
        agent = %agent.address(),
        http = %http.local_addr()?,
        "listening"
    );
    notify::keep(agent.bound());
    Ok(Bound { agent, http })
}

async fn serve(
    config: &Config,
    source: Source,
    bound: Bound,
    telemetry: &Telemetry,
    reread: &dyn Fn() -> Result<Config, String>,
) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("signals cannot be received")?;
    let progress = Progress::new(bound.agent.counters().len());
    let mut parts = Parts::start(config, source, bound, &progress, telemetry)?;
    notify::ready();
    let watchdog = tokio::spawn(notify::feed(progress));

    let outcome = loop {
        tokio::select! {
            biased;
            order = signals.next() => match order {
                Order::Reload => {
                    let read_anew = async {
                        reload(&parts.source, telemetry).await;
                        access::reload(config, &parts.access);
                        peers::reload(config, reread(), &parts.access.peers, &parts.beliefs).await;
                    };
                    read_anew.instrument(telemetry::reload()).await;
                }
                order @ (Order::Terminate | Order::Interrupt) => break Ok(order),
            },
            died = parts.died() => break Err(died),
        }
    };
    let span = stop_span(&outcome);
    span.in_scope(|| match &outcome {
        Ok(order) => info!(signal = order.name(), "stopping"),
        Err(error) => error!(%error, "stopping"),
    });
    notify::stopping();
    // Whoever presses Ctrl-C, and a part that is dead, let no balancer wait.
    let drains = matches!(outcome, Ok(Order::Terminate));
    let drain_for = if drains {
        config.drain_for
    } else {
        Duration::ZERO
    };
    tokio::select! {
        biased;
        () = end(parts, drain_for, span, telemetry) => {}
        () = signals.end() => warn!("second signal: ending at once"),
    }
    watchdog.abort();
    outcome.map(|_| ())
}

/// Stops everything. The last traces go while polls are still answered: a collector that hangs must
/// not lengthen the time in which they wait for the next process.
async fn end(parts: Parts, drain_for: Duration, span: Span, telemetry: &Telemetry) {
    parts.drain(drain_for).instrument(span).await;
    telemetry.flush().await;
    parts.stop().await;
    info!("stopped");
}

fn stop_span(outcome: &anyhow::Result<Order>) -> Span {
    match outcome {
        Ok(order) => telemetry::stop(order.name()),
        Err(error) => {
            let span = telemetry::stop("a part ended");
            telemetry::failed(&span, &error.to_string());
            span
        }
    }
}

impl Parts {
    fn start(
        config: &Config,
        source: Source,
        bound: Bound,
        progress: &Progress,
        telemetry: &Telemetry,
    ) -> anyhow::Result<Self> {
        let (tokens, source) = (Tokens::default(), Arc::new(source));
        let times = Times::from_poll_interval(config.poll_interval);
        let counters = Arc::new(SourceCounters::default());
        let (follower, changes) = mpsc::channel(delivery::WAITING_MAX);
        let beliefs = believe(config, times, &counters, follower)?;
        let store = Arc::clone(beliefs.store());
        let watcher = watcher(config, times, &source, &beliefs, &counters);
        let watcher = watcher.run(tokens.rest.clone(), progress.of_the_watcher());
        let (fleet, kept) = fleet(config, &store, &bound.agent)?;
        let access = access::read(config)?;
        let peer_counters = Arc::new(PeerCounters::new(peers::slots(config)));
        let identity = Arc::new(peers::identity(config));
        let asker = peers::asker(
            config,
            Arc::clone(&identity),
            Arc::clone(&beliefs),
            Arc::clone(&access.peers),
            Arc::clone(&peer_counters),
        )?;
        let others = peers::gatherer(config, Arc::clone(&identity), Arc::clone(&access.peers))?;
        let others = Arc::new(others);
        let whole = Arc::new(Whole::new(Arc::clone(&fleet), Arc::clone(&others)));
        let delivery = delivery(config, &store, &fleet, &others, changes);
        let metrics = Metrics::new(Shown {
            store: Arc::clone(&store),
            workers: bound.agent.counters().to_vec(),
            source: counters,
            expiries: source.expiries(),
            fleet: Arc::clone(&fleet),
            whole: Arc::clone(&whole),
            peers: peer_counters,
            identity: Arc::clone(&identity),
            spans: telemetry.counters(),
            began: clock::now(),
        });
        let pages = Pages {
            store: Arc::clone(&store),
            metrics: Arc::new(metrics),
            fleet: Arc::clone(&fleet),
            others,
            whole,
            replica: config.slot.clone(),
            identity,
            access: access.clone(),
            stopping: tokens.stopping.clone(),
        };
        let port = bound.http.try_clone()?;
        let listener = tokio::net::TcpListener::from_std(bound.http)?;
        // Open before the agent's port, and closed after it: whoever is polled can be asked.
        let pages = tokio::spawn(http::serve(listener, pages, tokens.rest.clone()));
        let workers = bound
            .agent
            .start(store, tokens.agent.clone(), &tokens.agent_died, progress)
            .context("the agent's threads cannot be started")?;
        Ok(Self {
            beliefs,
            access,
            asker: tokio::spawn(asker.run(tokens.rest.clone())),
            watcher: tokio::spawn(watcher),
            token: tokio::spawn(token::look(Arc::clone(&source), tokens.rest.clone())),
            source,
            pages,
            port,
            fleet: tokio::spawn(fleet.run(kept, tokens.fleet.clone())),
            delivery: tokio::spawn(delivery.run(tokens.rest.clone())),
            workers,
            tokens,
        })
    }

    /// Waits for a part that ends by itself, and names it.
    async fn died(&mut self) -> anyhow::Error {
        tokio::select! {
            biased;
            () = self.tokens.agent_died.cancelled() => anyhow!("part `agent` ended by itself"),
            ended = &mut self.asker => part_ended("peers", ended.map(|()| Ok(()))),
            ended = &mut self.watcher => part_ended("watch", ended.map(|()| Ok(()))),
            ended = &mut self.pages => part_ended("http", ended),
            ended = &mut self.fleet => part_ended("fleet", ended.map(|()| Ok(()))),
            ended = &mut self.delivery => part_ended("delivery", ended.map(|()| Ok(()))),
            ended = &mut self.token => part_ended("token", ended.map(|()| Ok(()))),
        }
    }

    /// Readiness off; answering goes on for `drain_for`, until every balancer has noticed.
    async fn drain(&self, drain_for: Duration) {
        self.tokens.stopping.cancel();
        sleep(drain_for).await;
    }

    /// No new polls, open ones finished, and the rest. A disk may take its time: it is written to
    /// first, while polls are still answered.
    async fn stop(self) {
        self.tokens.fleet.cancel();
        finished(self.fleet).await;
        self.tokens.agent.cancel();
        let workers = self.workers;
        let joined = tokio::task::spawn_blocking(move || {
            for worker in workers {
                // A worker that panicked has said so through its token.
                let _ = worker.join();
            }
        });
        let _ = joined.await;
        drop(self.port);
        self.tokens.rest.cancel();
        // A part that died has been named already.
        let _ = tokio::join!(
            finished(self.asker),
            finished(self.watcher),
            finished(self.pages),
            finished(self.delivery),
            finished(self.token)
        );
        // Nobody asks the source any more.
        if let Some(consul) = self.source.signs_in()
            && let Err(error) = consul.close().await
        {
            warn!("{error}");
        }
    }
}

/// Who follows the source.
fn watcher(
    config: &Config,
    times: Times,
    source: &Arc<Source>,
    beliefs: &Arc<Beliefs>,
    counters: &Arc<SourceCounters>,
) -> Watcher<Source> {
    Watcher::new(watch::Parts {
        kv: Arc::clone(source),
        prefix: config.prefix.clone(),
        times,
        beliefs: Arc::clone(beliefs),
        clock: Arc::new(SystemClock),
        counters: Arc::clone(counters),
        rng: StdRng::from_rng(&mut rand::rng()),
    })
}

/// The fleet as it was known before a restart, and the file that it is kept in.
fn fleet(
    config: &Config,
    store: &Arc<Store>,
    agent: &Agent,
) -> anyhow::Result<(Arc<Fleet>, Option<FleetFile>)> {
    let folder = config.data_dir.as_deref();
    let file = folder.map(|folder| FleetFile::open(folder, config.prefix.clone()));
    let file = file.transpose().context("data_dir")?;
    let before = file.as_ref().and_then(FleetFile::load_or_tell);
    let settings = fleet::Settings {
        replica: config.slot.clone(),
        prefix: config.prefix.clone(),
        poll_interval: config.poll_interval,
    };
    let tallies = agent.tallies().clone();
    let fleet = Fleet::new(settings, Arc::clone(store), tallies, before);
    Ok((Arc::new(fleet), file))
}

/// Who follows changes to the last node.
fn delivery(
    config: &Config,
    store: &Arc<Store>,
    fleet: &Arc<Fleet>,
    others: &Arc<Gatherer>,
    changes: mpsc::Receiver<InForce>,
) -> Delivery {
    let (store, fleet, others) = (store.clone(), fleet.clone(), others.clone());
    Delivery::new(config.slot.clone(), store, fleet, others, changes)
}

/// What is believed at the start: what was kept, or nothing.
fn believe(
    config: &Config,
    times: Times,
    counters: &Arc<SourceCounters>,
    follower: mpsc::Sender<InForce>,
) -> anyhow::Result<Arc<Beliefs>> {
    let mut authority = Authority::new(times, peers::slots(config));
    authority.assume_gone(&config.assume_gone);
    let mut keep: Option<Box<dyn Keep>> = None;
    if let Some(folder) = &config.data_dir {
        let (keeper, memory) = remember(folder, &config.prefix, Arc::clone(counters))
            .with_context(|| format!("data_dir: {}", folder.display()))?;
        keep = Some(Box::new(keeper));
        authority = match memory {
            Some(memory) => authority.remembering(memory),
            None => authority,
        };
    }
    let store = Arc::new(Store::new(authority.standing()));
    let clock = Arc::new(SystemClock);
    let beliefs = Beliefs::new(authority, keep, store, clock, rand::random());
    Ok(Arc::new(beliefs.followed_by(follower)))
}

/// Opens the folder, and reads what was kept before a restart.
fn remember(
    folder: &Path,
    prefix: &Prefix,
    counters: Arc<SourceCounters>,
) -> io::Result<(Keeper, Option<Memory>)> {
    let disk = Disk::open(folder, prefix.clone())?;
    let found = disk.load()?;
    if let Some(notice) = found.notice {
        warn!("{notice}");
    }
    if let Some(memory) = &found.memory {
        let index = memory.listing.as_ref().map(|listing| listing.index);
        info!(index, at = %memory.at, "known from before the start");
    }
    Ok((Keeper::new(disk, counters), found.memory))
}

/// Waits for a part's end, unless it was awaited already.
async fn finished<T>(part: JoinHandle<T>) {
    if !part.is_finished() {
        let _ = part.await;
    }
}

/// Reads token, certificates and log filter anew. What is wrong keeps the old one in use.
async fn reload(source: &Source, telemetry: &Telemetry) {
    match source.reload().await {
        Ok(()) => info!("token and certificates were read anew"),
        Err(error) => error!("the old token and certificates stay in use: {error}"),
    }
    match telemetry.reload() {
        Ok(level) => info!(level, "log filter read anew"),
        Err(error) => error!("the old log filter stays in use: {error:#}"),
    }
}

fn part_ended(part: &str, ended: Result<io::Result<()>, JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow!("part `{part}` ended by itself"),
        Ok(Err(error)) => anyhow!("part `{part}` ended: {error}"),
        Err(error) => anyhow!("part `{part}` ended: {error}"),
    }
}

/// Raises the limit of open files as far as it goes, and fits the connections into it.
fn fit_descriptors(connections_max: usize) -> anyhow::Result<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("the limit of open files cannot be raised")?;
    let Some(descriptors) = limit.maximum else {
        return Ok(connections_max);
    };
    let fitting = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(1);
    if fitting < connections_max {
        warn!(
            descriptors,
            connections_max = fitting,
            "agent.connections_max is cut to what the limit of open files allows"
        );
    }
    Ok(connections_max.min(fitting.max(1)))
}
