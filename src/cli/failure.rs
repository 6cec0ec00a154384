//! How a command fails.

use std::fmt;

use super::LAYOUT;
use crate::config::ConfigErrors;
use crate::domain::plain::printable;
use crate::kv::KvError;

/// Exit codes: part of the interface for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It failed.
    Failed = 1,
    /// Wrong usage: nothing was done.
    Usage = 2,
    /// A rule refuses it: nothing was done.
    Refused = 3,
    /// A precheck or the gate says no.
    Blocked = 4,
    /// Somebody else wrote meanwhile: nothing was done.
    Conflict = 5,
    /// The store is out of reach, or refuses.
    Unreachable = 6,
    /// It is written, and a replica does not answer by it in time.
    NotConverged = 7,
    /// Differences were found.
    Differs = 10,
}

/// What failed, for the person at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Whole lines, without a newline at the end; empty where everything is said already.
    pub text: String,
}

impl Failure {
    /// A failure.
    #[must_use]
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { exit, text }
    }

    /// What differs is on standard output.
    pub(super) const fn differs() -> Self {
        Self {
            exit: Exit::Differs,
            text: String::new(),
        }
    }

    pub(super) fn parse(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        Self::new(
            Exit::Usage,
            text.strip_prefix("error: ").unwrap_or(&text).trim_end(),
        )
    }
}

impl From<KvError> for Failure {
    fn from(error: KvError) -> Self {
        let exit = match error {
            KvError::Denied(_)
            | KvError::Unreachable(_)
            | KvError::BadAnswer(_)
            | KvError::ReadOnly(_)
            | KvError::OutcomeUnknown(_) => Exit::Unreachable,
            KvError::BadRequest(_) => Exit::Failed,
        };
        Self::new(exit, format!("the store: {error}"))
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::new(Exit::Usage, errors.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, format!("{error:#}"))
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.text, &LAYOUT))
    }
}
