//! Who may ask at which port, and what both sides show.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::settings::Setting;
use crate::domain::network::Networks;

/// The listener for health, metrics and the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What it shows to whoever begins with TLS; none: it speaks plain HTTP only.
    pub tls: Option<TlsFiles>,
    /// What is asked of its viewers, and how replicas are known.
    pub access: ReplicaAccess,
}

/// Our certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with its chain if it has one.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What is shown to a replica that is asked, and how it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaAccess {
    /// Where the secret is for which the views are shown.
    pub token_file: Option<PathBuf>,
    /// Where the authorities are by which replicas at `https://` are known.
    pub ca_file: Option<PathBuf>,
}

/// `10.20.0.0/16,2001:db8::/32`. An empty list would let in everybody: a template that found no
/// range must not.
pub(super) fn allow(_: &Setting, text: &str) -> Result<Networks, String> {
    if text.is_empty() {
        return Err("empty; leave it out to answer every address".to_owned());
    }
    Networks::parse(text.split(',').map(str::trim)).map_err(|error| error.to_string())
}

pub(super) fn file(_: &Setting, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("empty; leave it out where there is none".to_owned());
    }
    Ok(PathBuf::from(text))
}
