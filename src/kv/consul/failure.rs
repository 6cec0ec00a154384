//! Why a request got no whole answer, for the caller (may it have been acted on?) and for the
//! person (what to mend?).

use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use crate::causes::{chain, root_cause};
use crate::kv::KvError;

/// What hyper says of a connection that ended between its handshake and the first request, which
/// was not handed to it any more (`SendRequest::try_send_request` of hyper 1). With TLS 1.3 a
/// server refuses a missing client certificate only then, and whether its alert or its close is
/// seen first is a matter of chance.
const CLOSED_AT_ONCE: &str = "connection was not ready";
/// The remedy for that.
const CERTIFICATE: &str = " (it asks for a client certificate that it trusts: CONSUL_CLIENT_CERT \
                           and CONSUL_CLIENT_KEY)";

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing of the request can have been acted on.
    #[error("{0}")]
    NotSent(String),
    /// The request may have been acted on.
    #[error("{0}")]
    Lost(String),
    /// The answer is larger than the limit.
    #[error("{0}")]
    TooLarge(String),
    /// No login gave a token that Consul takes: nothing of the request was acted on.
    #[error("{0}")]
    NoToken(KvError),
}

impl Failure {
    /// Classifies an error of the HTTP client.
    pub(super) fn new(address: &str, error: &reqwest::Error, limit: Duration) -> Self {
        let tls = chain(error).find_map(|e| e.downcast_ref::<rustls::Error>());
        let refused = matches!(tls, Some(rustls::Error::AlertReceived(_)));
        let what = match (error.is_timeout(), error.is_connect()) {
            (true, true) => "no connection within its time limit".to_owned(),
            (true, false) => format!("no whole answer within {limit:?}"),
            (false, _) => root_cause(error),
        };
        let closed_at_once = what == CLOSED_AT_ONCE;
        let hint = match tls {
            Some(error) => hint(error),
            None if address.starts_with("https:") && closed_at_once => CERTIFICATE,
            None => "",
        };
        let text = format!("{address}: {what}{hint}");
        // A TLS alert ends the handshake, so nothing of the request was read.
        if error.is_connect() || error.is_builder() || refused || closed_at_once {
            Self::NotSent(text)
        } else {
            Self::Lost(text)
        }
    }
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum with dozens of cases; those without a remedy have no hint"
)]
fn hint(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::HandshakeFailure,
        ) => CERTIFICATE,
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            " (its certificate is of an unknown authority: CONSUL_CACERT)"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => " (its certificate is for another name: CONSUL_TLS_SERVER_NAME)",
        rustls::Error::InvalidMessage(_) => " (it does not speak TLS: CONSUL_HTTP_ADDR)",
        _ => "",
    }
}
