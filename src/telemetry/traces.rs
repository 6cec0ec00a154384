//! Traces on their way to an OTLP collector: off unless a standard `OTEL_*` variable names one.
//!
//! ```text
//! span ends ──► Bounded ──► batch processor ──► Counted ──► OTLP over gRPC
//!              counts what     the SDK's own      counts what came of it
//!              has no room     thread
//! ```
//!
//! Whoever ends a span never waits: a collector that is slow or gone costs spans, which are counted.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData,
    SpanProcessor,
};
use tokio::runtime::{Handle, Runtime};
use tracing::{info, warn};

use super::secure;

/// What names the collector; the first counts.
pub(super) const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
/// What names the protocol. The others than gRPC are not spoken here.
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const GRPC: &str = "grpc";
/// The specification's variable for how many ended spans wait, and its default.
const QUEUE: (&str, usize) = ("OTEL_BSP_MAX_QUEUE_SIZE", 2_048);
/// The most that may be set: some 100 MiB.
const QUEUE_MAX: usize = 65_536;
/// How long a batch may take, connecting and retries included: the SDK alone sets no bound to a
/// connection that hangs.
const EXPORT_TIME_MAX: Duration = Duration::from_secs(10);

/// What became of spans that ended.
#[derive(Debug, Default)]
pub struct SpanCounters {
    waiting: AtomicUsize,
    /// The collector took them.
    pub sent: AtomicU64,
    /// They were sent, and the collector did not take them.
    pub failed: AtomicU64,
    /// There was no room for them.
    pub dropped: AtomicU64,
}

/// Whose traces they are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose<'a> {
    /// A replica's: its slot, and its environment.
    Replica(&'a str, &'a str),
    /// A command's: it tries once, and waits no longer than this.
    Command(Duration),
}

/// The way to the collector.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
    counters: Arc<SpanCounters>,
    /// What the connection runs on. In an `Option` because it is given away at the end.
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Bounded {
    inner: BatchSpanProcessor,
    counters: Arc<SpanCounters>,
    queue_max: usize,
}

#[derive(Debug)]
struct Counted {
    inner: Arc<SpanExporter>,
    counters: Arc<SpanCounters>,
    runtime: Handle,
    failing: AtomicBool,
}

impl Traces {
    /// Ready to send, connected to nothing yet. `None`: nobody asked for traces.
    ///
    /// # Errors
    /// What is wrong with the variables.
    pub(super) fn open(
        whose: Whose<'_>,
        counters: Arc<SpanCounters>,
    ) -> Result<Option<Self>, String> {
        if !wanted() {
            return Ok(None);
        }
        check_protocol()?;
        let queue_max = queue_max()?;
        let tls = secure::tls()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("traces")
            .enable_all()
            .build()
            .map_err(|error| format!("the runtime of the traces: {error}"))?;
        // The connection is made on the runtime that is entered.
        let entered = runtime.enter();
        let builder = SpanExporter::builder().with_tonic();
        let builder = match tls {
            Some(tls) => builder.with_tls_config(tls),
            None => builder,
        };
        let builder = match whose {
            Whose::Replica(..) => builder,
            Whose::Command(time_max) => builder
                .with_timeout(time_max)
                .with_retry_policy(RetryPolicy::disabled()),
        };
        let exporter = builder.build().map_err(|error| error.to_string())?;
        drop(entered);
        let exporter = Counted {
            inner: Arc::new(exporter),
            counters: Arc::clone(&counters),
            runtime: runtime.handle().clone(),
            failing: AtomicBool::new(false),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(queue_max)
            .build();
        let processor = Bounded {
            inner: BatchSpanProcessor::builder(exporter)
                .with_batch_config(batches)
                .build(),
            counters: Arc::clone(&counters),
            queue_max,
        };
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource(whose))
            .build();
        Ok(Some(Self {
            provider,
            counters,
            runtime: Some(runtime),
        }))
    }

    /// What makes spans.
    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(env!("CARGO_PKG_NAME"))
    }

    /// Sends what waits, for so long at most, and no more after that. Blocks.
    pub(super) fn close(&self, time_max: Duration) {
        // What is not sent then is told by the counts.
        let _ = self.provider.shutdown_with_timeout(time_max);
        let waiting = self.counters.waiting.load(Ordering::Relaxed);
        let failed = self.counters.failed.load(Ordering::Relaxed);
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        if waiting > 0 {
            warn!(waiting, failed, dropped, "not all traces were sent");
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A batch may hang in it.
            runtime.shutdown_background();
        }
    }
}

impl SpanCounters {
    /// Takes a place in the queue, if there is one.
    fn enter(&self, queue_max: usize) -> bool {
        let enters = self.waiting.fetch_add(1, Ordering::Relaxed) < queue_max;
        if !enters {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        enters
    }
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.counters.enter(self.queue_max) {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl opentelemetry_sdk::trace::SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let inner = Arc::clone(&self.inner);
        let export = async move { inner.export(batch).await };
        // On the runtime: the batch processor's thread has neither sockets nor timers.
        let bounded = async { tokio::time::timeout(EXPORT_TIME_MAX, export).await };
        let outcome = match self.runtime.spawn(bounded).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(OTelSdkError::Timeout(EXPORT_TIME_MAX)),
            Err(error) => Err(OTelSdkError::InternalFailure(error.to_string())),
        };
        self.counters.waiting.fetch_sub(count, Ordering::Relaxed);
        self.count(count as u64, &outcome);
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        let inner = Arc::get_mut(&mut self.inner);
        inner
            .expect("it is set before the first batch, and a batch holds it no longer than its end")
            .set_resource(resource);
    }
}

impl Counted {
    /// Tells of an outage once, and of its end.
    fn count(&self, spans: u64, outcome: &OTelSdkResult) {
        match outcome {
            Ok(()) => {
                self.counters.sent.fetch_add(spans, Ordering::Relaxed);
                if self.failing.swap(false, Ordering::Relaxed) {
                    info!("traces are sent again");
                }
            }
            Err(error) => {
                self.counters.failed.fetch_add(spans, Ordering::Relaxed);
                if !self.failing.swap(true, Ordering::Relaxed) {
                    warn!(%error, "traces cannot be sent; nothing else depends on them");
                }
            }
        }
    }
}

/// The value of a variable; empty counts as not set (OpenTelemetry's specification).
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first of these that is set, and its value.
pub(super) fn first(names: &[&'static str; 2]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| Some((*name, variable(name)?)))
}

fn wanted() -> bool {
    let disabled = variable("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let none = variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
    !disabled && !none && first(&ENDPOINTS).is_some()
}

fn check_protocol() -> Result<(), String> {
    match first(&PROTOCOLS) {
        Some((name, protocol)) if protocol != GRPC => Err(format!(
            "{name} is {protocol:?}: traces are sent by {GRPC} only, to the collector's port for \
             it (4317)"
        )),
        Some(_) | None => Ok(()),
    }
}

fn queue_max() -> Result<usize, String> {
    let (name, usual) = QUEUE;
    let Some(text) = variable(name) else {
        return Ok(usual);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=QUEUE_MAX).contains(count))
        .ok_or_else(|| format!("{name} is {text:?}: it takes 1 to {QUEUE_MAX}"))
}

/// What the variables say counts before what is known here.
fn resource(whose: Whose<'_>) -> Resource {
    let given = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let says = |key: &str| {
        let mut given = given.split(',');
        given.any(|pair| {
            pair.split('=')
                .next()
                .is_some_and(|name| name.trim() == key)
        })
    };
    let mut own = vec![("service.version", env!("CARGO_PKG_VERSION").to_owned())];
    if variable("OTEL_SERVICE_NAME").is_none() {
        own.push(("service.name", env!("CARGO_PKG_NAME").to_owned()));
    }
    if let Whose::Replica(slot, environment) = whose {
        own.push(("service.instance.id", slot.to_owned()));
        own.push(("deployment.environment.name", environment.to_owned()));
    }
    let own = own.into_iter().filter(|(key, _)| !says(key));
    let own = own.map(|(key, value)| KeyValue::new(key, value));
    Resource::builder().with_attributes(own).build()
}
