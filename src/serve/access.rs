//! Who may see what: the tokens and the certificate of the HTTP listener, read at the start and again
//! at SIGHUP.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{error, info};

use super::peers;
use crate::config::{Config, TlsFiles};
use crate::http::Access;
use crate::secret_file;

/// A larger file is no certificate's or key's: a chain of four takes 8 KiB.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Reads tokens and certificate, if there are any.
///
/// # Errors
/// When a file cannot be used; the text names it and its setting.
pub(super) fn read(config: &Config) -> anyhow::Result<Access> {
    let access = views(config)?;
    access.peers.store(peers::token(config)?.map(Arc::new));
    Ok(access)
}

/// Without the peers' token, which has its own reload.
fn views(config: &Config) -> anyhow::Result<Access> {
    let access = Access::default();
    if let Some(file) = &config.http.access.token_file {
        let token = secret_file::token(file).context("http.token_file")?;
        access.viewers.store(Some(Arc::new(token)));
    }
    if let Some(files) = &config.http.tls {
        access.tls.store(Some(Arc::new(server(files)?)));
    }
    Ok(access)
}

/// Reads those of the views again. What is wrong keeps what was in use.
pub(super) fn reload(config: &Config, access: &Access) {
    if config.http.access.token_file.is_none() && config.http.tls.is_none() {
        return;
    }
    match views(config) {
        Ok(new) => {
            access.viewers.store(new.viewers.load_full());
            access.tls.store(new.tls.load_full());
            info!("token and certificate of the HTTP listener were read anew");
        }
        Err(error) => error!("the HTTP listener's old ones stay in use: {error:#}"),
    }
}

fn server(files: &TlsFiles) -> anyhow::Result<ServerConfig> {
    let certificates = certificates(&files.certificate).context("http.certificate_file")?;
    let key = key(&files.key).context("http.key_file")?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let server = builder
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    let mut server = server.context("http.certificate_file and http.key_file")?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(server)
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let place = || file.display().to_string();
    let (pem, _) = pem(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.with_context(place)?;
    anyhow::ensure!(
        !certificates.is_empty(),
        "{}: holds no PEM certificate",
        place()
    );
    Ok(certificates)
}

fn key(file: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let (pem, metadata) = pem(file)?;
    secret_file::warn_of_readers(file, &metadata, "private key");
    let key = PrivateKeyDer::from_pem_slice(&pem);
    key.with_context(|| format!("{}: holds no PEM private key", file.display()))
}

fn pem(file: &Path) -> anyhow::Result<(Vec<u8>, fs::Metadata)> {
    let place = || file.display().to_string();
    let metadata = fs::metadata(file).with_context(place)?;
    anyhow::ensure!(metadata.is_file(), "{}: no regular file", place());
    let size = metadata.len();
    anyhow::ensure!(size <= PEM_BYTES_MAX, "{}: {size} bytes", place());
    Ok((fs::read(file).with_context(place)?, metadata))
}
