//! Certificates and keys in files, as PEM (RFC 7468).

use std::fmt::Display;
use std::fs::{self, Metadata};
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

/// What a file of a private key holds.
#[derive(Debug)]
pub struct Key {
    /// The file as it is.
    pub pem: Vec<u8>,
    /// The key.
    pub der: PrivateKeyDer<'static>,
    /// Who may read it.
    pub metadata: Metadata,
}

/// A larger file is no certificate's or key's: a chain of four takes 8 KiB, all authorities of a
/// system 250 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads certificates.
///
/// # Errors
/// The file, and why it cannot be read or holds none.
pub fn certificates(file: &Path) -> Result<Certificates, String> {
    let (pem, _) = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let all = all.map_err(|error| unusable(file, &error))?;
    if all.is_empty() {
        return Err(unusable(file, &"holds no PEM certificate"));
    }
    Ok(Certificates { pem, all })
}

/// Reads a private key.
///
/// # Errors
/// The file, and why it cannot be read or holds none.
pub fn key(file: &Path) -> Result<Key, String> {
    let (pem, metadata) = read(file)?;
    let der = PrivateKeyDer::from_pem_slice(&pem);
    let der = der.map_err(|error| unusable(file, &format!("holds no PEM private key: {error}")))?;
    Ok(Key { pem, der, metadata })
}

fn read(file: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let failed = |error| unusable(file, &error);
    let metadata = fs::metadata(file).map_err(failed)?;
    if !metadata.is_file() {
        return Err(unusable(file, &"no regular file"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(unusable(file, &format!("{} bytes", metadata.len())));
    }
    let pem = fs::read(file).map_err(failed)?;
    Ok((pem, metadata))
}

fn unusable(file: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", file.display())
}
