//! The history: one record for each transaction, written with it, outside the watched prefix.

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::change::Edit;
use super::key::Prefix;
use super::migration::SocketChange;
use super::name::NameError;

mod difference;

pub use self::difference::{Difference, Differences, Since, no_change};

/// What one transaction changed, who did it, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its own id, a ULID: the key's last segment. Ids grow with the time.
    pub id: String,
    /// The id of the change that it is a part of: that of its first part.
    pub change: String,
    /// When it was written.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command line.
    pub command: String,
    /// W3C traceparent of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Which part of how many, when the change did not fit one transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The keys that changed.
    pub changed: Vec<Changed>,
    /// The rows that are written by stats sockets after this record: noted first, so that they can
    /// be put back whatever becomes of the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketChange>,
}

/// A part of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// A key that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The path below the prefix.
    pub path: String,
    /// What stood there; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What stood there then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// A value, byte for byte: text where it is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WireValue", into = "WireValue")]
pub struct Value(pub Bytes);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireValue {
    Text(String),
    Bytes {
        #[serde(with = "base64_bytes")]
        base64: Vec<u8>,
    },
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

impl From<WireValue> for Value {
    fn from(wire: WireValue) -> Self {
        match wire {
            WireValue::Text(text) => Self(text.into()),
            WireValue::Bytes { base64 } => Self(base64.into()),
        }
    }
}

impl From<Value> for WireValue {
    fn from(Value(bytes): Value) -> Self {
        match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Bytes {
                base64: error.into_bytes(),
            },
        }
    }
}

impl Value {
    /// For people.
    #[must_use]
    pub fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        text.trim().replace(char::is_control, " ")
    }
}

impl From<&Edit> for Changed {
    fn from(edit: &Edit) -> Self {
        Self {
            path: edit.path.clone(),
            before: edit.before.as_ref().map(|entry| Value(entry.value.clone())),
            after: edit.after.clone().map(Value),
        }
    }
}

impl Record {
    /// Reads a value of the history.
    ///
    /// # Errors
    /// Text for the person who finds it.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(value).map_err(|error| error.to_string())
    }

    /// The value, for writing.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }
}

/// Where the history of an environment is kept: `<root>-history/<environment>/<id>`. Not below the
/// watched prefix: each record would wake every replica.
///
/// # Errors
/// As [`Prefix::new`].
pub fn prefix(root: &str, environment: &str) -> Result<Prefix, NameError> {
    Prefix::new(&format!("{root}-history"), environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::migration::{Mode, SocketState};
    use proptest::prelude::*;

    fn record(before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Record {
        let value = |bytes: Vec<u8>| Value(bytes.into());
        Record {
            id: "01K".to_owned(),
            change: "01K".to_owned(),
            at: "2026-11-30T10:00:00Z".parse().unwrap(),
            by: "ana".to_owned(),
            reason: None,
            command: "tidegate canary --drain".to_owned(),
            trace: None,
            part: Some(Part { number: 1, of: 2 }),
            changed: vec![Changed {
                path: "canary-state".to_owned(),
                before: before.map(value),
                after: after.map(value),
            }],
            sockets: vec![SocketChange {
                node: crate::domain::name::Name::parse("lb-3").unwrap(),
                server: crate::domain::name::ServerId::parse("web/a").unwrap(),
                before: SocketState {
                    state: Mode::Ready,
                    weight: 40,
                },
                after: SocketState {
                    state: Mode::Drain,
                    weight: 40,
                },
            }],
        }
    }

    proptest! {
        #[test]
        fn a_record_keeps_every_byte(before in proptest::option::of(any::<Vec<u8>>()), after in proptest::option::of("\\PC*")) {
            let record = record(before, after.map(String::into_bytes));
            prop_assert_eq!(Record::parse(record.to_json().as_bytes()), Ok(record));
        }
    }

    #[test]
    fn text_stays_readable_in_the_store() {
        let record = record(Some(b"drain".to_vec()), Some(vec![0xff]));
        let json = record.to_json();
        assert!(
            json.contains(r#""before":"drain","after":{"base64":"/w=="}"#),
            "{json}"
        );
    }

    #[test]
    fn a_later_version_may_add_fields() {
        let json = record(None, None)
            .to_json()
            .replacen('{', r#"{"new":1,"#, 1);
        assert!(Record::parse(json.as_bytes()).is_ok());
        assert!(Record::parse(b"{}").unwrap_err().contains("missing field"));
    }
}
