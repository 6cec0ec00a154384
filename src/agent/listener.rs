//! A listening socket that shares its port with the other workers.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, acceptfrom_with, bind as bind_socket,
    getsockname, listen, shutdown, socket_with,
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
    listening(bound(address, true)?)
}

/// Takes over what listens at `address`, with those who wait there, for `count_max` workers. The
/// others stop listening: who keeps them would have polls wait there for nobody, and systemd lets go
/// of a socket that hangs up.
pub(super) fn adopt(
    kept: Vec<OwnedFd>,
    address: SocketAddr,
    count_max: usize,
) -> io::Result<Vec<TcpListener>> {
    let mut adopted = Vec::new();
    for socket in kept {
        if adopted.len() < count_max && listens_at(&socket, address) {
            fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
            let listener = listening(socket)?;
            listener.set_nonblocking(true)?;
            adopted.push(listener);
        } else {
            // No socket, or none that is connected or listens: there is nothing to end.
            let _ = shutdown(&socket, Shutdown::Both);
        }
    }
    Ok(adopted)
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

fn listens_at(socket: &OwnedFd, address: SocketAddr) -> bool {
    let own = getsockname(socket).and_then(SocketAddr::try_from);
    own == Ok(address) && sockopt::socket_acceptconn(socket) == Ok(true)
}

/// Listens; on a socket that does already this only sets the length of the queue.
fn listening(socket: OwnedFd) -> io::Result<TcpListener> {
    listen(&socket, BACKLOG)?;
    // The acknowledgement of the request rides on the answer: a packet less in five. Connections
    // inherit it, and listen would clear it.
    sockopt::set_tcp_quickack(&socket, false)?;
    Ok(TcpListener::from(socket))
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
