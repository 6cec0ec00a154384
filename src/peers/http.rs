//! A question over HTTP: `GET <base>/peer/v1/word?known=<edition>`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::task::spawn_blocking;

use super::client::{Failed, Method, PeerClient, Request};
use super::{Ask, Peer};
use crate::domain::authority::Heard;
use crate::domain::token::Token;
use crate::domain::word::{Identity, Word};
use crate::http_client::Authority;

/// The most bytes of a word. Consul's own largest listing is smaller; more is no peer's.
pub const WORD_BYTES_MAX: usize = 64 << 20;

/// A larger word is read on a thread of its own; this much takes less than a millisecond.
const READ_INLINE_BYTES_MAX: usize = 64 << 10;

/// Asks over HTTP.
#[derive(Debug)]
pub struct HttpAsk {
    client: PeerClient,
    identity: Arc<Identity>,
}

impl HttpAsk {
    /// Asks as `identity`, and with the token that is held at that moment; peers at `https://` are
    /// known by `authorities`. `limit` is the longest that connecting, and that the whole
    /// exchange, may take. Connects to nothing yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(
        identity: Arc<Identity>,
        token: Arc<ArcSwapOption<Token>>,
        authorities: Vec<Authority>,
        limit: Duration,
    ) -> io::Result<Self> {
        let client = PeerClient::new(token, authorities, limit)?;
        Ok(Self { client, identity })
    }

    /// Sends this token from now on.
    pub fn set_token(&self, token: Option<Token>) {
        self.client.set_token(token);
    }

    async fn word(&self, peer: &Peer, known: Option<u64>) -> Result<Word, Failed> {
        let known = known.map_or_else(String::new, |edition| format!("?known={edition}"));
        let question = Request {
            method: Method::GET,
            path: format!("/peer/v1/word{known}"),
            answer_bytes_max: WORD_BYTES_MAX,
        };
        let body = self.client.exchange(peer, question).await?;
        parse(body).await.map_err(|error| {
            Failed::Silent(format!(
                "{}: what came is no word of a replica: {error}",
                peer.url
            ))
        })
    }
}

impl Ask for HttpAsk {
    async fn ask(&self, peer: &Peer, known: Option<u64>) -> Heard {
        let word = match self.word(peer, known).await {
            Ok(word) => word,
            Err(Failed::Refused) => {
                let refused = self.client.all_addresses_refuse(peer).await;
                return refused.map_or_else(Heard::Silent, |()| Heard::Refused);
            }
            Err(Failed::Silent(text)) => return Heard::Silent(text),
        };
        match self.identity.mismatch(&word.identity, &peer.slot) {
            Some(text) => Heard::Stranger(text),
            None => Heard::Word(Box::new(word)),
        }
    }
}

/// All peers are asked from one task: a large memory is read beside it, or the answers of the
/// others would be late.
async fn parse(body: Vec<u8>) -> Result<Word, String> {
    if body.len() <= READ_INLINE_BYTES_MAX {
        return Word::parse(&body).map_err(|error| error.to_string());
    }
    let reading = spawn_blocking(move || Word::parse(&body)).await;
    reading
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}
