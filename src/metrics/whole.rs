//! The fleet as all replicas know it together.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Shown, gauge};

impl Shown {
    /// Nothing before the second scrape: a scrape waits for no other replica.
    pub(super) fn encode_whole(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some((age, whole)) = self.whole.shown() else {
            return Ok(());
        };
        let summary = whole.summary;
        for (name, help, value) in [
            ("nodes", "Nodes that asked any replica", summary.nodes),
            (
                "nodes_silent",
                "Nodes of which no row asks any replica any more",
                summary.nodes_silent,
            ),
            (
                "rows",
                "Servers of nodes that asked any replica",
                summary.rows,
            ),
            (
                "rows_silent_alone",
                "Rows that do not ask any replica any more while others of their node do",
                whole.rows_silent_alone,
            ),
            (
                "rows_behind",
                "Rows that no replica has told the newest listing",
                summary.rows_behind,
            ),
            (
                "replicas_missing",
                "Replicas whose part of these numbers is missing",
                whole.replicas_missing,
            ),
        ] {
            let name = format!("tidegate_fleet_merged_{name}");
            gauge(encoder, &name, help, value as u64)?;
        }
        let oldest = whole.oldest_unapplied.unwrap_or_default();
        for (name, help, span) in [
            (
                "oldest_unapplied",
                "Time since the last answer of the polling row that lacks the newest listing for \
                 longest, of all replicas, in seconds; 0: none lacks it",
                oldest,
            ),
            ("age", "How old the merged numbers are, in seconds", age),
        ] {
            let name = format!("tidegate_fleet_merged_{name}_seconds");
            let metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            ConstGauge::new(span.as_secs_f64()).encode(metric)?;
        }
        Ok(())
    }
}
