//! The store that the configuration names.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::consul::ConsulKv;
use super::consul::environment::ConsulSettings;
pub use super::consul::environment::LoginSettings;
use super::directory::DirectoryKv;
use super::expiries::Expiries;
use super::{Capabilities, ClockReading, Kv, KvError, Operation, Outcome, Outline};
use crate::clock;
use crate::domain::key::Prefix;
use crate::domain::listing::{Entry, Listing};

/// Where desired state is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvSource {
    /// Consul, found through the variables of its own command line.
    Consul,
    /// A folder whose files are the keys.
    Directory(PathBuf),
}

/// An opened store.
pub enum Source {
    /// Consul.
    Consul(Arc<ConsulKv>),
    /// A folder.
    Directory(DirectoryKv),
}

impl Source {
    /// Opens the store. `login` counts for Consul alone; `lookup` gives the value of an environment
    /// variable.
    ///
    /// # Errors
    /// Text for the person who can mend it, one line for each thing that is wrong.
    pub fn open(
        kind: &KvSource,
        login: &LoginSettings,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        match kind {
            KvSource::Consul => {
                let settings =
                    ConsulSettings::new(login, lookup).map_err(|errors| errors.to_string())?;
                let kv = ConsulKv::new(settings).map_err(|errors| errors.to_string())?;
                Ok(Self::Consul(Arc::new(kv)))
            }
            KvSource::Directory(path) => DirectoryKv::open(path, clock::now)
                .map(Self::Directory)
                .map_err(|error| error.to_string()),
        }
    }
}

impl Source {
    /// Reads token and certificates anew. What is wrong keeps the old ones in use.
    ///
    /// # Errors
    /// Text for the person who can mend it.
    pub async fn reload(&self) -> Result<(), String> {
        match self {
            Self::Consul(kv) => kv.reload().await.map_err(|error| error.to_string()),
            Self::Directory(_) => Ok(()),
        }
    }

    /// Until when it can be reached with what is in use.
    #[must_use]
    pub fn expiries(&self) -> Arc<Expiries> {
        match self {
            Self::Consul(kv) => Arc::clone(kv.expiries()),
            Self::Directory(_) => Arc::default(),
        }
    }

    /// Asks when what it is reached with ends, where that must be asked for.
    pub async fn look_at_token(&self) {
        match self {
            Self::Consul(kv) => kv.look_at_token().await,
            Self::Directory(_) => {}
        }
    }

    /// The store, when it signs in: then it must be closed at the end.
    #[must_use]
    pub fn signs_in(&self) -> Option<&Arc<ConsulKv>> {
        match self {
            Self::Consul(kv) => Some(kv).filter(|kv| kv.signs_in()),
            Self::Directory(_) => None,
        }
    }
}

impl fmt::Display for KvSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consul => f.write_str("consul"),
            Self::Directory(path) => write!(f, "dir:{}", path.display()),
        }
    }
}

impl Kv for Source {
    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Consul(kv) => kv.capabilities(),
            Self::Directory(kv) => kv.capabilities(),
        }
    }

    fn notices(&self) -> Vec<String> {
        match self {
            Self::Consul(kv) => kv.notices(),
            Self::Directory(kv) => kv.notices(),
        }
    }

    fn clock(&self) -> Option<ClockReading> {
        match self {
            Self::Consul(kv) => kv.clock(),
            Self::Directory(kv) => kv.clock(),
        }
    }

    async fn list(&self, prefix: &Prefix) -> Result<Listing, KvError> {
        match self {
            Self::Consul(kv) => kv.list(prefix).await,
            Self::Directory(kv) => kv.list(prefix).await,
        }
    }

    async fn watch(&self, prefix: &Prefix, after: u64, wait: Duration) -> Result<Listing, KvError> {
        match self {
            Self::Consul(kv) => kv.watch(prefix, after, wait).await,
            Self::Directory(kv) => kv.watch(prefix, after, wait).await,
        }
    }

    async fn confirm(&self, prefix: &Prefix) -> Result<Outline, KvError> {
        match self {
            Self::Consul(kv) => kv.confirm(prefix).await,
            Self::Directory(kv) => kv.confirm(prefix).await,
        }
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, KvError> {
        match self {
            Self::Consul(kv) => kv.get(key).await,
            Self::Directory(kv) => kv.get(key).await,
        }
    }

    async fn table_index(&self, prefix: &Prefix) -> Result<u64, KvError> {
        match self {
            Self::Consul(kv) => kv.table_index(prefix).await,
            Self::Directory(kv) => kv.table_index(prefix).await,
        }
    }

    async fn transact(&self, operations: &[Operation]) -> Result<Outcome, KvError> {
        match self {
            Self::Consul(kv) => kv.transact(operations).await,
            Self::Directory(kv) => kv.transact(operations).await,
        }
    }
}
