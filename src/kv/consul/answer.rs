//! What an answer of Consul means.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::environment::TokenSource;
use super::failure::Failure;
use crate::kv::KvError;

/// How much of a body is repeated in a message, in characters.
const EXCERPT_CHARS_MAX: usize = 200;
/// How Consul says that a token or an auth method is not there.
const UNKNOWN: &str = "ACL not found";

/// An answer with any status, and the headers that count.
pub(super) struct Answer {
    pub(super) status: u16,
    /// `X-Consul-Index`. Every answer of a KV read has it, 404 included.
    pub(super) index: Option<u64>,
    known_leader: bool,
    filtered: bool,
    location: Option<String>,
    /// `Date`: the agent's clock.
    pub(super) date: Option<Timestamp>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn new(response: http02::Response<Vec<u8>>) -> Self {
        let (parts, body) = response.into_parts();
        let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok());
        let is = |name, value| header(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
        Self {
            status: parts.status.as_u16(),
            // Consul's are above 0. To believe a 0 would break the history for good.
            index: header("x-consul-index")
                .and_then(|text| text.parse().ok())
                .filter(|&index| index > 0),
            // Only some answers have the header; none is no bad sign.
            known_leader: !is("x-consul-knownleader", "false"),
            // Since 1.11, and for known tokens alone: its absence proves nothing.
            filtered: is("x-consul-results-filtered-by-acls", "true"),
            location: header("location").map(excerpt),
            date: header("date").and_then(|text| DateTimeParser::new().parse_timestamp(text).ok()),
            body,
        }
    }

    /// Lets pass what a read may be answered with: 200 and 404, both with an index.
    pub(super) fn of_read(self, what: &str, token: &TokenSource) -> Result<(Self, u64), KvError> {
        match self.status {
            200 | 404 => {}
            403 => return Err(denied(what, &self.text(), token)),
            429 | 500.. => return Err(KvError::Unreachable(self.describe())),
            _ => return Err(KvError::BadAnswer(self.describe())),
        }
        let Some(index) = self.index else {
            let text = format!("{}, without X-Consul-Index: no Consul", self.describe());
            return Err(KvError::BadAnswer(text));
        };
        if !self.known_leader {
            let text = "the agent knows no leader (X-Consul-KnownLeader: false)";
            return Err(KvError::Unreachable(text.to_owned()));
        }
        if self.filtered {
            return Err(KvError::Denied(format!(
                "the token sees only a part of {what} (X-Consul-Results-Filtered-By-ACLs): \
                 it needs `list` on the whole prefix"
            )));
        }
        Ok((self, index))
    }

    /// The body's beginning, in one line.
    pub(super) fn text(&self) -> String {
        excerpt(&String::from_utf8_lossy(&self.body))
    }

    /// The same without a secret that the request held and the answer may repeat.
    pub(super) fn text_without(&self, secret: &str) -> String {
        let text = String::from_utf8_lossy(&self.body);
        excerpt(&text.replace(secret, "<hidden>"))
    }

    /// Consul does not know the token (or, of a login, the auth method). Lacking rights are a 403
    /// as well.
    pub(super) fn is_of_unknown_token(&self) -> bool {
        self.status == 403 && self.text().contains(UNKNOWN)
    }

    /// Status, where it would lead, and the body's beginning.
    pub(super) fn describe(&self) -> String {
        match (&self.location, self.text()) {
            (Some(location), _) => {
                format!(
                    "HTTP {}, a redirect to {location:?}, which is not followed",
                    self.status
                )
            }
            (None, text) if text.is_empty() => format!("HTTP {}", self.status),
            (None, text) => format!("HTTP {}: {text}", self.status),
        }
    }
}

/// The refusal, with what to do about it.
pub(super) fn denied(what: &str, text: &str, token: &TokenSource) -> KvError {
    let source = match token {
        TokenSource::None => {
            return KvError::Denied(format!(
                "{what}: no token was sent: set CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE \
                 (Consul: {text})"
            ));
        }
        TokenSource::Given(_) => "CONSUL_HTTP_TOKEN".to_owned(),
        TokenSource::File(path) => format!("CONSUL_HTTP_TOKEN_FILE, {}", path.display()),
        TokenSource::Login(login) => format!(
            "of the login with {:?}, which has what the method's binding rules gave it then",
            login.method
        ),
    };
    if text.contains(UNKNOWN) {
        return KvError::Denied(format!(
            "{what}: Consul does not know the token ({source}): it was deleted, has expired, or \
             is of another cluster (Consul: {text})"
        ));
    }
    KvError::Denied(format!(
        "{what}: the token ({source}) lacks the right (Consul: {text})"
    ))
}

/// A read that got no whole answer.
pub(super) fn read_failed(failure: Failure) -> KvError {
    match failure {
        Failure::NotSent(text) | Failure::Lost(text) => KvError::Unreachable(text),
        Failure::TooLarge(text) => KvError::BadAnswer(text),
        Failure::NoToken(error) => error,
    }
}

/// A write that got no whole answer.
pub(super) fn write_failed(failure: Failure) -> KvError {
    match failure {
        Failure::NotSent(text) => KvError::Unreachable(text),
        Failure::Lost(text) | Failure::TooLarge(text) => KvError::OutcomeUnknown(text),
        // Nothing was written: the request was not sent, or refused.
        Failure::NoToken(error) => error,
    }
}

fn excerpt(text: &str) -> String {
    let one_line = text.trim().chars().take(EXCERPT_CHARS_MAX);
    one_line
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
