//! Who may see what: the tokens and the certificate of the HTTP listener, read at the start and again
//! at SIGHUP.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tracing::{error, info};

use super::peers;
use crate::config::{Config, TlsFiles};
use crate::http::Access;
use crate::pem;
use crate::secret_file;

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
    let certificates = pem::certificates(&files.certificate);
    let certificates = certificates.map_err(|why| anyhow!("http.certificate_file: {why}"))?;
    let key = pem::key(&files.key).map_err(|why| anyhow!("http.key_file: {why}"))?;
    secret_file::warn_of_readers(&files.key, &key.metadata, "private key");
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let server = builder
        .with_no_client_auth()
        .with_single_cert(certificates.all, key.der);
    let mut server = server.context("http.certificate_file and http.key_file")?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(server)
}
