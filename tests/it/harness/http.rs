//! A plain HTTP/1.1 client: one request per connection, time and size limits, no redirects.
//!
//! Small enough to trust, and it shows what the tests are about: status and headers as they came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// More than any answer of the tests (10,000 keys are 3 MB, a Consul snapshot less than 10 MB).
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The first header of that name, in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `GET` without headers of its own, within two seconds.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Response> {
    request(address, "GET", path, &[], b"", Duration::from_secs(2))
}

/// One request; `limit` holds for connecting and for each read.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    limit: Duration,
) -> io::Result<Response> {
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    over(stream, address, (method, path), headers, body)
}

/// The same over an open connection, whatever carries it.
pub(crate) fn over(
    mut stream: impl Read + Write,
    address: SocketAddr,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    stream.write_all(&bytes)?;
    let mut answer = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut answer)?;
    parse(method, &answer)
}

/// An answer to HEAD has the headers of one with a body.
fn parse(method: &str, answer: &[u8]) -> io::Result<Response> {
    let end = find(answer, b"\r\n\r\n").ok_or_else(|| broken("no end of the headers"))?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| broken("headers not in UTF-8"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| broken("no status line"))?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let mut response = Response {
        status,
        headers,
        body: answer[end + 4..].to_vec(),
    };
    if method == "HEAD" {
        return Ok(response);
    }
    if response
        .header("transfer-encoding")
        .is_some_and(|value| value.contains("chunked"))
    {
        response.body = unchunk(&response.body)?;
    } else if let Some(length) = response.header("content-length")
        && length.parse() != Ok(response.body.len())
    {
        return Err(broken("the body is not as long as Content-Length says"));
    }
    Ok(response)
}

/// Chunked transfer coding (RFC 9112, section 7.1); trailers are not kept.
fn unchunk(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = find(rest, b"\r\n").ok_or_else(|| broken("a chunk without its size"))?;
        let size = std::str::from_utf8(&rest[..line])
            .ok()
            .and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok())
            .ok_or_else(|| broken("a chunk's size is no number"))?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Ok(body);
        }
        let chunk = rest
            .get(..size)
            .ok_or_else(|| broken("the last chunk is cut off"))?;
        body.extend_from_slice(chunk);
        rest = rest
            .get(size + 2..)
            .ok_or_else(|| broken("a chunk without its end"))?;
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
