//! A listening socket that shares its port with the other workers.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind as bind_socket, listen, socket_with,
};
use rustix::net::{ipproto, sockopt};

/// The queue of connections not yet accepted: after a reload all nodes poll at once. The kernel
/// cuts it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;

/// Binds and listens, non-blocking.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, true)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
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
