//! The HTTP listener's connections: few, and each for a limited time.
//!
//! They share the process's descriptors with the agent. A peer that holds connections open must
//! neither take those descriptors nor keep a health check out, so that when all places are taken,
//! the oldest connection of the address that has the most makes room for the newest.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use super::tls::{Encryption, SharedTls, Transport};

/// The most connections at once. Balancers, a scraper and a few people need ten; the descriptors
/// come out of the process's reserve beside the agent's.
pub(super) const CONNECTIONS_MAX: usize = 100;
/// The longest life of a connection, idle or busy. A client that keeps connections sees it closed
/// and opens another.
pub(super) const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);

/// The pause after a failure of accept: descriptors come back when connections close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener whose connections are bounded in number and time.
#[derive(Debug)]
pub(super) struct Bounded {
    inner: TcpListener,
    tls: SharedTls,
    /// The open connections, the oldest first.
    open: VecDeque<Place>,
}

/// A connection as the listener knows it.
#[derive(Debug)]
struct Place {
    /// Who opened it.
    source: IpAddr,
    /// Ends the connection.
    end: CancellationToken,
    /// Cancelled when the connection has ended.
    ended: CancellationToken,
}

/// A connection that fails once its time is over or its place is needed.
pub(super) struct Connection {
    transport: Transport,
    /// The address of this machine that was called.
    local_ip: Option<IpAddr>,
    time_over: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _ended: DropGuard,
}

impl Bounded {
    pub(super) const fn new(inner: TcpListener, tls: SharedTls) -> Self {
        Self {
            inner,
            tls,
            open: VecDeque::new(),
        }
    }

    fn admit(&mut self, stream: TcpStream, source: IpAddr) -> Connection {
        if self.open.len() >= CONNECTIONS_MAX {
            self.open.retain(|place| !place.ended.is_cancelled());
        }
        if self.open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = self.greediest(source)
            && let Some(place) = self.open.remove(oldest)
        {
            place.end.cancel();
        }
        let (end, ended) = (CancellationToken::new(), CancellationToken::new());
        self.open.push_back(Place {
            source,
            end: end.clone(),
            ended: ended.clone(),
        });
        Connection {
            local_ip: stream.local_addr().ok().map(|address| address.ip()),
            transport: Transport::new(stream, self.tls.load_full()),
            time_over: Box::pin(sleep(CONNECTION_TIME_MAX)),
            end: Box::pin(end.cancelled_owned()),
            _ended: ended.drop_guard(),
        }
    }

    /// The oldest connection of the address that would have the most with one more of `source`: a
    /// crowd of one address makes room for itself, and ends nobody else's.
    fn greediest(&self, source: IpAddr) -> Option<usize> {
        let mut counts = HashMap::from([(source, 1)]);
        for place in &self.open {
            *counts.entry(place.source).or_insert(0) += 1;
        }
        let most = counts.values().copied().max()?;
        let has_most = |place: &Place| counts[&place.source] == most;
        self.open.iter().position(has_most)
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => return (self.admit(stream, peer.ip().to_canonical()), peer),
                Err(error) => {
                    tracing::debug!(%error, "accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

impl Connection {
    /// When it is cut.
    pub(super) fn ends(&self) -> Instant {
        self.time_over.deadline()
    }

    /// The address of this machine that was called.
    pub(super) const fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// Whether it is encrypted, once a request was read.
    pub(super) fn encryption(&self) -> Encryption {
        self.transport.encryption()
    }

    /// Fails when the connection must end; otherwise wakes the task when it must.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.time_over.as_mut().poll(context).is_ready() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        if self.end.as_mut().poll(context).is_ready() {
            let text = "a newer connection needs the place";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.transport).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.transport).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.transport).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }
}
