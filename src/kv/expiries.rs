//! Until when a store can be reached with what we have, as far as that is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// What ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credential {
    /// Our certificate.
    Certificate,
    /// The authorities that we trust: the one that holds for longest.
    Authority,
    /// A token that was configured.
    Token,
    /// The token of a login, which is replaced when it has ended.
    Login,
}

/// When each of them ends; those of which nothing is known are not there.
#[derive(Debug, Default)]
pub struct Expiries(Mutex<BTreeMap<Credential, Timestamp>>);

impl Credential {
    /// The word for it, for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Authority => "authority",
            Self::Token => "token",
            Self::Login => "login",
        }
    }
}

impl Expiries {
    /// Another one is in use, which ends then, or nobody knows when.
    pub fn set(&self, credential: Credential, end: Option<Timestamp>) {
        let mut known = self.lock();
        match end {
            Some(end) => known.insert(credential, end),
            None => known.remove(&credential),
        };
    }

    /// All that are known.
    #[must_use]
    pub fn known(&self) -> BTreeMap<Credential, Timestamp> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Credential, Timestamp>> {
        // Nothing is done under the lock that could leave half of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
