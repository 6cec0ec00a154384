//! Logins and logouts on the wire: `POST /v1/acl/login` and `/v1/acl/logout`
//! (<https://developer.hashicorp.com/consul/api-docs/acl>; JWT methods since Consul 1.8).
//!
//! They go past rustify, which would show a request's body in its traces.

use std::fmt;
use std::time::Duration;

use http02::Request;
use http02::request::Builder;
use jiff::Timestamp;
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, read_failed};
use super::credentials;
use super::environment::{Login, Secret};
use super::transport::Connection;
use crate::kv::KvError;

/// What the token's description says in Consul, so that a person knows whose it is.
const PROGRAM: &str = "tidegate";
/// Words that stand in Consul's answer when it has judged the bearer token, and in none of an
/// outage. 1.8 answers both with 500.
const JUDGED: [&str; 5] = ["token", "claim", "jws", "jwt", "signature"];

/// A token that a login gave.
pub(super) struct Granted {
    /// The token as a header that is never printed.
    pub(super) secret: HeaderValue,
    /// By which Consul's own commands name it; no secret.
    accessor: String,
    /// When Consul forgets it, where the method sets an end (`MaxTokenTTL`).
    pub(super) end: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LoginRequest<'a> {
    auth_method: &'a str,
    bearer_token: &'a str,
    meta: Meta,
}

#[derive(Serialize)]
struct Meta {
    program: &'static str,
}

#[derive(Deserialize)]
struct Token {
    #[serde(rename = "AccessorID")]
    accessor: String,
    #[serde(rename = "SecretID")]
    secret: String,
    /// RFC 3339.
    #[serde(rename = "ExpirationTime", default)]
    end: Option<String>,
}

/// Signs in. The bearer token is read anew: those of instances and CI jobs are replaced often.
pub(super) async fn sign_in(
    connection: &Connection,
    login: &Login,
    limit: Duration,
) -> Result<Granted, KvError> {
    let bearer = credentials::bearer(&login.bearer).map_err(|error| {
        let text = format!("{}: {}", error.variable, error.reason);
        // Consul was not asked: this is no word of its.
        KvError::Unreachable(format!("the login could not be tried: {text}"))
    })?;
    let body = serde_json::to_vec(&LoginRequest {
        auth_method: &login.method,
        bearer_token: bearer.expose(),
        meta: Meta { program: PROGRAM },
    });
    let body = body.map_err(|error| KvError::BadRequest(error.to_string()))?;
    let request = post(connection, "acl/login")
        .body(body)
        .map_err(unsendable)?;
    let answer = connection.send(request, None, limit).await;
    let answer = Answer::new(answer.map_err(read_failed)?);
    if answer.status != 200 {
        return Err(refused(&answer, login, &bearer));
    }
    // The body is not repeated in an error: it holds the secret.
    let bad = || KvError::BadAnswer("the login's answer is no token".to_owned());
    let token: Token = serde_json::from_slice(&answer.body).map_err(|_| bad())?;
    let mut secret = HeaderValue::from_str(&token.secret).map_err(|_| bad())?;
    if secret.is_empty() {
        return Err(bad());
    }
    secret.set_sensitive(true);
    Ok(Granted {
        secret,
        accessor: token.accessor,
        end: token.end.and_then(|end| end.parse().ok()),
    })
}

/// Gives a token back. One that Consul does not know any more is no failure.
pub(super) async fn sign_out(
    connection: &Connection,
    granted: &Granted,
    limit: Duration,
) -> Result<(), KvError> {
    let request = post(connection, "acl/logout").body(Vec::new());
    let request = request.map_err(unsendable)?;
    let answer = connection.send(request, Some(&granted.secret), limit).await;
    let why = match answer.map(Answer::new) {
        Ok(answer) if answer.status == 200 || answer.is_of_unknown_token() => return Ok(()),
        Ok(answer) => answer.describe(),
        Err(failure) => failure.to_string(),
    };
    Err(KvError::Unreachable(format!(
        "the token of the login stays in Consul until it expires, or until `consul acl token \
         delete -id {}`: the logout failed: {why}",
        granted.accessor
    )))
}

fn post(connection: &Connection, path: &str) -> Builder {
    Request::builder()
        .method("POST")
        .uri(connection.url(path).as_str())
}

#[allow(clippy::needless_pass_by_value, reason = "it stands in a map_err")]
fn unsendable(error: http02::Error) -> KvError {
    KvError::BadRequest(error.to_string())
}

/// Why there is no token, and what to do about it. Each answer was seen from Consul 1.8.
fn refused(answer: &Answer, login: &Login, bearer: &Secret) -> KvError {
    let Login {
        method,
        bearer: source,
    } = login;
    let said = answer.text_without(bearer.expose());
    let judged = JUDGED
        .iter()
        .any(|word| said.to_ascii_lowercase().contains(word));
    let text = match answer.status {
        401 => {
            "Consul's ACLs are disabled: drop consul.login_method, no token is needed".to_owned()
        }
        403 if answer.is_of_unknown_token() => format!(
            "consul.login_method: Consul has no auth method {method:?}; `consul acl auth-method \
             list` names those that there are"
        ),
        403 => format!(
            "the bearer token is valid ({}), but no binding rule of the auth method {method:?} \
             gives it any rights: see `consul acl binding-rule list -method {method}`",
            source.setting()
        ),
        500.. if judged => format!(
            "the auth method {method:?} does not take the bearer token ({}): it must be unexpired, \
             of the method's issuer and audience, and signed by one of its keys",
            source.setting()
        ),
        429 | 500.. => {
            return KvError::Unreachable(format!("the login: HTTP {}: {said}", answer.status));
        }
        status => return KvError::BadAnswer(format!("the login: HTTP {status}: {said}")),
    };
    KvError::Denied(format!("the login: {text} (Consul: {said})"))
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted")
            .field("accessor", &self.accessor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::consul::environment::Bearer;

    const BEARER: &str = "eyJhbGciOi.hunter2.hunter2";

    fn refusal(status: u16, body: &str) -> KvError {
        let login = Login {
            method: "ci".to_owned(),
            bearer: Bearer::Given(Secret::new(BEARER)),
        };
        let response = http02::Response::builder().status(status);
        let response = response.body(body.as_bytes().to_vec());
        let answer = Answer::new(response.expect("these are statuses"));
        refused(&answer, &login, &Secret::new(BEARER))
    }

    /// What Consul said in outages, with and without an agent between.
    #[test]
    fn an_outage_is_no_refusal() {
        for (status, body) in [
            (500, "No cluster leader"),
            (500, "rpc error making call: No cluster leader"),
            (500, "rpc error making call: EOF"),
            (
                500,
                "rpc error getting client: failed to get conn: dial tcp 127.0.0.1:8300: connect: refused",
            ),
            (
                500,
                "rpc error getting client: failed to get conn: rpc error: lead thread didn't get connection",
            ),
            (500, "leadership lost while committing log"),
            (500, "The ACL system is currently in legacy mode."),
            (500, ""),
            (429, "Your IP is issuing too many concurrent connections"),
        ] {
            let error = refusal(status, body);
            assert!(
                matches!(error, KvError::Unreachable(_)),
                "{body:?}: {error:?}"
            );
        }
    }

    #[test]
    fn a_judged_bearer_token_is_a_refusal_and_is_never_repeated() {
        for (status, body) in [
            (
                500,
                "error validating claims: aud claim does not match any bound audience",
            ),
            (
                500,
                "rpc error making call: error parsing token: three parts",
            ),
            (
                500,
                "no known key successfully validated the token signature",
            ),
            (403, "rpc error making call: ACL not found"),
            (403, "Permission denied"),
            (401, "ACL support disabled"),
            (500, "error parsing token: eyJhbGciOi.hunter2.hunter2"),
            (403, "Permission denied: eyJhbGciOi.hunter2.hunter2"),
        ] {
            let error = refusal(status, body);
            assert!(matches!(error, KvError::Denied(_)), "{body:?}: {error:?}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
