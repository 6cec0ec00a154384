//! Why a request got no whole answer, for the caller (may it have been acted on?) and for the
//! person (what to mend?).

use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use crate::causes::{chain, root_cause};
use crate::kv::KvError;

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
        let hint = tls.map_or("", hint);
        let text = format!("{address}: {what}{hint}");
        // A TLS alert ends the handshake, so nothing of the request was read.
        if error.is_connect() || error.is_builder() || refused {
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
        ) => {
            " (it asks for a client certificate that it trusts: \
             CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY)"
        }
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
