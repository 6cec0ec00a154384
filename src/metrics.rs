//! Counters, and how they are shown.
//!
//! Each worker counts in its own memory; a scrape adds them up and reads the rest from what is in
//! force. Labels come from closed sets, and from the store: never a name that arrived over the wire.

mod credentials;
mod desired;
mod latency;
mod listing;
mod peers;
mod process;
mod ramps;
mod rows;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;

pub use self::desired::DIRECTIVES_SHOWN_MAX;
pub use self::latency::Latency;
pub use self::peers::PeerCounters;
pub use self::rows::ROWS_SHOWN_MAX;
use crate::domain::answer::{Answer, State};
use crate::domain::word::Identity;
use crate::fleet::{Fleet, Whole};
use crate::kv::KvError;
use crate::kv::expiries::Expiries;
use crate::store::Store;
use crate::telemetry::SpanCounters;

/// Counts of one kind of thing, by a label from a closed set.
#[derive(Debug)]
pub struct Counts<const N: usize>([AtomicU64; N]);

/// What one agent worker counts.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    answers: Counts<7>,
    silent: Counts<5>,
    /// From a whole request to its answer.
    pub latency: Latency,
    /// Failures of accept itself.
    pub accept_errors: AtomicU64,
    /// Connections open now.
    pub open: AtomicU64,
}

/// Why a connection was closed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// This replica may not answer now.
    NoAuthority,
    /// Too many connections.
    OverLimit,
    /// The peer went away before it had asked.
    Gone,
    /// The peer did not take its answer.
    Stuck,
    /// Its address is not one that is answered.
    NotAllowed,
}

/// What the watcher counts.
#[derive(Debug, Default)]
pub struct SourceCounters {
    whole: Counts<4>,
    light: Counts<4>,
    /// From a whole reading to what follows from it being in force.
    pub judged: Latency,
    /// Memories that could not be kept.
    pub memory_errors: AtomicU64,
}

/// Everything that a scrape shows.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
}

/// What a scrape reads.
#[derive(Debug)]
pub struct Shown {
    /// What is in force.
    pub store: Arc<Store>,
    /// What each worker counts.
    pub workers: Vec<Arc<WorkerCounters>>,
    /// What the watcher counts.
    pub source: Arc<SourceCounters>,
    /// Until when the source can be reached.
    pub expiries: Arc<Expiries>,
    /// Who polls.
    pub fleet: Arc<Fleet>,
    /// Who polls any replica.
    pub whole: Arc<Whole>,
    /// What the questions to the peers count.
    pub peers: Arc<PeerCounters>,
    /// Who this replica is.
    pub identity: Arc<Identity>,
    /// What became of the traces.
    pub spans: Arc<SpanCounters>,
    /// When this process began.
    pub began: Timestamp,
}

const ANSWERS: [&str; 7] = [
    "ready",
    "drain",
    "maint",
    "shadow",
    "unknown_group",
    "unknown_directive",
    "unknown_request",
];
const SILENCES: [&str; 5] = ["no_authority", "over_limit", "gone", "stuck", "not_allowed"];
const SPANS: [&str; 3] = ["sent", "failed", "dropped"];
const READS: [&str; 4] = ["ok", "denied", "unreachable", "bad_answer"];

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Counts<N> {
    fn add(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }
}

impl WorkerCounters {
    /// One more answer.
    pub fn answered(&self, answer: Answer) {
        self.answers.add(match answer {
            Answer::State(State::Ready(_)) => 0,
            Answer::State(State::Drain) => 1,
            Answer::State(State::Maint) => 2,
            Answer::Shadow(_) => 3,
            Answer::UnknownGroup => 4,
            Answer::UnknownDirective => 5,
            Answer::UnknownRequest => 6,
        });
    }

    /// One more connection without an answer.
    pub fn silent(&self, why: Silence) {
        self.silent.add(match why {
            Silence::NoAuthority => 0,
            Silence::OverLimit => 1,
            Silence::Gone => 2,
            Silence::Stuck => 3,
            Silence::NotAllowed => 4,
        });
    }
}

impl SourceCounters {
    /// One more whole reading.
    pub fn whole(&self, error: Option<&KvError>) {
        self.whole.add(outcome(error));
    }

    /// One more light read.
    pub fn light(&self, error: Option<&KvError>) {
        self.light.add(outcome(error));
    }
}

fn outcome(error: Option<&KvError>) -> usize {
    match error {
        None => 0,
        Some(KvError::Denied(_)) => 1,
        Some(KvError::Unreachable(_) | KvError::OutcomeUnknown(_)) => 2,
        Some(KvError::BadAnswer(_) | KvError::BadRequest(_) | KvError::ReadOnly(_)) => 3,
    }
}

impl Metrics {
    /// Everything that a scrape shows, read when it asks.
    #[must_use]
    pub fn new(shown: Shown) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(shown));
        Self { registry }
    }

    /// The text of a scrape, in the `OpenMetrics` format.
    ///
    /// # Errors
    /// Formatting errors of the encoder.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_agent(&mut encoder)?;
        self.encode_source(&mut encoder)?;
        self.encode_credentials(&mut encoder)?;
        self.encode_fleet(&mut encoder)?;
        self.encode_whole(&mut encoder)?;
        self.encode_peers(&mut encoder)?;
        self.encode_authority(&mut encoder)?;
        self.encode_listing(&mut encoder)?;
        self.encode_spans(&mut encoder)?;
        self.encode_process(&mut encoder)
    }
}

impl Shown {
    fn sum(&self, count: impl Fn(&WorkerCounters) -> u64) -> u64 {
        self.workers.iter().map(|worker| count(worker)).sum()
    }

    fn encode_agent(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let answers = |at| self.sum(|worker| worker.answers.get(at));
        let help = "Agent checks answered, by answer";
        Family {
            name: "tidegate_agent_answers",
            help,
            label: "answer",
            values: &ANSWERS,
        }
        .counters(encoder, answers)?;
        let silent = |at| self.sum(|worker| worker.silent.get(at));
        let help = "Time from a whole request to its answer being sent, in seconds";
        let latencies = self.workers.iter().map(|worker| &worker.latency);
        Latency::encode(&latencies, encoder, ("tidegate_agent_answer_seconds", help))?;
        let help = "Connections closed without an answer, by reason";
        Family {
            name: "tidegate_agent_silent",
            help,
            label: "reason",
            values: &SILENCES,
        }
        .counters(encoder, silent)?;
        let errors = self.sum(|worker| worker.accept_errors.load(Ordering::Relaxed));
        let help = "Failures of accept, such as no free descriptor";
        counter(encoder, "tidegate_agent_accept_errors", help, errors)?;
        let open = self.sum(|worker| worker.open.load(Ordering::Relaxed));
        gauge(
            encoder,
            "tidegate_agent_connections",
            "Connections open now",
            open,
        )
    }

    fn encode_source(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whole readings of the prefix, by outcome";
        let whole = |at| self.source.whole.get(at);
        Family {
            name: "tidegate_source_reads",
            help,
            label: "outcome",
            values: &READS,
        }
        .counters(encoder, whole)?;
        let errors = self.source.memory_errors.load(Ordering::Relaxed);
        let help = "Listings that could not be kept over a restart";
        counter(encoder, "tidegate_memory_errors", help, errors)?;
        let help = "Time from a whole reading to what follows from it being in force, in seconds";
        let judged = std::iter::once(&self.source.judged);
        Latency::encode(&judged, encoder, ("tidegate_source_judged_seconds", help))?;
        let help = "Light reads that renew the lease, by outcome";
        let light = |at| self.source.light.get(at);
        Family {
            name: "tidegate_source_light_reads",
            help,
            label: "outcome",
            values: &READS,
        }
        .counters(encoder, light)
    }

    fn encode_spans(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Spans that ended, by what became of them; none where no collector is named";
        let SpanCounters {
            sent,
            failed,
            dropped,
            ..
        } = &*self.spans;
        let spans = |at: usize| [sent, failed, dropped][at].load(Ordering::Relaxed);
        Family {
            name: "tidegate_trace_spans",
            help,
            label: "outcome",
            values: &SPANS,
        }
        .counters(encoder, spans)
    }

    fn encode_fleet(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let numbers = self.fleet.numbers();
        let summary = numbers.summary;
        for (name, help, value) in [
            ("nodes", "Nodes that asked this replica", summary.nodes),
            (
                "nodes_silent",
                "Nodes of which no row asks this replica any more",
                summary.nodes_silent,
            ),
            (
                "rows",
                "Servers of nodes that asked this replica",
                summary.rows,
            ),
            (
                "rows_silent",
                "Rows that do not ask this replica any more",
                summary.rows_silent,
            ),
            (
                "rows_behind",
                "Rows that this replica has not told the newest listing",
                summary.rows_behind,
            ),
            (
                "duplicate_names",
                "Node names that several machines ask by at once",
                summary.duplicate_names,
            ),
        ] {
            let name = format!("tidegate_fleet_{name}");
            gauge(encoder, &name, help, value as u64)?;
        }
        let help = "Time since the last answer of the polling row that lacks the newest listing for \
                    longest, in seconds; 0: none lacks it";
        let name = "tidegate_fleet_oldest_unapplied_seconds";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let oldest = numbers.oldest_unapplied.unwrap_or_default();
        ConstGauge::new(oldest.as_secs_f64()).encode(metric)?;
        let help = "Rows and polls that the fleet view had no room for";
        counter(encoder, "tidegate_fleet_dropped", help, numbers.dropped)?;
        let errors = self.fleet.save_errors.load(Ordering::Relaxed);
        let help = "Fleet views that could not be kept over a restart";
        counter(encoder, "tidegate_fleet_save_errors", help, errors)
    }
}

/// One series for each value of a label.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    label: &'a str,
    values: &'a [&'a str],
}

impl Family<'_> {
    fn counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        of: impl Fn(usize) -> u64,
    ) -> fmt::Result {
        self.encode(encoder, |at| ConstCounter::new(of(at)))
    }

    fn gauges(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        of: impl Fn(usize) -> u64,
    ) -> fmt::Result {
        self.encode(encoder, |at| ConstGauge::new(of(at)))
    }

    fn encode<M: EncodeMetric + TypedMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        of: impl Fn(usize) -> M,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, M::TYPE)?;
        for (at, value) in self.values.iter().enumerate() {
            of(at).encode(family.encode_family(&[(self.label, *value)])?)?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}
