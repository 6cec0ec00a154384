//! The HTTP client of all questions to peers: one connection each, over TLS where the peer's URL
//! says so, every size and time bounded.
//!
//! Each question has a connection of its own. A kept one would end with a reset when the peer
//! dies, which says less than a connection that is refused.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
pub(super) use reqwest::Method;
use reqwest::{Client, StatusCode, dns};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Peer;
use crate::causes::{chain, root_cause};
use crate::domain::token::Token;
use crate::http_client::{self, Authority, BodyError};

/// Sends requests to peers, with the token that is held at that moment.
#[derive(Debug)]
pub(super) struct PeerClient {
    client: Client,
    names: OneLookup,
    token: Arc<ArcSwapOption<Token>>,
}

/// A request without a body. `path` holds nothing that would have to be escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Begins with a slash; a query may follow.
    pub(super) path: String,
    /// The most bytes that an answer may have.
    pub(super) answer_bytes_max: usize,
}

/// Why there is no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// The connection was refused: by the first address of a name, if it has several.
    Refused,
    /// Anything else; the text says what, and names the peer's URL.
    Silent(String),
}

impl PeerClient {
    /// `limit` is the longest that connecting, and that a whole exchange, may take. Connects to
    /// nothing yet.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub(super) fn new(
        token: Arc<ArcSwapOption<Token>>,
        authorities: Vec<Authority>,
        limit: Duration,
    ) -> io::Result<Self> {
        let names = OneLookup::default();
        let client = http_client::to_replicas(authorities)
            .connect_timeout(limit)
            .timeout(limit)
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(names.clone()))
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            client,
            names,
            token,
        })
    }

    /// Sends this token from now on.
    pub(super) fn set_token(&self, token: Option<Token>) {
        self.token.store(token.map(Arc::new));
    }

    /// The body of a 200.
    pub(super) async fn exchange(&self, peer: &Peer, asked: Request) -> Result<Vec<u8>, Failed> {
        let Request {
            method,
            path,
            answer_bytes_max,
        } = asked;
        let base = peer.url.trim_end_matches('/');
        let mut request = self
            .client
            .request(method, format!("{base}{path}"))
            .header(reqwest::header::CONNECTION, "close");
        if let Some(token) = &*self.token.load() {
            request = request.bearer_auth(token.expose());
        }
        let failed = |error: reqwest::Error| failure(peer, &error);
        let mut response = request.send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(Failed::Silent(status_text(peer, response.status())));
        }
        let body = http_client::body(&mut response, answer_bytes_max).await;
        body.map_err(|error| match error {
            BodyError::TooLarge => {
                let url = &peer.url;
                let text = format!("{url}: its answer is larger than {answer_bytes_max} bytes");
                Failed::Silent(text)
            }
            BodyError::Broken(error) => failed(error),
        })
    }

    /// The HTTP client tells of the first address of a name that failed. Another one may lead to a
    /// replica that lives and is only out of sight: `Err` says so.
    pub(super) async fn all_addresses_refuse(&self, peer: &Peer) -> Result<(), String> {
        let url = &peer.url;
        let Ok(parsed) = reqwest::Url::parse(url) else {
            return Err(format!("{url} is no URL"));
        };
        let (Some(name), Some(port)) = (parsed.domain(), parsed.port_or_known_default()) else {
            // An address: it is the one that refused.
            return Ok(());
        };
        let refused = match self.names.look_up(name, port).await {
            Ok(addresses) => all_refuse(&addresses).await,
            Err(error) => Err(error.to_string()),
        };
        refused.map_err(|text| format!("{url}: {text}"))
    }
}

/// One look-up of a name at a time. One that hangs holds a thread for as long as the system's
/// resolver likes, and a question each 250 ms would take all threads that there are.
#[derive(Debug, Clone, Default)]
struct OneLookup {
    names: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl OneLookup {
    /// All addresses of a name.
    async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = name.to_owned();
        let turn = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = names.entry(name.clone());
            Arc::clone(turn.or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        let Ok(permit) = turn.try_acquire_owned() else {
            let text = "an earlier look-up of the name has not ended";
            return Err(io::Error::other(text));
        };
        let look_up = move || {
            let _permit = permit;
            (name.as_str(), port).to_socket_addrs()
        };
        Ok(spawn_blocking(look_up).await??.collect())
    }
}

impl dns::Resolve for OneLookup {
    fn resolve(&self, name: dns::Name) -> dns::Resolving {
        let names = self.clone();
        Box::pin(async move {
            // The port is the URL's: the client puts it in.
            let found = names.look_up(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as dns::Addrs)
        })
    }
}

/// `Err`: something else than a refusal by each of them.
async fn all_refuse(addresses: &[SocketAddr]) -> Result<(), String> {
    if addresses.is_empty() {
        return Err("the name has no address".to_owned());
    }
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(_) => return Err(format!("one address refuses, {address} does not")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(format!("one address refuses, {address}: {error}")),
        }
    }
    Ok(())
}

/// Only a refused connection proves that no replica runs there.
fn failure(peer: &Peer, error: &reqwest::Error) -> Failed {
    let refused = |error: &(dyn Error + 'static)| {
        let io = error.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
    };
    if error.is_connect() && chain(error).any(refused) {
        return Failed::Refused;
    }
    let what = match (error.is_timeout(), error.is_connect()) {
        (true, true) => "no connection within the time for an answer".to_owned(),
        (true, false) => "no whole answer within the time for it".to_owned(),
        (false, _) => root_cause(error),
    };
    Failed::Silent(format!("{}: {what}", peer.url))
}

fn status_text(peer: &Peer, status: StatusCode) -> String {
    let hint = match status {
        StatusCode::UNAUTHORIZED => {
            ": the token of the peers is another there, or only one side has one; give all \
             replicas the same"
        }
        StatusCode::FORBIDDEN => {
            ": it has no token of the peers, and then answers only its own machine; give all \
             replicas the same token"
        }
        StatusCode::NOT_FOUND => ": no replica with peers listens there",
        StatusCode::SERVICE_UNAVAILABLE => ": it has too many questions at once",
        _ => "",
    };
    format!("{} answers {status}{hint}", peer.url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_name_refuses_when_each_of_its_addresses_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // Nobody binds port 1 of these.
        let closed = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], 1)));
        assert_eq!(all_refuse(&closed).await, Ok(()));
        for (other, text) in [
            (open, "does not"),
            // Not reached by TCP at all.
            (
                SocketAddr::from(([255, 255, 255, 255], 1)),
                "255.255.255.255:1: ",
            ),
        ] {
            let error = all_refuse(&[closed[0], other]).await.unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!(all_refuse(&[]).await.is_err());
    }
}
