//! `/peer/v1/word`: what the replicas ask each other.

use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::admission::bearer;
use super::aside::aside;
use super::{Caller, Pages};
use crate::clock;
use crate::domain::token::Token;

/// How many words with a whole memory are written at once; further ones wait.
const MEMORIES_AT_ONCE_MAX: usize = 2;

static MEMORIES: Semaphore = Semaphore::const_new(MEMORIES_AT_ONCE_MAX);

/// A later version may ask with more: what is not known is let pass.
#[derive(Deserialize)]
pub(super) struct WordQuery {
    /// The edition of this replica's memory that the asker has.
    known: Option<u64>,
}

/// Why a caller is told nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It has not our token.
    Token,
    /// It is another machine, and we have no token.
    Stranger,
}

/// `GET /peer/v1/word[?known=EDITION]`. Also while this replica is silent: the others need to know.
pub(super) async fn word(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(query): Query<WordQuery>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = admitted(&pages, &caller, &headers) {
        return refused.into_response();
    }
    let told = {
        let published = pages.store.load();
        let edition = published.memory.as_ref().map(|(edition, _)| *edition);
        edition.is_none() || edition == query.known
    };
    if told {
        return json(say(&pages, query.known));
    }
    // A memory of a large fleet takes a while to write; nothing else waits for it.
    match aside(&MEMORIES, move || say(&pages, query.known)).await {
        Ok(text) => json(text),
        Err(error) => {
            let text = format!("the word cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn say(pages: &Pages, known: Option<u64>) -> String {
    let published = pages.store.load();
    let stopping = pages.stopping.is_cancelled();
    let now = (clock::moment(), clock::now());
    let word = published.word(&pages.identity, known, stopping, now);
    word.to_json()
}

/// Whether who calls is a peer: it has the token, or without one it is on this machine.
pub(super) fn admitted(pages: &Pages, caller: &Caller, headers: &HeaderMap) -> Result<(), Refused> {
    let token = pages.access.peers.load();
    admit(token.as_deref(), bearer(headers), caller.is_local)
}

fn admit(token: Option<&Token>, sent: Option<&[u8]>, is_local: bool) -> Result<(), Refused> {
    match (token, sent) {
        (Some(token), Some(sent)) if token.matches(sent) => Ok(()),
        (Some(_), Some(_) | None) => Err(Refused::Token),
        (None, Some(_) | None) if is_local => Ok(()),
        (None, Some(_) | None) => Err(Refused::Stranger),
    }
}

pub(super) fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

impl Refused {
    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Token => {
                let text = "the token of the peers is missing or another one: give all replicas \
                            the same\n";
                let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
                (StatusCode::UNAUTHORIZED, challenge, text).into_response()
            }
            Self::Stranger => {
                let text = "without a token of the peers only this machine is answered: give all \
                            replicas the same\n";
                (StatusCode::FORBIDDEN, text).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn only_a_peer_is_told() {
        let token = Token::parse(TOKEN).unwrap();
        let (with, without) = (Some(&token), None);
        for (token, sent, is_local, expected) in [
            (with, Some(TOKEN), false, Ok(())),
            (with, Some("0123456789abcdeX"), true, Err(Refused::Token)),
            (with, Some(""), false, Err(Refused::Token)),
            (with, None, true, Err(Refused::Token)),
            (without, None, true, Ok(())),
            // It has one already, and we read ours later.
            (without, Some(TOKEN), true, Ok(())),
            (without, Some(TOKEN), false, Err(Refused::Stranger)),
            (without, None, false, Err(Refused::Stranger)),
        ] {
            let admitted = admit(token, sent.map(str::as_bytes), is_local);
            assert_eq!(admitted, expected, "{token:?} {sent:?} {is_local}");
        }
    }
}
