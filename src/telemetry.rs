//! Logs and traces.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracer;
use tracing::level_filters::LevelFilter;
use tracing::{Span, warn};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

pub use self::spans::{
    Sighting, authority_change, enabled, failed, kv_update, kv_write, note, parent, reload, stop,
    transition, wait,
};
pub use self::traces::SpanCounters;

use self::traces::{Traces, Whose};
use crate::config::{Config, LogConfig, LogFormat};
use crate::domain::trace_parent::TraceParent;

/// The client crates log each request at INFO and each 404 as an ERROR (seen with consulrs 0.1.0).
const QUIET: [&str; 2] = ["consulrs=off", "rustify=off"];
/// How long a stopping service waits for the collector.
const STOP_FLUSH_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a command waits for it: a person sits before it.
const COMMAND_FLUSH_TIME_MAX: Duration = Duration::from_secs(1);
/// The variable in which a caller says which span it is, as CI systems do.
const CALLER: &str = "TRACEPARENT";

/// Logs and traces of the service.
pub struct Telemetry {
    handle: reload::Handle<EnvFilter, Registry>,
    read: Box<dyn Fn() -> anyhow::Result<LogConfig> + Send + Sync>,
    traces: Option<Arc<Traces>>,
    counters: Arc<SpanCounters>,
}

/// The trace of one command.
#[derive(Debug)]
pub struct CommandTrace {
    span: Span,
    traces: Option<Traces>,
}

impl Telemetry {
    /// Starts logging to standard error, and tracing when a collector is named. `read` reads the
    /// configuration anew.
    ///
    /// # Errors
    /// When the level is no filter, such as `info` or `tidegate=debug`.
    pub fn start(
        config: &Config,
        read: impl Fn() -> anyhow::Result<LogConfig> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let (filter, handle) = reload::Layer::new(filter(&config.log.level)?);
        let counters = Arc::new(SpanCounters::default());
        let whose = Whose::Replica(config.slot.as_str(), config.environment.as_str());
        let traces = Traces::open(whose, Arc::clone(&counters));
        let opened = traces.as_ref().ok().and_then(Option::as_ref);
        let spans = opened.map(|opened| layer(opened.tracer()));
        let lines = tracing_subscriber::fmt::layer().with_writer(lines::Lines);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match config.log.format {
            LogFormat::Text => lines.with_ansi(false).with_filter(filter).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        };
        tracing_subscriber::registry()
            .with(lines)
            .with(spans)
            .init();
        // Whoever cannot be traced can be served all the same.
        let traces = traces.unwrap_or_else(|why| {
            warn!("there will be no traces: {why}");
            None
        });
        Ok(Self {
            handle,
            read: Box::new(read),
            traces: traces.map(Arc::new),
            counters,
        })
    }

    /// Reads the log filter anew, and says which one holds.
    ///
    /// # Errors
    /// When the configuration, or the filter in it, cannot be read; the old one stays in use.
    pub fn reload(&self) -> anyhow::Result<String> {
        let level = (self.read)()?.level;
        self.handle.reload(filter(&level)?)?;
        Ok(level)
    }

    /// What became of the spans.
    #[must_use]
    pub fn counters(&self) -> Arc<SpanCounters> {
        Arc::clone(&self.counters)
    }

    /// Sends the last spans; it takes 2 s at most.
    pub async fn flush(&self) {
        if let Some(traces) = self.traces.clone() {
            let closed = tokio::task::spawn_blocking(move || traces.close(STOP_FLUSH_TIME_MAX));
            // A panic in there has cost spans, and nothing else.
            let _ = closed.await;
        }
    }
}

impl CommandTrace {
    /// Begins the trace of a command when a collector is named; what is wrong with the variables
    /// comes besides, as it fails no command.
    #[must_use]
    pub fn begin(name: &str) -> (Self, Option<String>) {
        let whose = Whose::Command(COMMAND_FLUSH_TIME_MAX);
        let (traces, wrong) = match Traces::open(whose, Arc::default()) {
            Ok(traces) => (traces, None),
            Err(why) => (None, Some(why)),
        };
        if let Some(traces) = &traces {
            let subscriber = tracing_subscriber::registry().with(layer(traces.tracer()));
            // Tests run several commands in one process: the first one's subscriber stays.
            let _ = subscriber.try_init();
        }
        let span = spans::command(name, caller());
        (Self { span, traces }, wrong)
    }

    /// Runs the command in it.
    pub fn run<T>(&self, command: impl FnOnce() -> T) -> T {
        self.span.in_scope(command)
    }

    /// Ends it, with why the command failed; sends it, which takes 1 s at most.
    pub fn end(self, failed: Option<&str>) {
        if let Some(why) = failed {
            spans::failed(&self.span, why);
        }
        drop(self.span);
        if let Some(traces) = self.traces {
            traces.close(COMMAND_FLUSH_TIME_MAX);
        }
    }
}

/// The traceparent of what is being done: of the span that is entered, otherwise of whoever called
/// this program.
#[must_use]
pub fn trace_parent() -> Option<TraceParent> {
    parent(&Span::current()).or_else(caller)
}

fn caller() -> Option<TraceParent> {
    TraceParent::parse(&env::var(CALLER).ok()?)
}

/// Makes OpenTelemetry's spans of ours. It looks at nothing else: a filter that looked at each
/// event would cost something at each of them.
fn layer<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    spans::switch_on(tracer.clone());
    let own = filter_fn(|metadata| metadata.is_span() && metadata.target() == spans::TARGET);
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(own.with_max_level_hint(LevelFilter::INFO))
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    let mut filter = EnvFilter::try_new(level)?;
    for directive in QUIET {
        filter = filter.add_directive(directive.parse()?);
    }
    // Whatever is logged carries its ids.
    let spans = format!("{}=info", spans::TARGET);
    Ok(filter.add_directive(spans.parse()?))
}

mod lines;
mod secure;
mod spans;
mod traces;
