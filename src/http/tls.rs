//! One port for both: whoever begins with a TLS handshake gets TLS, everybody else plain HTTP.
//!
//! Balancers' probes are plain, and the replicas of a rollout are asked the old way until all of
//! them have certificates; `admission` says what they are shown without.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::{io, mem};

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// What is shown to who begins with TLS, as it was read last; none: there is no TLS.
pub type SharedTls = Arc<ArcSwapOption<ServerConfig>>;

/// The first byte of a TLS record that holds a handshake (RFC 8446, section 5.1). No method of HTTP
/// begins with it.
const HANDSHAKE: u8 = 22;

/// The bytes of a connection.
pub(super) struct Transport {
    form: Form,
    encryption: Encryption,
}

/// Whether a connection is encrypted. That is known before its first request is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Encryption(Arc<AtomicBool>);

enum Form {
    /// Nothing has come yet.
    Unknown(TcpStream, Arc<ServerConfig>),
    Handshake(Box<Accept<TcpStream>>),
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// It failed before it was known.
    Broken,
}

impl Encryption {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Transport {
    pub(super) fn new(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Self {
        let form = match tls {
            Some(tls) => Form::Unknown(stream, tls),
            None => Form::Plain(stream),
        };
        Self {
            form,
            encryption: Encryption::default(),
        }
    }

    pub(super) fn encryption(&self) -> Encryption {
        self.encryption.clone()
    }

    /// Waits until it is known what it is.
    fn poll_form(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.form {
                Form::Plain(_) | Form::Encrypted(_) => return Poll::Ready(Ok(())),
                Form::Broken => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                Form::Unknown(stream, _) => {
                    let begins = ready!(begins_with_tls(stream, context));
                    let Form::Unknown(stream, tls) = mem::replace(&mut self.form, Form::Broken)
                    else {
                        continue;
                    };
                    self.form = if begins? {
                        Form::Handshake(Box::new(TlsAcceptor::from(tls).accept(stream)))
                    } else {
                        Form::Plain(stream)
                    };
                }
                Form::Handshake(accept) => {
                    let done = ready!(Pin::new(&mut **accept).poll(context));
                    self.form = Form::Broken;
                    self.form = Form::Encrypted(Box::new(done?));
                    self.encryption.0.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// The bytes, once it is known what they are.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Stream>>> {
        ready!(self.poll_form(context))?;
        Poll::Ready(match &mut self.form {
            Form::Plain(stream) => Ok(Pin::new(stream)),
            Form::Encrypted(stream) => Ok(Pin::new(&mut **stream)),
            Form::Unknown(..) | Form::Handshake(_) | Form::Broken => {
                Err(io::ErrorKind::NotConnected.into())
            }
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Looks at the first byte, which stays to be read. An end is no handshake.
fn begins_with_tls(stream: &TcpStream, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
    let mut first = [0];
    let mut buffer = ReadBuf::new(&mut first);
    let peeked = ready!(stream.poll_peek(context, &mut buffer));
    Poll::Ready(peeked.map(|count| count > 0 && first[0] == HANDSHAKE))
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(context))?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(context))?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.form {
            Form::Plain(stream) => stream.is_write_vectored(),
            Form::Encrypted(stream) => stream.is_write_vectored(),
            Form::Unknown(..) | Form::Handshake(_) | Form::Broken => false,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing was written before it is known.
        match &mut self.form {
            Form::Plain(stream) => Pin::new(stream).poll_flush(context),
            Form::Encrypted(stream) => Pin::new(&mut **stream).poll_flush(context),
            Form::Unknown(..) | Form::Handshake(_) | Form::Broken => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.form {
            Form::Plain(stream) | Form::Unknown(stream, _) => {
                Pin::new(stream).poll_shutdown(context)
            }
            Form::Encrypted(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            Form::Handshake(_) | Form::Broken => Poll::Ready(Ok(())),
        }
    }
}
