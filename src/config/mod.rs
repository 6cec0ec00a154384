//! The configuration: one TOML file, flags and environment variables.
//!
//! A flag counts before a variable, a variable before the file, the file before the default.
//! Every value that was given is checked, even where another one counts, and all errors are told
//! at once. Reading is pure: the contents of the file and the variables come in as arguments.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::hash::fnv1a;
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::domain::network::Networks;
use crate::domain::sentinel::SCHEMA;

pub use crate::kv::source::{KvSource, LoginSettings};
pub use access::{HttpConfig, ReplicaAccess, TlsFiles};
pub use announce::{Form, Receiver, ReceiverAddress, url as announce_url};
pub use errors::{ConfigError, ConfigErrors, Origin};
pub use flags::Flags;
pub use layers::{FILE_BYTES_MAX, Given};
pub use observe::ObserveConfig;
pub use peers::{is_encrypted, replica_url};

mod access;
mod announce;
mod environments;
mod errors;
mod flags;
mod layers;
mod load;
mod observe;
mod peers;
pub mod settings;
#[cfg(test)]
mod tests;
mod values;

/// A configuration that holds together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The environment.
    pub environment: Name,
    /// The KV path that all environments stand below.
    pub root: String,
    /// What is watched: `<root>/<environment>/`.
    pub prefix: Prefix,
    /// Where desired state is kept.
    pub kv: KvSource,
    /// How to sign in to Consul.
    pub login: LoginSettings,
    /// This replica's name; at most [`settings::SLOT_BYTES_MAX`] bytes.
    pub slot: Name,
    /// Whether there is no other replica.
    pub standalone: bool,
    /// All replicas by slot, this one included; empty when it stands alone.
    pub peers: Vec<PeerAddress>,
    /// Where the secret of the replicas is.
    pub peers_token_file: Option<PathBuf>,
    /// Peers that are gone for good.
    pub assume_gone: Vec<Name>,
    /// The smallest agent-inter of the fleet.
    pub poll_interval: Duration,
    /// Where the last listing is kept over a restart.
    pub data_dir: Option<PathBuf>,
    /// How long answering goes on after SIGTERM.
    pub drain_for: Duration,
    /// The listener for agent checks.
    pub agent: AgentConfig,
    /// The listener for health, metrics and the API.
    pub http: HttpConfig,
    /// Where `HAProxy`'s own word comes from.
    pub observe: ObserveConfig,
    /// The environment whose nodes have the sockets of `observe.stats`, when these are written to.
    pub migration: Option<Name>,
    /// Whom the writing commands tell of every change.
    pub announce: Vec<Receiver>,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Which value counts for each setting and where it came from, in the settings' order.
    pub given: Vec<Given>,
}

/// Where a replica is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Its slot.
    pub slot: Name,
    /// `http://host:port` of its HTTP listener, or `https://host:port`.
    pub url: String,
}

/// The listener for agent checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Threads; 1 to 256.
    pub workers: usize,
    /// The most connections at once over all workers; 1 to 1,000,000.
    pub connections_max: usize,
    /// How an answered connection ends.
    pub close: AgentClose,
    /// Who is answered.
    pub allow: Networks,
}

/// How an answered connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentClose {
    /// By `HAProxy`'s reset.
    Lazy,
    /// By the service, with the answer.
    Fin,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// How lines are written.
    pub format: LogFormat,
    /// A filter that `tracing_subscriber::EnvFilter` reads.
    pub level: String,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line, for machines.
    Json,
}

/// All that a configuration is made from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Who reads it.
    pub role: Role,
    /// The file, if there is one.
    pub file: Option<ConfigFile<'a>>,
    /// The flags.
    pub flags: &'a Flags,
    /// Looks an environment variable up.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The number of cores, the default of `agent.workers`.
    pub cores: NonZeroUsize,
}

/// Who reads a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The service: it must know all replicas, or be the only one.
    Replica,
    /// A command: it needs to know of no replica.
    Command,
}

/// The file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigFile<'a> {
    /// Its name, for errors.
    pub name: &'a str,
    /// Its bytes.
    pub text: &'a [u8],
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Everything that is wrong with any of the sources.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigErrors> {
        load::load(sources)
    }

    /// Reads only what a command shows to replicas that are named to it.
    ///
    /// # Errors
    /// Everything that is wrong with any of the sources.
    pub fn replica_access(sources: &Sources<'_>) -> Result<ReplicaAccess, ConfigErrors> {
        load::replica_access(sources)
    }
}

impl Config {
    /// The replicas beside this one.
    pub fn others(&self) -> impl Iterator<Item = &PeerAddress> {
        self.peers.iter().filter(|peer| peer.slot != self.slot)
    }

    /// The same in replicas that may take each other for peers: of the prefix, the schema that is
    /// read, `poll_interval`, and the list of peers. What differs in it would give other answers,
    /// or count other peers. The slot, listeners, workers, TLS and the log change no answer.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let peers: String = self
            .peers
            .iter()
            .map(|peer| format!(" {}=http://{}", peer.slot, peers::authority(&peer.url)))
            .collect();
        let millis = self.poll_interval.as_millis();
        let text = format!("{} {SCHEMA} {millis}{peers}", self.prefix);
        fnv1a(text.bytes())
    }
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("role", &self.role)
            .field("file", &self.file)
            .field("flags", &self.flags)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}
