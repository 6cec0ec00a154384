//! Selectors: which rows, on which LB nodes, a command is about.
//!
//! ```text
//! selector = term *( ( SP / "," ) term )
//! term     = tag "=" regex        ; the regular expression matches the whole value
//!          | word                 ; part of backend/server, or the whole of one
//! tag      = "backend" | "server" | "group" | "zone" | "node" | "role"
//! ```
//! All terms of a kind must hold; of several bare words one is enough. A word that is a known
//! `backend/server` means that row only. A comma parts two terms only before `tag=`, so that it may
//! stand in an expression.
//!
//! `backend`, `server` and `group` select servers. `zone`, `node` and `role` are those of the *LB
//! nodes*: what is written counts for their polls only, as `-z b` always did. A zone that no
//! expression matches whole is matched by its last part (`b` for `us-east1-b`).

use std::fmt;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use super::name::Name;

mod keys;
mod matcher;
mod selection;

pub use self::keys::KeyMatcher;
pub use self::matcher::Matcher;
pub use self::selection::{SelectedRow, Selection, SelectionError};

/// A selector, read.
#[derive(Debug, Clone)]
pub struct Selector {
    text: String,
    words: Vec<String>,
    terms: Vec<Term>,
}

/// What a term looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The backend's name.
    Backend,
    /// The server's name, without its backend.
    Server,
    /// A group of the server.
    Group,
    /// The zone of the LB node.
    Zone,
    /// The LB node.
    Node,
    /// The role of the LB node.
    Role,
}

/// Why a text is no selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// Nothing there. It never means everything.
    #[error("the selector is empty; to select all write server=.*")]
    Empty,
    /// Longer than [`SELECTOR_BYTES_MAX`].
    #[error("the selector is longer than {SELECTOR_BYTES_MAX} bytes")]
    TooLong,
    /// A tag that is none of the six.
    #[error("unknown tag {tag:?}: known are {known}{suggestion}", known = Tag::names(), suggestion = suggestion(tag))]
    Tag {
        /// What stands before the `=`.
        tag: String,
    },
    /// A tag with nothing behind it.
    #[error("{0}= has no value")]
    NoValue(&'static str),
    /// A regular expression that cannot be read.
    #[error("{tag}={pattern}: {error}")]
    Pattern {
        /// The tag.
        tag: &'static str,
        /// The expression.
        pattern: String,
        /// What is wrong with it, and where.
        error: String,
    },
}

/// The longest selector, in bytes: what a person types, with room for a list of servers.
pub const SELECTOR_BYTES_MAX: usize = 4_096;
/// The largest compiled expression, in bytes: names are short, and `.{1000}{1000}` is a slip.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// A tag that differs by more letters is no slip.
const SUGGESTION_DISTANCE_MAX: usize = 3;

#[derive(Debug, Clone)]
struct Term {
    tag: Tag,
    pattern: Regex,
}

/// An LB node that a selector looks at.
#[derive(Debug, Clone, Copy)]
pub struct CandidateNode<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its zone.
    pub zone: Option<&'a Name>,
    /// Its role.
    pub role: Option<&'a Name>,
}

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// See [`SelectorError`].
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err(SelectorError::TooLong);
        }
        let mut selector = Self {
            text: text.trim().to_owned(),
            words: Vec::new(),
            terms: Vec::new(),
        };
        for part in split(text) {
            match part.split_once('=') {
                Some((tag, pattern)) => selector.terms.push(Term::parse(tag, pattern)?),
                None => selector.words.push(part.to_owned()),
            }
        }
        if selector.terms.is_empty() && selector.words.is_empty() {
            return Err(SelectorError::Empty);
        }
        Ok(selector)
    }

    /// Whether it has more than words.
    #[must_use]
    pub fn has_tags(&self) -> bool {
        !self.terms.is_empty()
    }

    /// Whether it keeps to some LB nodes.
    #[must_use]
    pub fn is_about_nodes(&self) -> bool {
        self.terms.iter().any(|term| term.tag.is_about_nodes())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Tag {
    /// All tags.
    pub const ALL: [Self; 6] = [
        Self::Backend,
        Self::Server,
        Self::Group,
        Self::Zone,
        Self::Node,
        Self::Role,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Server => "server",
            Self::Group => "group",
            Self::Zone => "zone",
            Self::Node => "node",
            Self::Role => "role",
        }
    }

    /// Whether it is of the LB node.
    #[must_use]
    pub const fn is_about_nodes(self) -> bool {
        match self {
            Self::Zone | Self::Node | Self::Role => true,
            Self::Backend | Self::Server | Self::Group => false,
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl Term {
    fn parse(tag: &str, pattern: &str) -> Result<Self, SelectorError> {
        let known = Tag::ALL.into_iter().find(|known| known.as_str() == tag);
        let Some(known) = known else {
            return Err(SelectorError::Tag {
                tag: tag.to_owned(),
            });
        };
        if pattern.is_empty() {
            return Err(SelectorError::NoValue(known.as_str()));
        }
        let refused = |error: regex::Error| SelectorError::Pattern {
            tag: known.as_str(),
            pattern: pattern.to_owned(),
            error: error.to_string(),
        };
        let compile = |text: &str| {
            RegexBuilder::new(text)
                .size_limit(PATTERN_BYTES_MAX)
                .build()
        };
        // First as it was typed: an error then shows the place in it, and `a)|(b` is one.
        compile(pattern).map_err(refused)?;
        let pattern = compile(&format!("^(?:{pattern})$")).map_err(refused)?;
        Ok(Self {
            tag: known,
            pattern,
        })
    }
}

/// The terms, parted at white space, and at commas before `tag=`.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for word in text.split_whitespace() {
        let mut start = 0;
        for (at, _) in word.match_indices(',') {
            let rest = &word[at + 1..];
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let in_words = !word[start..at].contains('=');
            if (letters > 0 && rest[letters..].starts_with('=')) || in_words {
                parts.push(&word[start..at]);
                start = at + 1;
            }
        }
        parts.push(&word[start..]);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn suggestion(tag: &str) -> String {
    let distance = |known: &Tag| strsim::levenshtein(&tag.to_ascii_lowercase(), known.as_str());
    let nearest = Tag::ALL.into_iter().min_by_key(distance);
    nearest
        .filter(|known| distance(known) <= SUGGESTION_DISTANCE_MAX)
        .map_or_else(String::new, |known| {
            format!("; did you mean {}?", known.as_str())
        })
}

#[cfg(test)]
mod tests;
