//! Certificates and keys in files, as PEM (RFC 7468).

use std::fmt::Display;
use std::fs;
use std::path::Path;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a file of certificates holds.
#[derive(Debug)]
pub struct Certificates {
    /// The file as it is.
    pub pem: Vec<u8>,
    /// Each of them; one at least.
    pub all: Vec<CertificateDer<'static>>,
}

/// Reads certificates.
///
/// # Errors
/// The file, and why it cannot be read or holds none.
pub fn certificates(file: &Path) -> Result<Certificates, String> {
    let pem = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| unusable(file, &error))?;
    if all.is_empty() {
        return Err(unusable(file, &"holds no PEM certificate"));
    }
    Ok(Certificates { pem, all })
}

/// Reads a private key, and gives the file as it is.
///
/// # Errors
/// The file, and why it cannot be read or holds none.
pub fn key(file: &Path) -> Result<Vec<u8>, String> {
    let pem = read(file)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unusable(file, &error))?;
    Ok(pem)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", file.display())
}
