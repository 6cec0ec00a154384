//! What replicas tell each other, and how it is written.
//!
//! A word is small. The memory travels with it only when the asker does not have it yet: it names
//! the edition that it had last from this replica.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::authority::AuthorityName;
use super::key::Prefix;
use super::memory::{self, Memory, MemoryError};
use super::name::Name;

/// Who speaks. Replicas that differ in anything but slot and version are no peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `<root>/<environment>/`.
    pub prefix: Prefix,
    /// The schema of the KV that it reads.
    pub schema: u64,
    /// Its slot.
    pub slot: Name,
    /// Digest of the settings that can change an answer or the membership.
    pub digest: u64,
    /// Its program's version. A difference is shown and nothing more: rollouts need it.
    pub version: String,
}

/// What one replica says of itself at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Who speaks.
    pub identity: Identity,
    /// Its authority.
    pub authority: AuthorityName,
    /// Whether it is about to stop.
    pub stopping: bool,
    /// Time since its listing was last confirmed, by its own source or through a peer; `None`:
    /// never.
    pub age: Option<Duration>,
    /// Its wall clock.
    pub now: Timestamp,
    /// Which edition of its memory it has; another one after each change and each restart. `None`:
    /// it knows nothing yet.
    pub edition: Option<u64>,
    /// That memory, unless the asker named its edition.
    pub memory: Option<Memory>,
}

/// Why bytes are no word of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WordError {
    /// Not understood.
    #[error("not understood: {0}")]
    Unreadable(String),
    /// The memory in it is not understood, or of another environment.
    #[error("its memory: {0}")]
    Memory(#[from] MemoryError),
}

/// Other fields are let pass: a later version may add one, and every rollout would cut the fleet's
/// replicas off from each other.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(flatten)]
    identity: WireIdentity,
    authority: String,
    stopping: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    now: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edition: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<memory::Wire>,
}

/// Who speaks, as it is written.
#[derive(Serialize, Deserialize)]
pub(super) struct WireIdentity {
    prefix: String,
    schema: u64,
    slot: String,
    digest: String,
    version: String,
}

impl Identity {
    /// What makes the other one no peer of this one; `slot` is whom we meant to ask.
    #[must_use]
    pub fn mismatch(&self, other: &Self, slot: &Name) -> Option<String> {
        if other.prefix != self.prefix {
            return Some(format!("it serves {}, not {}", other.prefix, self.prefix));
        }
        if other.schema != self.schema {
            let (other, own) = (other.schema, self.schema);
            return Some(format!("it reads schema {other}, this replica {own}"));
        }
        if other.slot != *slot {
            return Some(format!("it is slot {}, not {slot}", other.slot));
        }
        (other.digest != self.digest).then(|| {
            "its poll_interval or its list of peers is another (`tidegate check-config` on both \
             shows them)"
                .to_owned()
        })
    }
}

impl Word {
    /// The word as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Identity { prefix, .. } = &self.identity;
        let wire = Wire {
            identity: (&self.identity).into(),
            authority: self.authority.as_str().to_owned(),
            stopping: self.stopping,
            // Rounded up: a confirmation must not become younger on its way.
            age_ms: self.age.map(millis_up),
            now: self.now,
            edition: self.edition,
            memory: self.memory.as_ref().map(|memory| memory.to_wire(prefix)),
        };
        serde_json::to_string(&wire).expect("strings and numbers always serialise")
    }

    /// Reads a word. A memory is read for the speaker's own prefix: whether that is ours too is
    /// [`Identity::mismatch`]'s to say.
    ///
    /// # Errors
    /// See [`WordError`]. Nothing of such bytes is used.
    pub fn parse(bytes: &[u8]) -> Result<Self, WordError> {
        let unreadable = |text: String| WordError::Unreadable(text);
        let wire: Wire =
            serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
        let identity = wire.identity.read().map_err(unreadable)?;
        let authority = AuthorityName::parse(&wire.authority)
            .ok_or_else(|| unreadable(format!("authority {:?}", wire.authority)))?;
        let memory = wire
            .memory
            .map(|memory| Memory::from_wire(memory, &identity.prefix))
            .transpose()?;
        Ok(Self {
            identity,
            authority,
            stopping: wire.stopping,
            age: wire.age_ms.map(Duration::from_millis),
            now: wire.now,
            edition: wire.edition,
            memory,
        })
    }
}

impl From<&Identity> for WireIdentity {
    fn from(identity: &Identity) -> Self {
        Self {
            prefix: identity.prefix.as_str().to_owned(),
            schema: identity.schema,
            slot: identity.slot.to_string(),
            digest: format!("{:016x}", identity.digest),
            version: identity.version.clone(),
        }
    }
}

impl WireIdentity {
    pub(super) fn read(self) -> Result<Identity, String> {
        let digest = u64::from_str_radix(&self.digest, 16);
        Ok(Identity {
            prefix: Prefix::parse(&self.prefix).map_err(|error| format!("prefix: {error}"))?,
            schema: self.schema,
            slot: Name::parse(&self.slot).map_err(|error| format!("slot: {error}"))?,
            digest: digest.map_err(|error| format!("digest: {error}"))?,
            version: self.version,
        })
    }
}

fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::evidence::Evidence;
    use crate::domain::listing::Listing;
    use proptest::prelude::*;

    fn identity(slot: &str) -> Identity {
        Identity {
            prefix: Prefix::new("frontend", "gprd").unwrap(),
            schema: 1,
            slot: Name::parse(slot).unwrap(),
            digest: 0x0123_4567_89ab_cdef,
            version: "0.1.0".to_owned(),
        }
    }

    fn word(memory: Option<Memory>) -> Word {
        Word {
            identity: identity("b"),
            authority: AuthorityName::Relayed,
            stopping: false,
            age: Some(Duration::from_millis(1_250)),
            now: "2026-11-30T10:00:00Z".parse().unwrap(),
            edition: Some(u64::MAX),
            memory,
        }
    }

    #[test]
    fn a_word_reads_back() {
        let memory = Memory {
            listing: None,
            evidence: Evidence::default(),
            broken: Some((7, "older".to_owned())),
            at: "2026-11-30T10:00:00Z".parse().unwrap(),
        };
        for word in [word(None), word(Some(memory))] {
            assert_eq!(Word::parse(word.to_json().as_bytes()), Ok(word));
        }
    }

    #[test]
    fn a_later_version_may_add_fields_at_every_level() {
        let listing = Listing::of(7, &[("canary-state", "drain")]);
        let memory = Memory {
            listing: Some(Arc::new(listing)),
            evidence: Evidence {
                modified: [("canary-state".to_owned(), 7)].into(),
                ..Evidence::default()
            },
            broken: None,
            at: "2026-11-30T10:00:00Z".parse().unwrap(),
        };
        let word = word(Some(memory));
        let json = word.to_json();
        for start in ["{\"prefix\"", "\"memory\":{", "\"canary-state\":{"] {
            let (before, after) = json.split_once(start).unwrap();
            let (head, tail) = start.split_at(start.find('{').unwrap() + 1);
            let more = format!("{before}{head}\"more\":[{{}}],{tail}{after}");
            assert_eq!(Word::parse(more.as_bytes()), Ok(word.clone()), "{more}");
        }
    }

    #[test]
    fn an_age_only_grows_on_its_way() {
        let exact = Word {
            age: Some(Duration::from_micros(1)),
            ..word(None)
        };
        let read = Word::parse(exact.to_json().as_bytes()).unwrap();
        assert_eq!(read.age, Some(Duration::from_millis(1)));
    }

    #[test]
    fn who_differs_in_what_changes_answers_is_no_peer() {
        let (own, slot) = (identity("a"), Name::parse("b").unwrap());
        let same = Identity {
            version: "9.9.9".to_owned(),
            ..identity("b")
        };
        assert_eq!(own.mismatch(&same, &slot), None);
        for (other, text) in [
            (identity("c"), "it is slot c, not b"),
            (
                Identity {
                    prefix: Prefix::new("frontend", "gstg").unwrap(),
                    ..identity("b")
                },
                "frontend/gstg/",
            ),
            (
                Identity {
                    schema: 2,
                    ..identity("b")
                },
                "schema 2",
            ),
            (
                Identity {
                    digest: 1,
                    ..identity("b")
                },
                "poll_interval",
            ),
        ] {
            let found = own.mismatch(&other, &slot).unwrap();
            assert!(found.contains(text), "{found}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Word::parse(&bytes);
        }
    }
}
