//! The HTTP client that everything that asks over HTTP begins with.

use std::path::Path;

use anyhow::Context as _;
use reqwest::{Certificate, Client, ClientBuilder, Response, redirect, retry};

use crate::pem;

/// A certificate authority.
pub type Authority = Certificate;

/// A client that does what it is told: no proxy of the environment, no redirect, no repetition.
pub fn builder() -> ClientBuilder {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It fails only if another thread was first, and then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
}

/// The same for plain HTTP: the system's authorities, which an image from scratch does not have,
/// are not needed.
pub fn plain() -> ClientBuilder {
    to_replicas(Vec::new())
}

/// The same for replicas, which are known by these authorities alone where they speak TLS.
pub fn to_replicas(authorities: Vec<Authority>) -> ClientBuilder {
    builder().tls_certs_only(authorities)
}

/// Reads a PEM file of authorities.
///
/// # Errors
/// When it cannot be read, or holds no certificate.
pub fn authorities(file: &Path) -> anyhow::Result<Vec<Authority>> {
    let certificates = pem::certificates(file).map_err(anyhow::Error::msg)?.all;
    let authorities = certificates.iter().map(|der| Certificate::from_der(der));
    let authorities: Result<_, _> = authorities.collect();
    authorities.with_context(|| file.display().to_string())
}

/// Why a body did not come whole.
#[derive(Debug)]
pub enum BodyError {
    /// It is longer than was asked for.
    TooLarge,
    /// It broke off.
    Broken(reqwest::Error),
}

/// Reads a body of at most so many bytes.
///
/// # Errors
/// See [`BodyError`]; of a longer one no more than that is held.
pub async fn body(response: &mut Response, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
