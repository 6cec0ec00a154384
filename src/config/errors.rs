//! What is wrong with a configuration: everything at once, each with its place.

use std::fmt;

use thiserror::Error;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag, without its dashes.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// A line of the file.
    File {
        /// The file as it was named.
        name: String,
        /// Counted from 1.
        line: usize,
    },
    /// Nobody said anything.
    Default,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    origin: Origin,
    key: String,
    text: String,
}

/// Everything that is wrong, a line for each.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigError {
    pub(super) fn new(origin: Origin, key: &str, text: impl Into<String>) -> Self {
        Self {
            origin,
            key: key.to_owned(),
            text: text.into(),
        }
    }

    pub(super) fn is_about(&self, key: &str) -> bool {
        self.key == key
    }
}

impl ConfigErrors {
    pub(super) const fn new(errors: Vec<ConfigError>) -> Self {
        Self(errors)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Variable(variable) => f.write_str(variable),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File { .. } if self.key.is_empty() => write!(f, "{}: ", self.origin)?,
            Origin::File { .. } => write!(f, "{}: {}: ", self.origin, self.key)?,
            Origin::Flag(_) | Origin::Variable(_) => write!(f, "{}: ", self.origin)?,
            Origin::Default => write!(f, "{}: ", self.key)?,
        }
        f.write_str(&self.text)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
