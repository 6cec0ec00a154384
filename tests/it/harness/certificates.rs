//! An authority, and what it vouches for, as `consul tls` makes them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use super::consul::loopback;
use super::folder::Folder;
use super::process::run;
use super::tools::tool;
use super::wait::PATIENCE;

/// Files in PEM, of a server and of a client.
pub(crate) struct Certificates(Folder);

impl Certificates {
    /// Of a server at 127.0.0.1.
    pub(crate) fn make() -> Self {
        Self::for_address(loopback(1))
    }

    pub(crate) fn for_address(address: IpAddr) -> Self {
        let folder = Folder::new("certificates");
        let address = format!("-additional-ipaddress={address}");
        for arguments in [
            &["tls", "ca", "create"][..],
            &["tls", "cert", "create", "-server", &address],
            &["tls", "cert", "create", "-client"],
        ] {
            let mut command = Command::new(tool("consul"));
            command.args(arguments).current_dir(folder.path());
            let output = run("consul-tls", &command, PATIENCE);
            assert_eq!(output.code, Some(0), "consul {arguments:?}: {output:?}");
        }
        Self(folder)
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.0.join("consul-agent-ca.pem")
    }

    pub(crate) fn server(&self) -> PathBuf {
        self.0.join("dc1-server-consul-0.pem")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.0.join("dc1-server-consul-0-key.pem")
    }

    pub(crate) fn client(&self) -> PathBuf {
        self.0.join("dc1-client-consul-0.pem")
    }

    pub(crate) fn client_key(&self) -> PathBuf {
        self.0.join("dc1-client-consul-0-key.pem")
    }
}
