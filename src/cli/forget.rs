//! `tidegate forget`.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::context::ConfigArgs;
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::name::Name;

/// How long a replica may take to connect, and for each read: it answers from memory.
const REPLICA_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest answer that is read: it names a node and a number.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Forget a node that was taken away, before its day of silence is over.
#[derive(Debug, Args)]
pub(super) struct Forget {
    /// The node's whole name, as the fleet view shows it.
    #[arg(value_name = "NODE")]
    node: String,
    /// The HTTP listener of a replica on this machine, http://HOST:PORT; more than once for more
    /// than one. [default: the one of the configuration]
    #[arg(long = "replica", value_name = "URL")]
    replicas: Vec<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Deserialize)]
struct Forgotten {
    replica: String,
    rows: usize,
}

impl Forget {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let usage = |text| Failure::new(Exit::Usage, text);
        let node = Name::parse(&self.node)
            .map_err(|error| usage(format!("{:?} is no node: {error}", self.node)))?;
        let replicas = self.replicas(flags)?;
        let authorities = replicas.iter().map(|url| authority(url));
        let authorities = authorities.collect::<Result<Vec<_>, _>>().map_err(usage)?;
        let (mut rows, mut failed) = (0, Vec::new());
        for (url, authority) in replicas.iter().zip(authorities) {
            match ask(authority, &node) {
                Ok(forgotten) => {
                    rows += forgotten.rows;
                    let Forgotten { replica, rows } = forgotten;
                    print(&format!(
                        "{replica} ({url}): {rows} rows of {node} forgotten\n"
                    ))?;
                }
                Err(error) => failed.push(format!("{url}: {error}")),
            }
        }
        if !failed.is_empty() {
            return Err(Failure::new(Exit::Failed, failed.join("\n")));
        }
        if rows == 0 {
            return Err(usage(format!("no node is called {node}")));
        }
        Ok(())
    }

    /// The replicas to ask.
    fn replicas(&self, flags: &Flags) -> Result<Vec<String>, Failure> {
        if !self.replicas.is_empty() {
            return Ok(self.replicas.clone());
        }
        let listen = self.config.load_for_command(flags)?.http.listen;
        Ok(vec![format!("http://{}", reachable(listen))])
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

/// Asks one replica. A client of our own for one request to this machine: the store's one follows
/// Consul's variables, which say nothing about replicas.
fn ask(authority: &str, node: &Name) -> Result<Forgotten, String> {
    let answer = exchange(authority, node).map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) != Some("200") {
        let status = head.lines().next().unwrap_or_default();
        return Err(format!("{status}: {}", body.trim().escape_debug()));
    }
    serde_json::from_str(body).map_err(|error| format!("its answer cannot be read: {error}"))
}

fn exchange(authority: &str, node: &Name) -> io::Result<String> {
    let addresses = authority.to_socket_addrs()?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, REPLICA_TIME_MAX) {
            Ok(stream) => return post(stream, authority, node),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn post(mut stream: TcpStream, authority: &str, node: &Name) -> io::Result<String> {
    stream.set_read_timeout(Some(REPLICA_TIME_MAX))?;
    stream.set_write_timeout(Some(REPLICA_TIME_MAX))?;
    // A name holds nothing that a URL would have to escape.
    let head = format!(
        "POST /api/v1/fleet/forget?node={node} HTTP/1.1\r\nHost: {authority}\r\n\
         Connection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
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
