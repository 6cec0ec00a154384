//! Asking a running replica over its HTTP listener.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a replica may take to connect, and for each read: it answers from memory.
const REPLICA_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest answer that is read: a listing of 10,000 keys is 4 MB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A replica's HTTP listener. A client of our own for single requests: the store's one follows
/// Consul's variables, which say nothing about replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    /// As it was given.
    pub(super) url: String,
    /// `host:port`.
    authority: String,
}

impl Replica {
    /// Reads `http://HOST:PORT`.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        Ok(Self {
            url: url.to_owned(),
            authority: authority(url)?.to_owned(),
        })
    }

    /// The replica of this machine that listens there.
    pub(super) fn listening_at(listen: SocketAddr) -> Self {
        let authority = reachable(listen).to_string();
        Self {
            url: format!("http://{authority}"),
            authority,
        }
    }

    /// The body of a 200. `path` holds nothing that would have to be escaped.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        self.request("GET", path)
    }

    /// The same of a POST without a body.
    pub(super) fn post(&self, path: &str) -> Result<Vec<u8>, String> {
        self.request("POST", path)
    }

    fn request(&self, method: &str, path: &str) -> Result<Vec<u8>, String> {
        let mut answer = self
            .exchange(method, path)
            .map_err(|error| error.to_string())?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.map_or(answer.len(), |end| end + 4));
        let head = String::from_utf8_lossy(&answer);
        if head.split(' ').nth(1) != Some("200") {
            let status = head.lines().next().unwrap_or_default().escape_debug();
            let text = String::from_utf8_lossy(&body);
            return Err(format!("{status}: {}", text.trim().escape_debug()));
        }
        Ok(body)
    }

    fn exchange(&self, method: &str, path: &str) -> io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(REPLICA_TIME_MAX))?;
        stream.set_write_timeout(Some(REPLICA_TIME_MAX))?;
        let authority = &self.authority;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\
             Content-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, REPLICA_TIME_MAX) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Where a listener of this machine is reached.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}

/// `host:port` of `http://host:port`.
fn authority(url: &str) -> Result<&str, String> {
    let rest = url
        .strip_prefix("http://")
        .map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    rest.filter(|rest| rest.contains(':') && !rest.contains(['/', '?', '#', '@', ' ']))
        .ok_or_else(|| format!("{url:?}: http://HOST:PORT expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8791", "127.0.0.1:8791"),
            ("[::]:8791", "[::1]:8791"),
            ("10.0.0.1:8791", "10.0.0.1:8791"),
        ] {
            let found = reachable(listen.parse().unwrap());
            assert_eq!(found.to_string(), reached);
        }
    }

    #[test]
    fn a_replica_is_a_plain_url() {
        assert_eq!(authority("http://127.0.0.1:8791"), Ok("127.0.0.1:8791"));
        assert_eq!(authority("http://[::1]:8791/"), Ok("[::1]:8791"));
        for url in [
            "127.0.0.1:8791",
            "https://a:1",
            "http://a",
            "http://a:1/b",
            "http://u@a:1",
        ] {
            assert!(authority(url).unwrap_err().contains("HOST:PORT"), "{url}");
        }
    }
}
