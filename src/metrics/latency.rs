//! How long something takes, in buckets.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// The upper bounds of the buckets, in microseconds: an answer takes some 20, and HAProxy gives up
/// after its agent-inter.
const BOUNDS_MICROS: [u32; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_000_000,
];

/// Counts durations: one addition to two numbers, and no lock.
#[derive(Debug, Default)]
pub struct Latency {
    /// By bucket; the last one is for all that took longer.
    counts: [AtomicU64; BOUNDS_MICROS.len() + 1],
    sum_nanos: AtomicU64,
}

impl Latency {
    /// One more.
    pub fn record(&self, took: Duration) {
        let micros = took.as_micros();
        let at = BOUNDS_MICROS.partition_point(|bound| u128::from(*bound) < micros);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        // 584 years.
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// A histogram of all of these together.
    pub(super) fn encode<'a>(
        all: &(impl Iterator<Item = &'a Self> + Clone),
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
    ) -> fmt::Result {
        let sum = |of: &dyn Fn(&Self) -> &AtomicU64| {
            let each = all.clone().map(|one| of(one).load(Ordering::Relaxed));
            each.fold(0, u64::wrapping_add)
        };
        let bounds = BOUNDS_MICROS.map(|bound| f64::from(bound) / 1_000_000.0);
        // Shown as `+Inf`, without which Prometheus computes no quantile.
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        let bounds = bounds.enumerate();
        let buckets: Vec<_> = bounds
            .map(|(at, bound)| (bound, sum(&|one| &one.counts[at])))
            .collect();
        // Of the same moment as the buckets: else it would be no histogram.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let seconds = Duration::from_nanos(sum(&|one| &one.sum_nanos)).as_secs_f64();
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_up_to_its_bound() {
        let latency = Latency::default();
        for micros in [0, 50, 51, 2_000_000, 2_000_001] {
            latency.record(Duration::from_micros(micros));
        }
        let counts = latency.counts.map(AtomicU64::into_inner);
        assert_eq!((counts[0], counts[1], counts[11], counts[12]), (2, 1, 1, 1));
        assert_eq!(latency.sum_nanos.into_inner(), 4_000_102_000);
    }
}
