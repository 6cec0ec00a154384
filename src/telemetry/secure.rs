//! TLS to the collector, by OpenTelemetry's own variables.

use std::path::Path;

use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};

use super::traces::{ENDPOINTS, first};
use crate::pem;

/// The authorities that vouch for the collector; the first of each counts (OpenTelemetry
/// specification, protocol exporter). Without one the system's are trusted.
const AUTHORITIES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
/// What this program shows of itself, and the key of it.
const CLIENT_CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
];
const CLIENT_KEY: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
];
/// For an address without a scheme: `true` is http, anything else https.
const INSECURE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_INSECURE",
];

/// How the collector is spoken to; `None`: in the clear. The files are read once, at the start.
///
/// # Errors
/// Which variable cannot be used, and why.
pub(super) fn tls() -> Result<Option<ClientTlsConfig>, String> {
    if !is_https() {
        let given = [AUTHORITIES, CLIENT_CERTIFICATE, CLIENT_KEY];
        return match given.iter().find_map(first) {
            Some((name, _)) => Err(format!(
                "{name} is set, and the collector's address is no https:// one"
            )),
            None => Ok(None),
        };
    }
    let tls = ClientTlsConfig::new();
    let tls = match first(&AUTHORITIES) {
        Some((name, file)) => {
            let authorities = pem::certificates(Path::new(&file)).map_err(|why| of(name, &why))?;
            tls.ca_certificate(Certificate::from_pem(authorities.pem))
        }
        None => tls.with_native_roots(),
    };
    Ok(Some(match identity()? {
        Some(identity) => tls.identity(identity),
        None => tls,
    }))
}

fn identity() -> Result<Option<Identity>, String> {
    let (certificate, key) = match (first(&CLIENT_CERTIFICATE), first(&CLIENT_KEY)) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some((name, _)), None) => return Err(alone(name, CLIENT_KEY[1])),
        (None, Some((name, _))) => return Err(alone(name, CLIENT_CERTIFICATE[1])),
    };
    let (name, file) = certificate;
    let certificate = pem::certificates(Path::new(&file)).map_err(|why| of(name, &why))?;
    let (name, file) = key;
    let key = pem::key(Path::new(&file)).map_err(|why| of(name, &why))?;
    Ok(Some(Identity::from_pem(certificate.pem, key.pem)))
}

fn is_https() -> bool {
    let address = first(&ENDPOINTS).map_or_else(String::new, |(_, address)| address);
    match address.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("https"),
        None => !first(&INSECURE).is_some_and(|(_, value)| value.eq_ignore_ascii_case("true")),
    }
}

fn of(name: &str, why: &str) -> String {
    format!("{name}: {why}")
}

fn alone(name: &str, missing: &str) -> String {
    format!("{name} is set without {missing}")
}
