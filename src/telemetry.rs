//! Logs.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::config::{LogConfig, LogFormat};

/// The client crates log each request at INFO and each 404 as an ERROR (seen with consulrs 0.1.0).
const QUIET: [&str; 2] = ["consulrs=off", "rustify=off"];

/// What is logged; it can be read anew while the service runs.
pub struct LogFilter {
    handle: reload::Handle<EnvFilter, Registry>,
    read: Box<dyn Fn() -> anyhow::Result<LogConfig> + Send + Sync>,
}

/// Starts logging to standard error. `read` reads the configuration anew.
///
/// # Errors
/// When the level is no filter, such as `info` or `tidegate=debug`.
pub fn start(
    config: &LogConfig,
    read: impl Fn() -> anyhow::Result<LogConfig> + Send + Sync + 'static,
) -> anyhow::Result<LogFilter> {
    let (filter, handle) = reload::Layer::new(filter(&config.level)?);
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => registry.with(layer.with_ansi(false)).init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).init(),
    }
    let read = Box::new(read);
    Ok(LogFilter { handle, read })
}

impl LogFilter {
    /// Reads the filter anew, and says which one holds.
    ///
    /// # Errors
    /// When the configuration, or the filter in it, cannot be read; the old one stays in use.
    pub fn reload(&self) -> anyhow::Result<String> {
        let level = (self.read)()?.level;
        self.handle.reload(filter(&level)?)?;
        Ok(level)
    }
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    let mut filter = EnvFilter::try_new(level)?;
    for directive in QUIET {
        filter = filter.add_directive(directive.parse()?);
    }
    Ok(filter)
}
