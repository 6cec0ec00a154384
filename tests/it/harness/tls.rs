//! Certificates for the service's HTTP port, and a client that speaks TLS to it.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::consul::create_certificates;
use super::folder::Folder;
use super::http::{self, Response};

const LIMIT: Duration = Duration::from_secs(2);

/// An authority, and a certificate of it for one address.
pub(crate) struct Certificates {
    folder: Folder,
}

impl Certificates {
    pub(crate) fn for_address(address: IpAddr) -> Self {
        let folder = Folder::new("certificates");
        create_certificates(&folder, address);
        Self { folder }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.join("consul-agent-ca.pem")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("dc1-server-consul-0.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("dc1-server-consul-0-key.pem")
    }

    /// The arguments by which a service shows them, and knows its peers by their authority.
    pub(crate) fn arguments(&self) -> Vec<String> {
        [
            ("--http-certificate-file", self.certificate()),
            ("--http-key-file", self.key()),
            ("--http-ca-file", self.ca()),
        ]
        .into_iter()
        .flat_map(|(flag, file)| [flag.to_owned(), file.display().to_string()])
        .collect()
    }

    /// Takes the place of these, with the bytes of others.
    pub(crate) fn replace_by(&self, other: &Self) {
        for (from, to) in [
            (other.certificate(), self.certificate()),
            (other.key(), self.key()),
        ] {
            fs::copy(from, to).expect("both folders are there");
        }
    }

    /// `GET` over TLS; an error when the service's certificate is not of this authority.
    pub(crate) fn get(
        &self,
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> io::Result<Response> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let name = address.ip().into();
        let client = ClientConnection::new(self.client(), name).map_err(io::Error::other)?;
        let stream = StreamOwned::new(client, stream);
        http::over(stream, address, ("GET", path), headers, b"")
    }

    fn client(&self) -> Arc<ClientConfig> {
        let pem = fs::read(self.ca()).expect("the authority was made");
        let ca = CertificateDer::from_pem_slice(&pem).expect("Consul writes PEM");
        let mut roots = RootCertStore::empty();
        roots.add(ca).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(client)
    }
}
