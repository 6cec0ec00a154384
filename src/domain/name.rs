//! Names: what a backend, server, group, node, zone or slot may be called.

use std::borrow::Borrow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A name of the field: 1 to 128 bytes of `[A-Za-z0-9._:-]`, but neither `.` nor `..`.
///
/// The two are refused because a name is also a segment of a KV key: a URL path and a folder
/// would both read them as a direction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Identity of a server: `backend/server`. The same server name may stand in several backends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Arc<str>);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing there.
    #[error("a name is empty")]
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("a name of {0} bytes is longer than {NAME_BYTES_MAX}")]
    TooLong(usize),
    /// A byte outside the alphabet.
    #[error("a name holds {0:?}; allowed are letters, digits and . _ : -")]
    Character(char),
    /// `.` or `..`.
    #[error("\".\" and \"..\" are no names")]
    Dots,
    /// A server id without exactly one slash.
    #[error("a server id is written backend/server, with one slash")]
    ServerId,
}

/// Checks a name without copying it.
///
/// # Errors
/// See [`NameError`].
pub fn check(text: &str) -> Result<&str, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    if let Some(bad) = text.chars().find(|&c| !is_name_char(c)) {
        return Err(NameError::Character(bad));
    }
    if text == "." || text == ".." {
        return Err(NameError::Dots);
    }
    Ok(text)
}

/// Checks a `backend/server` pair without copying it.
///
/// # Errors
/// See [`NameError`].
pub fn check_server_id(text: &str) -> Result<&str, NameError> {
    let (backend, server) = text.split_once('/').ok_or(NameError::ServerId)?;
    if server.contains('/') {
        return Err(NameError::ServerId);
    }
    check(backend)?;
    check(server)?;
    Ok(text)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-')
}

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check(text).map(|text| Self(text.into()))
    }

    /// The name of a node that did not say its own: its source address, an IPv4 address that
    /// arrives on an IPv6 socket written as IPv4.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        Self(address.to_canonical().to_string().into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ServerId {
    /// Whether there are other copies of it that share its text.
    #[must_use]
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Parses `backend/server`.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_server_id(text).map(|text| Self(text.into()))
    }

    /// The text `backend/server`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Backend and server.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').expect("a server id holds one slash")
    }

    /// The backend's name.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.parts().0
    }

    /// The server's name within its backend.
    #[must_use]
    pub fn server(&self) -> &str {
        self.parts().1
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ServerId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Serialize for ServerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for ServerId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_keep_to_the_alphabet_and_the_length() {
        for good in [
            "a",
            "web-gke-us-east1-b",
            "10.0.0.1",
            "::1",
            "A_9",
            &"x".repeat(128),
        ] {
            assert_eq!(
                Name::parse(good).map(|n| n.to_string()),
                Ok(good.to_owned())
            );
        }
        let long = "x".repeat(129);
        for (bad, error) in [
            ("", NameError::Empty),
            (long.as_str(), NameError::TooLong(129)),
            ("a b", NameError::Character(' ')),
            ("a/b", NameError::Character('/')),
            ("ü", NameError::Character('ü')),
            (".", NameError::Dots),
            ("..", NameError::Dots),
        ] {
            assert_eq!(Name::parse(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn a_server_id_has_two_names() {
        assert_eq!(
            ServerId::parse("web/gke-cny-web").unwrap().as_str(),
            "web/gke-cny-web"
        );
        let id = ServerId::parse("web/gke-cny-web").unwrap();
        assert_eq!((id.backend(), id.server()), ("web", "gke-cny-web"));
        for bad in ["web", "web/", "/gke", "a/b/c", "a//b", "../x", "a b/c"] {
            assert!(ServerId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_mapped_address_is_written_as_ipv4() {
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(Name::from_address(mapped).as_str(), "10.1.2.3");
        assert_eq!(
            Name::parse(Name::from_address(mapped).as_str())
                .unwrap()
                .as_str(),
            "10.1.2.3"
        );
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,200}") {
            if let Ok(name) = Name::parse(&text) {
                prop_assert_eq!(name.as_str(), text.as_str());
            }
            if let Ok(id) = ServerId::parse(&text) {
                prop_assert_eq!(id.as_str(), text.as_str());
            }
        }
    }
}
