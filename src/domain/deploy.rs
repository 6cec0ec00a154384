//! The keys `deploys/<stage>`: the deploy lock.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::key::Key;
use super::listing::Listing;

/// What is said of a deploy to one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deploy {
    /// Whether it is running.
    pub active: bool,
    /// Where it can be watched.
    pub url: Option<String>,
    /// When the lock ends although nobody has lifted it; `None`: never.
    pub until: Option<Timestamp>,
    /// Who started or finished it.
    pub by: Option<String>,
}

/// The longest URL and the longest name, in bytes: both are printed in one line.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// The locks of a listing by stage, or why one cannot be read. No poll depends on them, so the
/// snapshot leaves them out.
#[must_use]
pub fn locks(listing: &Listing) -> Vec<(String, Result<Deploy, String>)> {
    let entries = listing.entries.iter();
    let locks = entries.filter_map(|(path, entry)| match Key::parse(path) {
        Key::Deploy(stage) => Some((stage.to_string(), Deploy::parse(&entry.value))),
        Key::Meta | Key::Settings | Key::Directive(_) | Key::Folder | Key::Unknown => None,
    });
    locks.collect()
}

/// Other fields are let pass: a pipeline may note there what it needs.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "an object")]
struct Wire {
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl Deploy {
    /// Reads the value.
    ///
    /// # Errors
    /// Text for the person who wrote it.
    pub fn parse(value: &[u8]) -> Result<Self, String> {
        let wire: Wire = serde_json::from_slice(value).map_err(|error| {
            format!("not a deploy such as {{\"active\":true,\"url\":\"https://...\"}}: {error}")
        })?;
        let until = wire.until.map(|text| {
            let read = text.parse::<Timestamp>();
            read.map_err(|error| format!("until is {text:?}: {error}"))
        });
        Ok(Self {
            active: wire.active,
            url: printable("url", wire.url)?,
            until: until.transpose()?,
            by: printable("by", wire.by)?,
        })
    }

    /// The JSON object that [`Deploy::parse`] reads back.
    #[must_use]
    pub fn to_json(&self) -> String {
        let wire = Wire {
            active: self.active,
            url: self.url.clone(),
            until: self.until.map(|until| until.to_string()),
            by: self.by.clone(),
        };
        serde_json::to_string(&wire).expect("strings and booleans always serialise")
    }

    /// Whether it locks its stage at `now`.
    #[must_use]
    pub fn locks(&self, now: Timestamp) -> bool {
        self.active && self.until.is_none_or(|until| now < until)
    }
}

/// What goes to a terminal holds no control characters.
fn printable(field: &str, text: Option<String>) -> Result<Option<String>, String> {
    let Some(text) = text else { return Ok(None) };
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!(
            "{field} has {} bytes, at most {TEXT_BYTES_MAX}",
            text.len()
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{field} holds a control character"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_deploy_locks_while_it_is_active_and_not_past_its_end() {
        for (value, locks) in [
            (r#"{"active":true}"#, true),
            (r#"{"active":false}"#, false),
            (r#"{"active":true,"until":"2026-11-30T10:00:01Z"}"#, true),
            (r#"{"active":true,"until":"2026-11-30T10:00:00Z"}"#, false),
            (r#"{"active":true,"pipeline":7}"#, true),
        ] {
            let deploy = Deploy::parse(value.as_bytes()).unwrap();
            assert_eq!(deploy.locks(at("2026-11-30T10:00:00Z")), locks, "{value}");
        }
    }

    #[test]
    fn what_is_no_deploy_says_why() {
        for (value, text) in [
            ("", "not a deploy such as {\"active\":true"),
            ("true", "not a deploy"),
            ("{}", "missing field `active`"),
            (r#"{"active":1}"#, "invalid type"),
            (r#"{"active":true,"until":"soon"}"#, "until is \"soon\""),
            (
                r#"{"active":true,"url":"a\u001b[2J"}"#,
                "url holds a control character",
            ),
        ] {
            let error = Deploy::parse(value.as_bytes()).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let long = format!(r#"{{"active":true,"by":"{}"}}"#, "a".repeat(1_025));
        assert!(Deploy::parse(long.as_bytes()).unwrap_err().contains("1025"));
    }

    proptest! {
        #[test]
        fn a_deploy_is_read_back_as_written(active in any::<bool>(), url in proptest::option::of("[ -~]{0,40}"), until in proptest::option::of(0i64..4_000_000_000), by in proptest::option::of("[a-z ]{0,9}")) {
            let until = until.map(|second| Timestamp::from_second(second).unwrap());
            let deploy = Deploy { active, url, until, by };
            prop_assert_eq!(Deploy::parse(deploy.to_json().as_bytes()), Ok(deploy));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Deploy::parse(&bytes);
        }
    }
}
