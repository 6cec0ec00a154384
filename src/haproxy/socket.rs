//! A stats socket: `stats socket` in `HAProxy`'s `global` section, over unix or TCP.
//!
//! One command per connection: `HAProxy` answers and closes. What changes something needs
//! `level admin`, and answers with an empty line when it is done (measured on 2.6 and 2.8).

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::servers::{self, ServersError};
use super::stats::{self, StatsError};
use crate::clock;
use crate::domain::migration::{Mode, ServerState};
use crate::domain::name::ServerId;
use crate::domain::observed::ObservedNode;

/// How long one command may take, connecting included. `HAProxy` answers within milliseconds.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest answer that is read. A row of `show stat` takes some 700 bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of a refusal is told, in characters.
const REFUSAL_CHARS_MAX: usize = 300;

/// Where a stats socket is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatsAddress {
    /// A socket of this machine.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// Why a command was not done.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Not reached, or it broke off. After it broke off a change may have been made.
    #[error("{address}: {error}")]
    Io {
        /// Where.
        address: StatsAddress,
        /// What happened.
        error: io::Error,
    },
    /// No whole answer in time. A change may have been made.
    #[error("{0}: no whole answer within {COMMAND_TIME_MAX:?}")]
    Late(StatsAddress),
    /// An answer without an end.
    #[error("{0}: its answer is larger than {ANSWER_BYTES_MAX} bytes")]
    TooLong(StatsAddress),
    /// Not what was asked for.
    #[error("{address}: {error}")]
    Stats {
        /// Where.
        address: StatsAddress,
        /// What is wrong with it.
        error: StatsError,
    },
    /// Not what was asked for.
    #[error("{address}: {error}")]
    Servers {
        /// Where.
        address: StatsAddress,
        /// What is wrong with it.
        error: ServersError,
    },
    /// `HAProxy` refuses the change.
    #[error("{address} refuses `{command}`: {reply}")]
    Refused {
        /// Where.
        address: StatsAddress,
        /// What was asked.
        command: String,
        /// Its words.
        reply: String,
    },
}

impl StatsAddress {
    /// Reads `unix:/path` or `HOST:PORT`.
    ///
    /// # Errors
    /// What is wrong with it, and the form that is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}; write unix:/PATH or HOST:PORT"));
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.contains('\0') {
                return wrong("is no absolute path");
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return wrong("names no port");
        };
        if host.is_empty() || host.contains(['/', '@', ' ', '=']) {
            return wrong("names no host");
        }
        if port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Ok(Self::Tcp(text.to_owned()));
        }
        wrong("has no port between 1 and 65535")
    }

    /// What the process has now.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub async fn show_stat(&self) -> Result<ObservedNode, SocketError> {
        let answer = self.ask("show stat").await?;
        // As of its whole answer: a row is never older than that by more than the time for it.
        stats::read(&answer, clock::now()).map_err(|error| SocketError::Stats {
            address: self.clone(),
            error,
        })
    }

    /// What its servers were set to. `level user` is enough.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub async fn servers_state(&self) -> Result<BTreeMap<ServerId, ServerState>, SocketError> {
        let answer = self.ask("show servers state").await?;
        servers::read(&answer).map_err(|error| SocketError::Servers {
            address: self.clone(),
            error,
        })
    }

    /// Sets the state of a server. Its weight stays as it is: see [`StatsAddress::set_weight`].
    /// A server that asks an agent has its state back at the next poll.
    ///
    /// # Errors
    /// See [`SocketError`]; refused for a server that is not there, and by a socket that is not
    /// `level admin`.
    pub async fn set_state(&self, server: &ServerId, state: Mode) -> Result<(), SocketError> {
        self.change(&format!("set server {server} state {}", state.as_str()))
            .await
    }

    /// Sets the weight of a server, 0 to 256.
    ///
    /// # Errors
    /// See [`SocketError`]; refused by a static balancing algorithm for anything but the configured
    /// weight and 0.
    pub async fn set_weight(&self, server: &ServerId, weight: u16) -> Result<(), SocketError> {
        self.change(&format!("set server {server} weight {weight}"))
            .await
    }

    async fn change(&self, command: &str) -> Result<(), SocketError> {
        let answer = self.ask(command).await?;
        let text = String::from_utf8_lossy(&answer);
        let reply = text.trim();
        // HAProxy ends each answer with an empty line; without one it broke off in between.
        if reply.is_empty() && text.ends_with('\n') {
            return Ok(());
        }
        let reply = if reply.is_empty() {
            "it closed without an answer".to_owned()
        } else {
            let shown: String = reply.chars().take(REFUSAL_CHARS_MAX).collect();
            shown.escape_debug().to_string()
        };
        Err(SocketError::Refused {
            address: self.clone(),
            command: command.to_owned(),
            reply,
        })
    }

    /// Sends one command, and gives the whole answer.
    async fn ask(&self, command: &str) -> Result<Vec<u8>, SocketError> {
        let work = async {
            match self {
                Self::Unix(path) => exchange(UnixStream::connect(path).await?, command).await,
                Self::Tcp(host) => exchange(TcpStream::connect(host).await?, command).await,
            }
        };
        let address = || self.clone();
        match timeout(COMMAND_TIME_MAX, work).await {
            Ok(Ok(answer)) if answer.len() > ANSWER_BYTES_MAX => {
                Err(SocketError::TooLong(address()))
            }
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(SocketError::Io {
                address: address(),
                error,
            }),
            Err(_) => Err(SocketError::Late(address())),
        }
    }
}

/// One byte more than allowed at most.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    command: &str,
) -> io::Result<Vec<u8>> {
    stream.write_all(format!("{command}\n").as_bytes()).await?;
    let mut answer = Vec::new();
    let limit = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
    stream.take(limit + 1).read_to_end(&mut answer).await?;
    Ok(answer)
}

impl fmt::Display for StatsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => f.write_str(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_or_a_host_with_its_port() {
        for good in ["unix:/run/haproxy/admin.sock", "lb-1:9999", "[::1]:9999"] {
            assert_eq!(StatsAddress::parse(good).unwrap().to_string(), good);
        }
        for (bad, why) in [
            ("", "names no port"),
            ("unix:run/x", "is no absolute path"),
            ("/run/x", "names no port"),
            ("lb-1", "names no port"),
            ("lb-1:0", "has no port between"),
            ("lb-1:x", "has no port between"),
            (":1", "names no host"),
            ("http://lb-1:1", "names no host"),
        ] {
            let error = StatsAddress::parse(bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
