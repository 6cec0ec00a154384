//! The process and its build, under the names that every Prometheus client uses.

use std::fmt;
use std::fs;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};

use super::{Shown, gauge};
use crate::clock;

impl Shown {
    /// What cannot be read is left out.
    pub(super) fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1, with the version of this program and the settings that all replicas share";
        let name = "tidegate_build_info";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let digest = format!("{:016x}", self.identity.digest);
        let labels = [
            ("version", self.identity.version.as_str()),
            ("settings_digest", digest.as_str()),
        ];
        ConstGauge::new(1_u64).encode(family.encode_family(&labels)?)?;

        let help = "When this process began, in Unix seconds";
        let name = "process_start_time_seconds";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let began = self.began.as_duration().as_secs_f64();
        ConstGauge::new(began).encode(metric)?;

        let help = "Processor time of this process, in seconds";
        let name = "process_cpu_seconds";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(clock::processor_time().as_secs_f64()).encode(metric)?;

        if let Some(bytes) = resident_bytes() {
            let help = "Memory of this process that is in use, in bytes";
            gauge(encoder, "process_resident_memory_bytes", help, bytes)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The one by which they are counted is among them.
            let open = (open.count() as u64).saturating_sub(1);
            gauge(encoder, "process_open_fds", "Open descriptors", open)?;
        }
        let most = getrlimit(Resource::Nofile).current;
        let help = "The most descriptors that may be open";
        most.map_or(Ok(()), |most| gauge(encoder, "process_max_fds", help, most))
    }
}

/// `VmRSS` of `/proc/self/status` (proc(5)), there in kibibytes.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1_024)
}
