//! What a command works with: the configuration and the opened store.

use std::fs;
use std::future::Future;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::runtime::Runtime;

use super::{Exit, Failure};
use crate::config::{Config, ConfigFile, Flags, KvSource, Role, Sources};
use crate::domain::history;
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::kv::source::Source;

/// Where the configuration is.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Configuration file (TOML).
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CONFIG",
        hide_env = true,
        help = "Configuration file (TOML). [variable: TIDEGATE_CONFIG]"
    )]
    pub(super) config: Option<PathBuf>,
}

/// An opened store, and where in it the environment stands.
pub(super) struct Context {
    pub(super) source: Source,
    pub(super) prefix: Prefix,
    /// Where the history is.
    pub(super) history: Prefix,
    pub(super) environment: Name,
    /// The replica's name that answers are shown with.
    pub(super) slot: Name,
    runtime: Runtime,
}

impl ConfigArgs {
    /// Reads the whole configuration.
    pub(super) fn load(&self, flags: &Flags) -> Result<Config, Failure> {
        self.load_as(Role::Replica, flags)
    }

    fn load_as(&self, role: Role, flags: &Flags) -> Result<Config, Failure> {
        let name = self.config.as_ref().map(|path| path.display().to_string());
        let text = self.config.as_deref().map(read).transpose()?;
        let file = name.as_deref().zip(text.as_deref());
        let sources = Sources {
            file: file.map(|(name, text)| ConfigFile { name, text }),
            role,
            flags,
            variable: &|name| std::env::var_os(name),
            cores: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        Ok(Config::load(&sources)?)
    }

    /// Reads the configuration of a command other than `serve`.
    pub(super) fn load_for_command(&self, flags: &Flags) -> Result<Config, Failure> {
        self.load_as(Role::Command, flags)
    }

    /// Reads the configuration and opens its store, for a command other than `serve`.
    pub(super) fn open(&self, flags: &Flags) -> Result<Context, Failure> {
        Context::new(&self.load_for_command(flags)?)
    }
}

impl Context {
    /// Opens the store that a configuration names.
    pub(super) fn new(config: &Config) -> Result<Self, Failure> {
        Ok(Self {
            source: open(&config.kv)?,
            prefix: config.prefix.clone(),
            history: history::prefix(&config.root, config.environment.as_str())
                .map_err(|error| Failure::new(Exit::Usage, format!("root: {error}")))?,
            environment: config.environment.clone(),
            slot: config.slot.clone(),
            runtime: runtime()?,
        })
    }

    /// Runs asynchronous work to its end.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// What asynchronous work runs on.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(|error| Failure::new(Exit::Failed, format!("the runtime: {error}")))
}

/// Opens a store.
pub(super) fn open(kv: &KvSource) -> Result<Source, Failure> {
    Source::open(kv, |name| std::env::var(name).ok())
        .map_err(|text| Failure::new(Exit::Usage, text))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
    fs::read(path).map_err(failed)
}
