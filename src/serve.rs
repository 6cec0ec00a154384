//! The service: binds, starts every part, and stops them in order.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::agent::{self, Agent};
use crate::config::Config;
use crate::domain::authority::{Authority, Times};
use crate::http::{self, Pages};
use crate::kv::source::Source;
use crate::metrics::{Metrics, SourceCounters};
use crate::store::Store;
use crate::watch::Watcher;

/// Descriptors kept for everything that is not an agent connection: the source, HTTP, files.
const DESCRIPTORS_RESERVED: u64 = 256;

/// Bound sockets: nothing answers yet.
struct Bound {
    agent: Agent,
    http: TcpListener,
}

/// The tokens by which parts are stopped and tell of their end.
#[derive(Clone, Default)]
struct Tokens {
    /// Stopping has begun: readiness is off.
    stopping: CancellationToken,
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
pub fn run(config: &Config, source: Source) -> anyhow::Result<()> {
    let connections_max = fit_descriptors(config.agent.connections_max)?;
    let bound = bind(config, connections_max)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .context("the control runtime cannot be made")?;
    let outcome = runtime.block_on(serve(config, source, bound));
    // What still runs was given its time, or a second signal cut it short.
    runtime.shutdown_background();
    outcome
}

fn bind(config: &Config, connections_max: usize) -> anyhow::Result<Bound> {
    let settings = agent::Settings {
        listen: config.agent.listen,
        workers: config.agent.workers,
        connections_max,
        replica: config.slot.clone(),
    };
    let agent = Agent::bind(settings)
        .with_context(|| format!("agent.listen: {} cannot be bound", config.agent.listen))?;
    let http = TcpListener::bind(config.http.listen)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .with_context(|| format!("http.listen: {} cannot be bound", config.http.listen))?;
    info!(agent = %agent.address(), http = %http.local_addr()?, "listening");
    Ok(Bound { agent, http })
}

async fn serve(config: &Config, source: Source, bound: Bound) -> anyhow::Result<()> {
    let tokens = Tokens::default();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let times = Times::from_poll_interval(config.poll_interval);
    let store = Arc::new(Store::new(Authority::new(times).standing().clone()));
    let counters = Arc::new(SourceCounters::default());
    let tasks = TaskTracker::new();

    let watcher = Watcher::new(
        Arc::new(source),
        config.prefix.clone(),
        times,
        Arc::clone(&store),
        Arc::clone(&counters),
    );
    let mut watcher = tasks.spawn(watcher.run(tokens.rest.clone()));
    let workers = bound.agent.counters().to_vec();
    let pages = Pages {
        store: Arc::clone(&store),
        metrics: Arc::new(Metrics::new(Arc::clone(&store), workers, counters)),
        replica: config.slot.clone(),
        stopping: tokens.stopping.clone(),
    };
    let listener = tokio::net::TcpListener::from_std(bound.http)?;
    let mut pages = tasks.spawn(http::serve(listener, pages, tokens.rest.clone()));
    let threads = bound
        .agent
        .start(store, tokens.agent.clone(), &tokens.agent_died)
        .context("the agent's threads cannot be started")?;
    tasks.close();

    let outcome = tokio::select! {
        biased;
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
        () = tokens.agent_died.cancelled() => Err(anyhow!("part `agent` ended by itself")),
        ended = &mut watcher => Err(part_ended("watch", ended.map(|()| Ok(())))),
        ended = &mut pages => Err(part_ended("http", ended)),
    };
    let stopped = async {
        stop(&tokens, threads).await;
        tasks.wait().await;
    };
    match outcome {
        Ok(signal) => info!(signal, "stopping"),
        Err(ref error) => error!(%error, "stopping"),
    }
    tokio::select! {
        biased;
        () = stopped => info!("stopped"),
        _ = terminate.recv() => warn!("second signal: ending at once"),
        _ = interrupt.recv() => warn!("second signal: ending at once"),
    }
    outcome.map(|_| ())
}

/// Readiness off, no new polls, open ones finished, then the rest.
async fn stop(tokens: &Tokens, threads: Vec<JoinHandle<()>>) {
    tokens.stopping.cancel();
    tokens.agent.cancel();
    let joined = tokio::task::spawn_blocking(|| {
        for thread in threads {
            // A worker that panicked has said so through its token.
            let _ = thread.join();
        }
    });
    let _ = joined.await;
    tokens.rest.cancel();
}

fn part_ended(part: &str, ended: Result<io::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
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
