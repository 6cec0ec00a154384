//! Asking running replicas over their HTTP listeners.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use reqwest::{Client, Method};

use super::{Exit, Failure};
use crate::causes::root_cause;
use crate::config::{Config, ReplicaAccess, is_encrypted, replica_url};
use crate::domain::token::Token;
use crate::http_client::{self, BodyError};
use crate::secret_file;

/// How long a replica may take for a whole answer: it answers from memory, and a listing of 10,000
/// keys is 4 MB.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a replica may take to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Which replicas are asked.
#[derive(Debug, Args)]
pub(super) struct ReplicaArgs {
    /// The HTTP listener of a replica, http://HOST:PORT or https://HOST:PORT; more than once for
    /// more than one.
    /// [default: all peers of the configuration, or where its own replica listens]
    #[arg(long = "replica", value_name = "URL")]
    urls: Vec<String>,
}

/// A replica's HTTP listener.
#[derive(Debug, Clone)]
pub(super) struct Replica {
    /// `http://host:port` or `https://host:port`.
    pub(super) url: String,
    client: Client,
    /// What it is shown.
    token: Option<Arc<Token>>,
}

impl ReplicaArgs {
    /// The replicas to ask, at least one.
    pub(super) fn replicas(&self, config: &Config) -> Result<Vec<Replica>, Failure> {
        if self.urls.is_empty() {
            return replicas(configured(config), &config.http.access);
        }
        named(&self.urls, &config.http.access)
    }
}

/// The replicas at these URLs of the command line.
pub(super) fn named(urls: &[String], access: &ReplicaAccess) -> Result<Vec<Replica>, Failure> {
    let given = urls.iter().map(|url| {
        replica_url(url).map_err(|text| Failure::new(Exit::Usage, format!("--replica: {text}")))
    });
    replicas(given.collect::<Result<_, _>>()?, access)
}

/// The replicas at these URLs, shown what the settings say, and known by it.
pub(super) fn replicas(urls: Vec<String>, access: &ReplicaAccess) -> Result<Vec<Replica>, Failure> {
    let unusable =
        |key: &str, error: &anyhow::Error| Failure::new(Exit::Usage, format!("{key}: {error:#}"));
    let token = access.token_file.as_deref().map(secret_file::token);
    let token = token.transpose();
    let token = token.map_err(|error| unusable("http.token_file", &error))?;
    let token = token.map(Arc::new);
    let authorities = match &access.ca_file {
        Some(file) => http_client::authorities(file),
        None if urls.iter().any(|url| is_encrypted(url)) => Err(anyhow::anyhow!(
            "required for replicas at https://; give --http-ca-file or TIDEGATE_HTTP_CA_FILE"
        )),
        None => Ok(Vec::new()),
    };
    // A client of its own: the store's one follows Consul's variables, which say nothing about
    // replicas.
    let client =
        http_client::to_replicas(authorities.map_err(|error| unusable("http.ca_file", &error))?);
    let client = client
        .connect_timeout(CONNECT_TIME_MAX)
        .timeout(ANSWER_TIME_MAX)
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("the HTTP client: {error}")))?;
    let replica = |url| Replica {
        url,
        client: client.clone(),
        token: token.clone(),
    };
    Ok(urls.into_iter().map(replica).collect())
}

/// Where the replica of this machine's configuration is asked.
pub(super) fn of_this_machine(config: &Config) -> String {
    format!("http://{}", reachable(config.http.listen))
}

impl Replica {
    /// The body of a 200. `path` holds nothing that would have to be escaped.
    pub(super) async fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        self.request(Method::GET, path).await
    }

    /// The same of a POST without a body.
    pub(super) async fn post(&self, path: &str) -> Result<Vec<u8>, String> {
        self.request(Method::POST, path).await
    }

    async fn request(&self, method: Method, path: &str) -> Result<Vec<u8>, String> {
        let failed = |error: reqwest::Error| {
            if error.is_timeout() {
                "no whole answer within the time for it".to_owned()
            } else {
                root_cause(&error)
            }
        };
        let url = format!("{}{path}", self.url);
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let mut answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let body = http_client::body(&mut answer, ANSWER_BYTES_MAX).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => format!("its answer is larger than {ANSWER_BYTES_MAX} bytes"),
            BodyError::Broken(error) => failed(error),
        })?;
        if status != reqwest::StatusCode::OK {
            let text = String::from_utf8_lossy(&body);
            return Err(format!("{status}: {}", text.trim().escape_debug()));
        }
        Ok(body)
    }
}

/// All peers, or the replica of this machine.
fn configured(config: &Config) -> Vec<String> {
    if config.peers.is_empty() {
        return vec![of_this_machine(config)];
    }
    config.peers.iter().map(|peer| peer.url.clone()).collect()
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
}
