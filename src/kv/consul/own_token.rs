//! When a configured token ends: `GET /v1/acl/token/self`, which each token may ask about itself
//! (<https://developer.hashicorp.com/consul/api-docs/acl/tokens#read-self-token>).

use std::time::Duration;

use http02::Request;
use jiff::Timestamp;
use serde::Deserialize;

use super::ConsulKv;
use super::answer::Answer;
use super::environment::TokenSource;
use super::transport::Connection;
use crate::kv::expiries::Credential;

#[derive(Deserialize)]
struct Token {
    /// RFC 3339.
    #[serde(rename = "ExpirationTime", default)]
    end: Option<String>,
}

impl ConsulKv {
    /// Asks when a configured token ends; a login says so itself.
    pub async fn look_at_token(&self) {
        match &self.settings.token {
            TokenSource::None | TokenSource::Login(_) => {}
            TokenSource::Given(_) | TokenSource::File(_) => {
                let connection = self.connection.load_full();
                let limit = self.settings.limits.answer;
                if let Some(end) = end(&connection, limit).await {
                    self.expiries.set(Credential::Token, end);
                }
            }
        }
    }
}

/// When the connection's own token ends, `Some(None)` for one without an end; `None` when that was
/// not to be had: it is for showing alone, and the reads themselves say what is wrong.
async fn end(connection: &Connection, limit: Duration) -> Option<Option<Timestamp>> {
    let url = connection.url("acl/token/self");
    let request = Request::builder().method("GET").uri(url.as_str());
    let request = request.body(Vec::new()).ok()?;
    let answer = Answer::new(connection.send(request, None, limit).await.ok()?);
    if answer.status != 200 {
        return None;
    }
    let token: Token = serde_json::from_slice(&answer.body).ok()?;
    Some(token.end.and_then(|end| end.parse().ok()))
}
