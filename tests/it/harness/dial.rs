//! TCP connections whose source address, pace and end a test decides.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// Connects from a given address of this machine, as a node with that address would.
pub(crate) fn connect_from(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let family = match target {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::new(source, 0))?;
    connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}

/// Closes with RST instead of FIN, as HAProxy does once it has its line.
pub(crate) fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a TCP socket can linger");
    drop(stream);
}

/// Raises this process's limit of open files as far as it goes, and gives it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("a soft limit may be raised to the hard one");
    maximum.unwrap_or(u64::MAX)
}
