//! Logs.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;

/// The client crates log each request at INFO and each 404 as an ERROR (facts/consul.md 4.1).
const QUIET: [&str; 2] = ["consulrs=off", "rustify=off"];

/// Starts logging to standard error.
///
/// # Errors
/// When `level` is no filter, such as `info` or `tidegate=debug`.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let mut filter = EnvFilter::try_new(level)?;
    for directive in QUIET {
        filter = filter.add_directive(directive.parse()?);
    }
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry.with(layer.with_ansi(false)).init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).init(),
    }
    Ok(())
}
