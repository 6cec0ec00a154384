//! The HTTP client that everything that asks over HTTP begins with.

use reqwest::{Client, ClientBuilder, Response, redirect, retry};

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

/// The same for replicas, which speak plain HTTP: the system's authorities, which an image from
/// scratch does not have, are not needed.
pub fn to_replicas() -> ClientBuilder {
    builder().tls_certs_only([])
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
