//! Who is shown the views: the page, the metrics and the API.
//!
//! | asked by | with a certificate | with a token besides |
//! |---|---|---|
//! | a probe: `/livez`, `/readyz` | answered, plain or over TLS | the same |
//! | a peer: `/peer/` | the peers' token decides (`peer`) | the same |
//! | anybody on this machine | shown, plain or over TLS | who has the token |
//! | another machine | over TLS only | who has the token |

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Caller, Pages};
use crate::domain::token::Token;

/// Why somebody is shown nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// It could be read on the way.
    Plain,
    /// The token is missing, or another one.
    Token,
}

/// Lets a request through that may see the views.
pub(super) async fn viewers(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let is_private = caller.is_local || caller.encryption.is_on();
    let needs_tls = pages.access.tls.load().is_some();
    let admitted = {
        let token = pages.access.viewers.load();
        admit(needs_tls, is_private, token.as_deref(), request.headers())
    };
    match admitted {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

fn admit(
    needs_tls: bool,
    is_private: bool,
    token: Option<&Token>,
    headers: &HeaderMap,
) -> Result<(), Refused> {
    // Before the token: whoever sent one without TLS is told so, whichever it was.
    if needs_tls && !is_private {
        return Err(Refused::Plain);
    }
    match token {
        None => Ok(()),
        Some(token) if bearer(headers).is_some_and(|sent| token.matches(sent)) => Ok(()),
        Some(token) if password(headers).is_some_and(|sent| token.matches(&sent)) => Ok(()),
        Some(_) => Err(Refused::Token),
    }
}

/// The credentials of `Authorization: Bearer` (RFC 6750).
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    credentials(headers, b"bearer ")
}

/// The password of `Authorization: Basic` (RFC 7617), whoever the user: browsers ask for nothing
/// else.
fn password(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut pair = STANDARD.decode(credentials(headers, b"basic ")?).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair.split_off(colon + 1))
}

/// What stands behind a scheme, whose case does not matter.
fn credentials<'a>(headers: &'a HeaderMap, scheme: &[u8]) -> Option<&'a [u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (begin, credentials) = value.split_at_checked(scheme.len())?;
    begin
        .eq_ignore_ascii_case(scheme)
        .then(|| credentials.trim_ascii())
}

impl Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Plain => {
                let text = "this replica is shown over TLS only: https://; without it other \
                            machines are answered at /livez and /readyz\n";
                (StatusCode::FORBIDDEN, text).into_response()
            }
            Self::Token => {
                const CHALLENGES: [(HeaderName, HeaderValue); 1] = [(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer, Basic realm=\"tidegate\", charset=\"UTF-8\""),
                )];
                let text = "the token of http.token_file is missing or another one: send it as \
                            `Authorization: Bearer`, or in a browser as the password\n";
                (StatusCode::UNAUTHORIZED, CHALLENGES, text).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(value).unwrap();
        headers.insert(header::AUTHORIZATION, value);
        headers
    }

    #[test]
    fn the_token_is_read_from_the_authorization_header() {
        for (value, expected) in [
            ("Bearer secret", Some("secret")),
            ("bearer  secret ", Some("secret")),
            ("Basic secret", None),
            ("Bearer", None),
            ("Bearer ", Some("")),
        ] {
            assert_eq!(
                bearer(&headers(value)),
                expected.map(str::as_bytes),
                "{value:?}"
            );
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
        for (pair, expected) in [
            ("ana:secret", Some("secret")),
            (":secret", Some("secret")),
            ("ana:with:colon", Some("with:colon")),
            ("secret", None),
        ] {
            let value = format!("Basic {}", STANDARD.encode(pair));
            let found = password(&headers(&value));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{pair:?}");
        }
        assert_eq!(password(&headers("Basic %")), None);
    }

    #[test]
    fn views_are_for_who_has_the_token_and_comes_by_a_private_way() {
        let token = Token::parse(TOKEN).unwrap();
        let (right, wrong) = (format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}x"));
        let (with, without) = (Some(&token), None);
        for (needs_tls, is_private, token, sent, expected) in [
            (false, false, without, None, Ok(())),
            (false, false, with, Some(&right), Ok(())),
            (false, false, with, Some(&wrong), Err(Refused::Token)),
            (false, true, with, None, Err(Refused::Token)),
            (true, false, without, None, Err(Refused::Plain)),
            (true, false, with, Some(&right), Err(Refused::Plain)),
            (true, true, without, None, Ok(())),
            (true, true, with, Some(&right), Ok(())),
            (true, true, with, None, Err(Refused::Token)),
        ] {
            let sent = sent.map_or_else(HeaderMap::new, |value| headers(value));
            let admitted = admit(needs_tls, is_private, token, &sent);
            assert_eq!(
                admitted, expected,
                "{needs_tls} {is_private} {token:?} {sent:?}"
            );
        }
    }
}
