//! One agent check: a line in, a line out, then HAProxy closes.

use std::net::IpAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::worker::Worker;
use super::{CLOSE_TIME_MAX, REQUEST_TIME_MAX, SILENCE, WRITE_TIME_MAX};
use crate::domain::request::{REQUEST_BYTES_MAX, line_length};
use crate::metrics::Silence;

/// The most bytes that are read and thrown away behind the request, so that closing does not
/// destroy the answer on its way.
const EXCESS_BYTES_MAX: usize = 64 * 1024;

/// One byte more than a request may have shows that it is longer.
type Buffer = [u8; REQUEST_BYTES_MAX + 1];

/// Serves one connection to its end.
pub(super) async fn serve(worker: &Worker, mut stream: TcpStream, source: IpAddr) {
    let mut buffer: Buffer = [0; REQUEST_BYTES_MAX + 1];
    let Some((length, open)) = read_request(&mut stream, &mut buffer).await else {
        worker.counters.silent(Silence::Gone);
        return;
    };
    let begun = Instant::now();
    let line = request_line(&buffer[..length]);
    let Some(reply) = worker.answer(line, source) else {
        return worker.no_authority(line, source);
    };
    match timeout(WRITE_TIME_MAX, stream.write_all(&reply.rendered.line)).await {
        Ok(Ok(())) => {
            worker.counters.latency.record(begun.elapsed());
            worker.told(&reply);
        }
        Ok(Err(_)) => return worker.not_told(&reply, Silence::Gone),
        Err(_) => return worker.not_told(&reply, Silence::Stuck),
    }
    if open {
        let _ = timeout(CLOSE_TIME_MAX, wait_for_close(&mut stream, &mut buffer)).await;
    }
}

/// Reads until a line end, the end of the stream, a silence, or one byte too many. Returns the
/// length, and whether the peer may send more; `None` when it went away without a word or reset
/// the connection.
async fn read_request(stream: &mut TcpStream, buffer: &mut Buffer) -> Option<(usize, bool)> {
    let mut length = 0;
    let end = Instant::now() + REQUEST_TIME_MAX;
    while length < buffer.len() {
        let silence = end.min(Instant::now() + SILENCE);
        match timeout_at(silence, stream.read(&mut buffer[length..])).await {
            // A balancer's probe: whoever asks sends something, or at least stays.
            Ok(Ok(0)) if length == 0 => return None,
            Ok(Ok(0)) => return Some((length, false)),
            Ok(Ok(read)) => {
                length += read;
                if line_length(&buffer[length - read..length]).is_some() {
                    break;
                }
            }
            Ok(Err(_)) => return None,
            // Bytes keep dripping in: nobody knows what is still to come, so nothing is read.
            Err(_) if Instant::now() >= end => return Some((0, true)),
            Err(_) => break,
        }
    }
    Some((length, true))
}

/// The request: what follows its line end is not looked at, so that it does not matter whether it
/// came with the same segment.
fn request_line(bytes: &[u8]) -> &[u8] {
    line_length(bytes).map_or(bytes, |length| &bytes[..length])
}

/// Waits for the peer's close. HAProxy resets once it has the line: success, not an error.
async fn wait_for_close(stream: &mut TcpStream, buffer: &mut Buffer) {
    let mut excess = 0;
    while excess < EXCESS_BYTES_MAX {
        match stream.read(buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => excess += read,
        }
    }
}
