//! Reading a request from a connection, and writing its answer, without ever waiting.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::domain::request::{REQUEST_BYTES_MAX, line_length};
use crate::metrics::Silence;

/// One byte more than a request may have shows that it is longer.
pub(super) type Buffer = [u8; REQUEST_BYTES_MAX + 1];

/// The most bytes that are read and thrown away behind a request before its connection is closed
/// all the same.
const EXCESS_BYTES_MAX: usize = 64 * 1024;

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// A line end is there, or one byte too many.
    Whole,
    /// The peer will send no more, and has sent something.
    HalfClosed,
    /// More is to come.
    Part,
    /// The peer went away without a word, or reset the connection.
    Gone,
}

/// What a peer did after it had its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It is still there.
    Open,
    /// It has closed or reset the connection, or sends without end.
    Over,
}

/// Reads once, behind the `length` bytes that are there already. Gives how far the request is and
/// how many bytes there are now.
pub(super) fn read(socket: &OwnedFd, buffer: &mut Buffer, length: usize) -> (Read, usize) {
    let read = loop {
        match recv(socket, &mut buffer[length..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return (Read::Part, length),
            // A balancer's probe: whoever asks sends something, or at least stays.
            Ok((0, _)) if length == 0 => return (Read::Gone, 0),
            Err(_) => return (Read::Gone, length),
            Ok((0, _)) => return (Read::HalfClosed, length),
            Ok((read, _)) => break read,
        }
    };
    let all = length + read;
    let whole = all == buffer.len() || line_length(&buffer[length..all]).is_some();
    (if whole { Read::Whole } else { Read::Part }, all)
}

/// Writes an answer; the error is why the connection did not take it whole. An answer is far smaller
/// than the buffer of a connection on which nothing was sent yet, so nobody has to be waited for.
/// `last` says that closing follows at once: then the end goes with the answer, in one segment.
pub(super) fn write(socket: &OwnedFd, answer: &[u8], last: bool) -> Result<(), Silence> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, last);
    loop {
        match send(socket, answer, flags) {
            Err(Errno::INTR) => {}
            Ok(written) if written == answer.len() => return Ok(()),
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => return Err(Silence::Stuck),
            Err(_) => return Err(Silence::Gone),
        }
    }
}

/// Reads and throws away what came behind a request: closing while unread bytes are there resets
/// the connection, which may destroy the answer on its way. `excess` counts them over all calls.
pub(super) fn discard(socket: &OwnedFd, excess: &mut usize) -> Rest {
    let mut bytes = [0; 4096];
    while *excess < EXCESS_BYTES_MAX {
        match recv(socket, &mut bytes[..], RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Rest::Open,
            Ok((0, _)) | Err(_) => return Rest::Over,
            Ok((read, _)) => *excess += read,
        }
    }
    Rest::Over
}
