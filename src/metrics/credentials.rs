//! Until when the store can be reached with what this replica has.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Shown;

impl Shown {
    pub(super) fn encode_credentials(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let known = self.expiries.known();
        if known.is_empty() {
            return Ok(());
        }
        let help = "When what this replica reaches the source with ends, in Unix seconds";
        let name = "tidegate_credential_expiry_timestamp_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (credential, end) in known {
            let labels = [("credential", credential.as_str())];
            let seconds = end.as_duration().as_secs_f64();
            ConstGauge::new(seconds).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
