//! What a command works with: the configuration and the opened store.

use std::fs;
use std::future::Future;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::ask::tell;
use super::{Exit, Failure, terminal};
use crate::config::{
    Config, ConfigErrors, ConfigFile, Flags, Receiver, ReplicaAccess, Role, Sources,
};
use crate::domain::history;
use crate::domain::key::{META, Prefix};
use crate::domain::listing::Listing;
use crate::domain::name::Name;
use crate::kv::consul::ConsulKv;
use crate::kv::source::Source;
use crate::kv::{Kv as _, KvError};

/// A shell's exit code for a program that a signal ended, less the signal's number.
const SIGNALLED: i32 = 128;
/// How often a picture that is being drawn is waited for, and how long each time: it takes no
/// longer, unless the terminal is stopped and takes nothing.
const GIVE_BACK_TRIES: usize = 20;
const GIVE_BACK_EVERY: Duration = Duration::from_millis(10);

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
    /// Who is told of changes.
    pub(super) receivers: Vec<Receiver>,
    runtime: Runtime,
}

impl ConfigArgs {
    /// Reads the whole configuration.
    pub(super) fn load(&self, flags: &Flags) -> Result<Config, Failure> {
        self.load_as(Role::Replica, flags)
    }

    fn load_as(&self, role: Role, flags: &Flags) -> Result<Config, Failure> {
        self.read(role, flags, Config::load)
    }

    /// Reads only what replicas are shown that are named on the command line.
    pub(super) fn replica_access(&self, flags: &Flags) -> Result<ReplicaAccess, Failure> {
        self.read(Role::Command, flags, Config::replica_access)
    }

    fn read<T>(
        &self,
        role: Role,
        flags: &Flags,
        load: impl FnOnce(&Sources<'_>) -> Result<T, ConfigErrors>,
    ) -> Result<T, Failure> {
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
        Ok(load(&sources)?)
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
        let (source, runtime) = (open(config)?, runtime()?);
        if source.signs_in().is_some() {
            end_on_signals(&runtime, source.signs_in())?;
        }
        Ok(Self {
            source,
            prefix: config.prefix.clone(),
            history: history::prefix(&config.root, config.environment.as_str())
                .map_err(|error| Failure::new(Exit::Usage, format!("root: {error}")))?,
            environment: config.environment.clone(),
            slot: config.slot.clone(),
            receivers: config.announce.clone(),
            runtime,
        })
    }

    /// Reads all below a prefix. Where the token lacks rights, Consul may answer as if nothing stood
    /// there, or a part of it: a key that is asked for by name tells.
    pub(super) async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        let listing = self.source.list(prefix).await?;
        let has_sentinel = *prefix == self.prefix;
        let lacks = if has_sentinel {
            !listing.entries.contains_key(META)
        } else {
            listing.entries.is_empty()
        };
        if lacks && self.source.capabilities().access_rights {
            self.source.get(&prefix.key(META)).await?;
        }
        Ok(listing)
    }

    /// Has a signal give back what is held, the terminal too, before it ends the process.
    pub(super) fn end_on_signals(&self) -> Result<(), Failure> {
        match self.source.signs_in() {
            // It does so from the start.
            Some(_) => Ok(()),
            None => end_on_signals(&self.runtime, None),
        }
    }

    /// Runs asynchronous work to its end.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// A command gives the token of its login back however it ends.
impl Drop for Context {
    fn drop(&mut self) {
        if let Some(consul) = self.source.signs_in() {
            self.runtime.block_on(sign_out(consul));
        }
    }
}

/// When the command is interrupted, as `status --watch` always is: the terminal and the token are
/// given back, then the process ends as the signal would have ended it. What it was writing is whole
/// or not there, as ever.
fn end_on_signals(runtime: &Runtime, consul: Option<&Arc<ConsulKv>>) -> Result<(), Failure> {
    let _guard = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut received = receive(kind)?;
        let consul = consul.cloned();
        runtime.spawn(async move {
            received.recv().await;
            for _ in 0..GIVE_BACK_TRIES {
                if terminal::give_back() {
                    break;
                }
                sleep(GIVE_BACK_EVERY).await;
            }
            if let Some(consul) = consul {
                sign_out(&consul).await;
            }
            std::process::exit(SIGNALLED + kind.as_raw_value());
        });
    }
    Ok(())
}

/// Hears a signal from now on.
pub(super) fn receive(kind: SignalKind) -> Result<Signal, Failure> {
    let received = signal(kind);
    received.map_err(|error| {
        let text = format!("signals cannot be received: {error}");
        Failure::new(Exit::Failed, text)
    })
}

/// The command has its own outcome: a token left behind is a warning.
async fn sign_out(consul: &ConsulKv) {
    if let Err(error) = consul.close().await {
        tell(&format!("warning: {error}\n"));
    }
}

/// What asynchronous work runs on.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(|error| Failure::new(Exit::Failed, format!("the runtime: {error}")))
}

/// Opens the store that a configuration names.
pub(super) fn open(config: &Config) -> Result<Source, Failure> {
    Source::open(&config.kv, &config.login, |name| std::env::var(name).ok())
        .map_err(|text| Failure::new(Exit::Usage, text))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
    fs::read(path).map_err(failed)
}
