//! The request line that HAProxy's `agent-send` writes.
//!
//! ```text
//! request = server-id *( SP group ) *( SP key "=" value )
//! key     = "node" | "zone" | "base" | "mode"
//! ```
//! A line ends at LF, CRLF, the end of the stream, or a short silence: a string set at run time
//! (`set server b/s agent-send ...`) cannot hold a newline. Such a string keeps its quotes and a
//! literal backslash-n, so both are taken off (measured on 2.6, 2.8, 3.0 and 3.2).

use thiserror::Error;

use super::name::{self, NameError, ServerId};

/// The longest request in bytes, its line end included.
pub const REQUEST_BYTES_MAX: usize = 1_024;
/// The most groups of one request.
pub const GROUPS_MAX: usize = 8;
/// HAProxy's largest configured weight.
pub const BASE_MAX: u16 = 256;

/// A readable request. It borrows from the line: reading one allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// `backend/server`.
    pub server: &'a str,
    /// The node that asks, where it says so.
    pub node: Option<&'a str>,
    /// The zone that this node stands in.
    pub zone: Option<&'a str>,
    /// The server's configured weight, 1 to 256.
    pub base: Option<u16>,
    /// Whether HAProxy shall be shown the answer without following it.
    pub shadow: bool,
    groups: [&'a str; GROUPS_MAX],
    groups_len: usize,
}

/// Why a request cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Nothing, or blanks only.
    #[error("the request is empty: set agent-send on this server")]
    Empty,
    /// More than [`REQUEST_BYTES_MAX`] bytes.
    #[error("the request is longer than {REQUEST_BYTES_MAX} bytes")]
    TooLong,
    /// Bytes that are no text.
    #[error("the request is not UTF-8 text")]
    NotText,
    /// The first word is no `backend/server`.
    #[error("the first word {word:?} is no server id: {error}")]
    ServerId {
        /// The word.
        word: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// A group is no name.
    #[error("the group {word:?} is no name: {error}")]
    Group {
        /// The word.
        word: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// The same group twice.
    #[error("the group {0:?} is named twice")]
    GroupTwice(String),
    /// More than [`GROUPS_MAX`] groups.
    #[error("more than {GROUPS_MAX} groups")]
    TooManyGroups,
    /// A group behind a key.
    #[error("the group {0:?} stands behind a key: groups come first")]
    GroupAfterKey(String),
    /// A key that this version does not know.
    #[error("unknown key {0:?}: known are node, zone, base and mode")]
    UnknownKey(String),
    /// The same key twice.
    #[error("the key {0:?} is given twice")]
    KeyTwice(&'static str),
    /// A key with an empty value: mostly an environment variable that is not set.
    #[error("the key {0:?} has no value: is the environment variable set where HAProxy starts?")]
    EmptyValue(&'static str),
    /// A node or zone that is no name.
    #[error("{key}={value:?} is no name: {error}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// A base weight outside 1 to 256.
    #[error("base={0:?} is no weight of 1 to {BASE_MAX}")]
    Base(String),
    /// A mode other than `shadow`.
    #[error("mode={0:?} is unknown: the one mode is shadow")]
    Mode(String),
}

impl<'a> Request<'a> {
    /// Reads the bytes up to the first line end, or all of them when there is none.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RequestError> {
        if line_length(bytes).unwrap_or(bytes.len()) > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLong);
        }
        let line = std::str::from_utf8(first_line(bytes)).map_err(|_| RequestError::NotText)?;
        let mut words = unwrapped(line).split_ascii_whitespace();
        let first = words.next().ok_or(RequestError::Empty)?;
        let server = name::check_server_id(first).map_err(|error| RequestError::ServerId {
            word: first.to_owned(),
            error,
        })?;
        let mut reader = Reader {
            request: Self::bare(server),
            in_keys: false,
            mode: false,
        };
        words.try_for_each(|word| reader.word(word))?;
        Ok(reader.request)
    }

    /// The groups, in the order of the request.
    #[must_use]
    pub fn groups(&self) -> &[&'a str] {
        &self.groups[..self.groups_len]
    }

    /// The request of a known row, as far as a request may name groups: [`GROUPS_MAX`].
    #[must_use]
    pub fn of(
        server: &'a ServerId,
        groups: impl IntoIterator<Item = &'a str>,
        zone: Option<&'a str>,
        base: Option<u16>,
    ) -> Self {
        let mut request = Self {
            zone,
            base,
            ..Self::bare(server.as_str())
        };
        for (slot, group) in request.groups.iter_mut().zip(groups) {
            *slot = group;
            request.groups_len += 1;
        }
        request
    }

    const fn bare(server: &'a str) -> Self {
        Self {
            server,
            node: None,
            zone: None,
            base: None,
            shadow: false,
            groups: [""; GROUPS_MAX],
            groups_len: 0,
        }
    }
}

/// The length of the first line with its line end, if it has one.
#[must_use]
pub fn line_length(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n').map(|at| at + 1)
}

struct Reader<'a> {
    request: Request<'a>,
    in_keys: bool,
    mode: bool,
}

impl<'a> Reader<'a> {
    fn word(&mut self, word: &'a str) -> Result<(), RequestError> {
        if let Some((key, value)) = word.split_once('=') {
            self.in_keys = true;
            self.key(key, value)
        } else {
            self.group(word)
        }
    }

    fn group(&mut self, word: &'a str) -> Result<(), RequestError> {
        if self.in_keys {
            return Err(RequestError::GroupAfterKey(word.to_owned()));
        }
        name::check(word).map_err(|error| RequestError::Group {
            word: word.to_owned(),
            error,
        })?;
        let request = &mut self.request;
        if request.groups().contains(&word) {
            return Err(RequestError::GroupTwice(word.to_owned()));
        }
        let slot = request
            .groups
            .get_mut(request.groups_len)
            .ok_or(RequestError::TooManyGroups)?;
        *slot = word;
        request.groups_len += 1;
        Ok(())
    }

    fn key(&mut self, key: &str, value: &'a str) -> Result<(), RequestError> {
        let request = &mut self.request;
        match key {
            "node" => set_name(&mut request.node, "node", value),
            "zone" => set_name(&mut request.zone, "zone", value),
            "base" => set_base(&mut request.base, value),
            "mode" => {
                once("mode", self.mode, value)?;
                if value != "shadow" {
                    return Err(RequestError::Mode(value.to_owned()));
                }
                self.mode = true;
                request.shadow = true;
                Ok(())
            }
            _ => Err(RequestError::UnknownKey(key.to_owned())),
        }
    }
}

fn once(key: &'static str, taken: bool, value: &str) -> Result<(), RequestError> {
    if taken {
        return Err(RequestError::KeyTwice(key));
    }
    if value.is_empty() {
        return Err(RequestError::EmptyValue(key));
    }
    Ok(())
}

fn set_name<'a>(
    slot: &mut Option<&'a str>,
    key: &'static str,
    value: &'a str,
) -> Result<(), RequestError> {
    once(key, slot.is_some(), value)?;
    let checked = name::check(value).map_err(|error| RequestError::Value {
        key,
        value: value.to_owned(),
        error,
    })?;
    *slot = Some(checked);
    Ok(())
}

fn set_base(slot: &mut Option<u16>, value: &str) -> Result<(), RequestError> {
    once("base", slot.is_some(), value)?;
    let digits = value.bytes().all(|b| b.is_ascii_digit());
    let base = value
        .parse()
        .ok()
        .filter(|&base| digits && (1..=BASE_MAX).contains(&base));
    *slot = Some(base.ok_or_else(|| RequestError::Base(value.to_owned()))?);
    Ok(())
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let line = line_length(bytes).map_or(bytes, |length| &bytes[..length - 1]);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line without a literal `\n` at its end and without one pair of quotes around it, in
/// whichever order a run-time command left them.
fn unwrapped(line: &str) -> &str {
    let line = without_literal_newline(line.trim_ascii());
    for quote in ['"', '\''] {
        if let Some(inner) = line
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
        {
            return without_literal_newline(inner);
        }
    }
    line
}

fn without_literal_newline(text: &str) -> &str {
    text.strip_suffix("\\n").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8], expected: Result<&str, RequestError>) {
        let got = Request::parse(bytes).map(|r| {
            format!(
                "{} {:?} node={:?} zone={:?} base={:?} shadow={}",
                r.server,
                r.groups(),
                r.node,
                r.zone,
                r.base,
                r.shadow
            )
        });
        let shown = String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(got, expected.map(str::to_owned), "{shown:?}");
    }

    #[test]
    fn every_form_of_the_line_is_read() {
        let plain = "web/cny [\"canary\"] node=None zone=None base=None shadow=false";
        for form in [
            "web/cny canary\n",
            "web/cny canary\r\n",
            "web/cny canary",
            "  web/cny\t canary  \n",
            "\"web/cny canary\\n\"",
            "'web/cny canary\\n'",
            "\"web/cny canary\"\\n",
            "web/cny canary\\n",
            "\"web/cny canary\"\r\n",
            "web/cny canary\nsecond line\n",
        ] {
            check(form.as_bytes(), Ok(plain));
        }
        check(
            b"web/cny canary ci node=lb-1 zone=us-east1-b base=100 mode=shadow\n",
            Ok(
                "web/cny [\"canary\", \"ci\"] node=Some(\"lb-1\") zone=Some(\"us-east1-b\") base=Some(100) shadow=true",
            ),
        );
        check(
            b"web/cny base=256 node=::1\n",
            Ok("web/cny [] node=Some(\"::1\") zone=None base=Some(256) shadow=false"),
        );
    }

    #[test]
    fn a_typing_error_is_seen() {
        let word = |text: &str| text.to_owned();
        for (line, error) in [
            ("", RequestError::Empty),
            (" \r\n", RequestError::Empty),
            ("\"\"", RequestError::Empty),
            (
                "web\n",
                RequestError::ServerId {
                    word: word("web"),
                    error: NameError::ServerId,
                },
            ),
            (
                "GET / HTTP/1.1\r\n",
                RequestError::ServerId {
                    word: word("GET"),
                    error: NameError::ServerId,
                },
            ),
            (
                "web/a grüp\n",
                RequestError::Group {
                    word: word("grüp"),
                    error: NameError::Character('ü'),
                },
            ),
            ("web/a g g\n", RequestError::GroupTwice(word("g"))),
            ("web/a 1 2 3 4 5 6 7 8 9\n", RequestError::TooManyGroups),
            ("web/a base=1 g\n", RequestError::GroupAfterKey(word("g"))),
            ("web/a bse=1\n", RequestError::UnknownKey(word("bse"))),
            ("web/a =1\n", RequestError::UnknownKey(word(""))),
            ("web/a node=x node=x\n", RequestError::KeyTwice("node")),
            ("web/a base=1 base=1\n", RequestError::KeyTwice("base")),
            (
                "web/a mode=shadow mode=shadow\n",
                RequestError::KeyTwice("mode"),
            ),
            ("web/a node=\n", RequestError::EmptyValue("node")),
            ("web/a zone= base=1\n", RequestError::EmptyValue("zone")),
            ("web/a base=\n", RequestError::EmptyValue("base")),
            ("web/a base=0\n", RequestError::Base(word("0"))),
            ("web/a base=257\n", RequestError::Base(word("257"))),
            ("web/a base=+1\n", RequestError::Base(word("+1"))),
            (
                "web/a base=99999999999\n",
                RequestError::Base(word("99999999999")),
            ),
            ("web/a mode=live\n", RequestError::Mode(word("live"))),
            (
                "web/a node=a=b\n",
                RequestError::Value {
                    key: "node",
                    value: word("a=b"),
                    error: NameError::Character('='),
                },
            ),
        ] {
            check(line.as_bytes(), Err(error));
        }
        check(b"web/\xff\n", Err(RequestError::NotText));
    }

    #[test]
    fn the_length_limit_counts_the_line_end() {
        let longest = format!("web/a{}\n", " ".repeat(REQUEST_BYTES_MAX - 6));
        assert_eq!(longest.len(), REQUEST_BYTES_MAX);
        assert!(Request::parse(longest.as_bytes()).is_ok());
        let longer = format!("web/a{}\n", " ".repeat(REQUEST_BYTES_MAX - 5));
        check(longer.as_bytes(), Err(RequestError::TooLong));
        check(&[b'x'; REQUEST_BYTES_MAX + 1], Err(RequestError::TooLong));
    }

    prop_compose! {
        fn any_name()(text in "[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,12}") -> String { text }
    }

    proptest! {
        #[test]
        fn a_rendered_request_reads_back(
            backend in any_name(), server in any_name(),
            groups in proptest::collection::btree_set(any_name(), 0..=GROUPS_MAX),
            node in proptest::option::of(any_name()), zone in proptest::option::of(any_name()),
            base in proptest::option::of(1u16..=256), shadow: bool,
        ) {
            let mut line = format!("{backend}/{server}");
            for group in &groups { line += &format!(" {group}"); }
            if shadow { line += " mode=shadow"; }
            if let Some(base) = base { line += &format!(" base={base}"); }
            if let Some(zone) = &zone { line += &format!(" zone={zone}"); }
            if let Some(node) = &node { line += &format!(" node={node}"); }
            let request = Request::parse(line.as_bytes()).unwrap();
            prop_assert_eq!(request.server, format!("{backend}/{server}"));
            prop_assert!(request.groups().iter().copied().eq(groups.iter().map(String::as_str)));
            prop_assert_eq!(request.node, node.as_deref());
            prop_assert_eq!(request.zone, zone.as_deref());
            prop_assert_eq!((request.base, request.shadow), (base, shadow));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..1_100)) {
            let _ = Request::parse(&bytes);
        }

        #[test]
        fn any_words_are_read_or_refused(line in "[a-z/=\"'\\\\n \r0-9]{0,60}") {
            let _ = Request::parse(line.as_bytes());
        }
    }
}
