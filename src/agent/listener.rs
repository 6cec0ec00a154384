//! A listening socket that shares its port with the other workers.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind as bind_socket, listen,
    socket_with,
};
use rustix::net::{ipproto, sockopt};

/// The queue of connections not yet accepted: after a reload all nodes poll at once. The kernel
/// cuts it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;

/// What accept gave.
#[derive(Debug)]
pub(super) enum Accepted {
    /// A connection, non-blocking, and where it comes from.
    Connection(OwnedFd, IpAddr),
    /// Nobody waits. Nothing else means that.
    Nobody,
    /// The first one in the queue is gone or broken; the next may be better.
    Aborted,
    /// Nothing can be taken now: descriptors or memory are used up.
    Failed(Errno),
}

/// Binds and listens, non-blocking.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, true)?;
    listen(&socket, BACKLOG)?;
    // The acknowledgement of the request rides on the answer: a packet less in five. Connections
    // inherit it, and listen would clear it.
    sockopt::set_tcp_quickack(&socket, false)?;
    Ok(TcpListener::from(socket))
}

/// Takes the first connection of the queue.
pub(super) fn accept(listener: &TcpListener) -> Accepted {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let failure = match acceptfrom_with(listener, flags) {
            Ok((socket, source)) => {
                let source = source.and_then(|source| SocketAddr::try_from(source).ok());
                // A TCP connection comes from an address.
                return source.map_or(Accepted::Aborted, |source| {
                    Accepted::Connection(socket, source.ip())
                });
            }
            Err(failure) => failure,
        };
        return match failure {
            Errno::INTR => continue,
            Errno::AGAIN => Accepted::Nobody,
            // accept(2): errors of the network that were pending on the new connection.
            Errno::CONNABORTED
            | Errno::PROTO
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH => Accepted::Aborted,
            other => Accepted::Failed(other),
        };
    }
}

/// Fails when another program listens there. Sharing the port lets in any program of the same
/// user: a second service would silently take half of the polls.
pub(super) fn check_free(address: SocketAddr) -> io::Result<()> {
    bound(address, false).map(drop)
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    if address.is_ipv6() {
        // [::] answers IPv4 as well; its sources are written as IPv4.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind_socket(&socket, &address)?;
    Ok(socket)
}
