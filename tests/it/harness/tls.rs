//! Certificates as the service's HTTP port takes them, and a client that speaks TLS to it.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::certificates::Certificates;
use super::http::{self, Response};

const LIMIT: Duration = Duration::from_secs(2);

impl Certificates {
    /// The arguments by which a service shows them, and knows its peers by their authority.
    pub(crate) fn arguments(&self) -> Vec<String> {
        [
            ("--http-certificate-file", self.server()),
            ("--http-key-file", self.server_key()),
            ("--http-ca-file", self.authority()),
        ]
        .into_iter()
        .flat_map(|(flag, file)| [flag.to_owned(), file.display().to_string()])
        .collect()
    }

    /// Takes the place of these, with the bytes of others.
    pub(crate) fn replace_by(&self, other: &Self) {
        for (from, to) in [
            (other.server(), self.server()),
            (other.server_key(), self.server_key()),
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
        let client = ClientConnection::new(self.trusting(), name).map_err(io::Error::other)?;
        let stream = StreamOwned::new(client, stream);
        http::over(stream, address, ("GET", path), headers, b"")
    }

    fn trusting(&self) -> Arc<ClientConfig> {
        let pem = fs::read(self.authority()).expect("the authority was made");
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
