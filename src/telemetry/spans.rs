//! The spans that there are. All of them stand here: their names and attributes are what queries
//! and dashboards are written with (docs: ARCHITECTURE.md, Traces).
//!
//! Where traces are off every one is [`Span::none`], which costs nothing and does nothing.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags,
    TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tracing::{Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::domain::trace_parent::TraceParent;

/// The target of all spans: it is let pass by every log filter, so that log lines carry their ids.
pub(super) const TARGET: &str = "tidegate::spans";

/// The longest text that an attribute holds, in characters.
const TEXT_CHARS_MAX: usize = 1_024;

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// From now on there are spans. The first call counts.
pub(super) fn switch_on(tracer: SdkTracer) {
    let _ = TRACER.set(tracer);
}

/// Whether there are spans.
#[must_use]
pub fn enabled() -> bool {
    TRACER.get().is_some()
}

/// A span of this name, and with its ids for the log.
macro_rules! span {
    ($parent:expr, $name:literal, $($fields:tt)*) => {
        if enabled() {
            identified(info_span!(
                target: TARGET, parent: $parent, $name, $($fields)*,
                trace_id = field::Empty, span_id = field::Empty
            ))
        } else {
            Span::none()
        }
    };
}

/// A command, from its start to its end; in the trace of who called it, when the variable
/// `TRACEPARENT` says so.
pub(super) fn command(name: &str, caller: Option<TraceParent>) -> Span {
    if !enabled() {
        return Span::none();
    }
    let span = info_span!(
        target: TARGET, parent: None, "command", otel.name = format!("tidegate {name}"),
    );
    if let Some(caller) = caller {
        let parent = Context::new().with_remote_span_context(context(&caller));
        // It fails for a span that has begun: this one has not.
        let _ = span.set_parent(parent);
    }
    span
}

/// A command's change on its way into the store.
#[must_use]
pub fn kv_write() -> Span {
    span!(&Span::current(), "kv.write", otel.kind = "client")
}

/// A command that waits until the fleet was told.
#[must_use]
pub fn wait() -> Span {
    span!(&Span::current(), "wait", otel.kind = "internal")
}

/// Another listing than before, from being read to being in force on this replica.
#[must_use]
pub fn kv_update(index: u64, generation: &str) -> Span {
    span!(None, "kv.update", index, generation)
}

/// One directive of it. Not a child of what asked for it, which is in the past and had no hand in
/// when this replica heard of it: linked to it.
#[must_use]
pub fn transition(
    update: &Span,
    path: &str,
    (before, after): (&str, &str),
    asked: Option<&TraceParent>,
) -> Span {
    let span = span!(update, "state.transition", path = short(path));
    // The log has them in its line.
    note(&span, "before", &before);
    note(&span, "after", &after);
    link(&span, asked);
    span
}

/// This replica's authority is another one.
#[must_use]
pub fn authority_change(from: &str, to: &str, reason: &str) -> Span {
    let span = span!(None, "authority.change", from, to);
    note(&span, "reason", &reason);
    span
}

/// Everything that SIGHUP reads anew.
#[must_use]
pub fn reload() -> Span {
    span!(None, "reload", otel.kind = "internal")
}

/// From the signal, or the end of a part, to the last one's end.
#[must_use]
pub fn stop(why: &str) -> Span {
    span!(None, "stop", why)
}

/// What a span says besides, once it is known.
pub fn note(span: &Span, key: &'static str, value: &impl ToString) {
    if enabled() {
        span.set_attribute(key, short(&value.to_string()));
    }
}

/// A span did not come to what it was for.
pub fn failed(span: &Span, why: &str) {
    if enabled() {
        span.set_status(Status::error(short(why)));
    }
}

/// Which span this is, for other processes. `None` where traces are off.
#[must_use]
pub fn parent(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| TraceParent {
        trace: context.trace_id().to_bytes(),
        span: context.span_id().to_bytes(),
        sampled: context.is_sampled(),
    })
}

/// Something that was seen rather than done: its times are others'.
#[derive(Debug)]
pub struct Sighting<'a> {
    /// The span's name.
    pub name: &'static str,
    /// When it began.
    pub begin: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What asked for it.
    pub asked: &'a [TraceParent],
    /// What is to be said of it.
    pub attributes: Vec<(&'static str, String)>,
    /// Why it did not come to its end.
    pub failed: Option<String>,
}

impl Sighting<'_> {
    /// Sends it; gives its trace's id for the log.
    pub fn tell(self) -> Option<String> {
        let tracer = TRACER.get()?;
        let linked = |asked| Link::new(context(asked), Vec::new(), 0);
        let attribute = |(key, value): (&'static str, String)| KeyValue::new(key, short(&value));
        let mut span = SpanBuilder::from_name(self.name)
            .with_start_time(system_time(self.begin))
            .with_links(self.asked.iter().map(linked).collect())
            .with_attributes(self.attributes.into_iter().map(attribute))
            .start_with_context(tracer, &Context::new());
        if let Some(why) = self.failed {
            span.set_status(Status::error(why));
        }
        let id = span.span_context().trace_id().to_string();
        span.end_with_timestamp(system_time(self.end.max(self.begin)));
        Some(id)
    }
}

/// Links a span to what asked for it.
pub(super) fn link(span: &Span, asked: Option<&TraceParent>) {
    if let Some(asked) = asked {
        span.add_link(context(asked));
    }
}

fn identified(span: Span) -> Span {
    if let Some(parent) = parent(&span) {
        let text = parent.to_string();
        let mut parts = text.split('-').skip(1);
        span.record("trace_id", parts.next());
        span.record("span_id", parts.next());
    }
    span
}

fn context(parent: &TraceParent) -> SpanContext {
    let flags = if parent.sampled {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::default()
    };
    SpanContext::new(
        TraceId::from_bytes(parent.trace),
        SpanId::from_bytes(parent.span),
        flags,
        true,
        TraceState::default(),
    )
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

fn system_time(at: Timestamp) -> SystemTime {
    // Before 1970 nothing was seen.
    let since = Duration::try_from(at.as_duration()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + since
}
