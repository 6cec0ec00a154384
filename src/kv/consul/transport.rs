//! From rustify's requests to Consul and back: every status with its headers, within time and
//! size limits, over HTTP/1.1, without proxy or redirect.
//!
//! consulrs's own transport cannot do mutual TLS, has no time limits, and turns each 404 (an
//! ordinary empty prefix) into an error without its index.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HOST, HeaderName, HeaderValue};
use reqwest::{Client, Method, Url, dns};
use rustify::endpoint::Endpoint;
use rustify::errors::ClientError;

use super::answer::Answer;
use super::credentials::{self, Credentials, Ends};
use super::environment::{Address, ConsulSettings, Secret, SettingError, SettingErrors};
use super::failure::Failure;
use crate::causes::root_cause;
use crate::http_client::{self, BodyError};

/// How long an unused connection is kept. Shorter than the idle limits of common proxies.
const IDLE: Duration = Duration::from_secs(30);
/// Finds a peer that vanished without a word while a read is blocked.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The header that carries the ACL token. As a query parameter it would end up in logs.
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

/// A connection pool to one agent, with the credentials to use.
#[derive(Clone)]
pub(super) struct Connection {
    http: Client,
    base: String,
    /// Consul Enterprise's namespace and partition, as a query.
    scope: String,
    /// The address as the person wrote it, for messages.
    address: String,
    /// The true host, when the URL holds the TLS server name instead.
    host: Option<HeaderValue>,
    basic_auth: Option<(String, Secret)>,
    pub(super) token: Option<HeaderValue>,
    /// When the certificates in use end.
    pub(super) ends: Ends,
    body_bytes_max: usize,
}

/// A connection as rustify sees it: one request with its own time limit.
struct Exchange<'a> {
    connection: &'a Connection,
    limit: Duration,
    /// The token of a login, in place of the connection's own.
    token: Option<&'a HeaderValue>,
}

impl Connection {
    /// Reads all files that the settings name and prepares a pool. Connects to nothing.
    pub(super) fn new(settings: &ConsulSettings) -> Result<Self, SettingErrors> {
        let credentials = credentials::load(settings).map_err(SettingErrors)?;
        let (token, ends) = (credentials.token.clone(), credentials.ends);
        let (base, host, resolver) = target(settings);
        let http = client(settings, credentials, resolver).map_err(|error| {
            let set = settings.tls.client.is_some();
            SettingErrors(vec![SettingError {
                variable: if set {
                    "CONSUL_CLIENT_CERT"
                } else {
                    "CONSUL_CACERT"
                },
                reason: format!("TLS cannot be set up: {}", root_cause(&error)),
            }])
        })?;
        Ok(Self {
            http,
            base,
            scope: scope(settings),
            address: settings.address.to_string(),
            host,
            basic_auth: settings.basic_auth.clone(),
            token,
            ends,
            body_bytes_max: settings.limits.body_bytes_max,
        })
    }

    /// The URL of a path below `/v1/`, where no consulrs type makes it.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}/{path}{}", self.base, self.scope)
    }

    /// One request, with this token, or with the connection's own if it has one.
    pub(super) async fn send(
        &self,
        request: http02::Request<Vec<u8>>,
        token: Option<&HeaderValue>,
        limit: Duration,
    ) -> Result<http02::Response<Vec<u8>>, Failure> {
        let (parts, body) = request.into_parts();
        let method = Method::from_bytes(parts.method.as_str().as_bytes());
        let method = method.map_err(|error| Failure::NotSent(error.to_string()))?;
        let mut builder = self
            .http
            .request(method, parts.uri.to_string())
            .timeout(limit)
            .body(body);
        if let Some(host) = &self.host {
            builder = builder.header(HOST, host);
        }
        if let Some(token) = token.or(self.token.as_ref()) {
            builder = builder.header(TOKEN, token);
        }
        if let Some((user, password)) = &self.basic_auth {
            builder = builder.basic_auth(user, Some(password.expose()));
        }
        let response = builder
            .send()
            .await
            .map_err(|e| Failure::new(&self.address, &e, limit))?;
        self.receive(response, limit).await
    }

    async fn receive(
        &self,
        mut response: reqwest::Response,
        limit: Duration,
    ) -> Result<http02::Response<Vec<u8>>, Failure> {
        let mut builder = http02::Response::builder().status(response.status().as_u16());
        for (name, value) in response.headers() {
            builder = builder.header(name.as_str(), value.as_bytes());
        }
        let body = http_client::body(&mut response, self.body_bytes_max).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => Failure::TooLarge(format!(
                "{}: the answer is larger than {} bytes",
                self.address, self.body_bytes_max
            )),
            BodyError::Broken(error) => Failure::new(&self.address, &error, limit),
        })?;
        builder
            .body(body)
            .map_err(|error| Failure::Lost(format!("{}: {error}", self.address)))
    }
}

/// Sends a consulrs or rustify request, with this token or the connection's own.
pub(super) async fn send<E: Endpoint>(
    endpoint: &E,
    connection: &Connection,
    token: Option<&HeaderValue>,
    limit: Duration,
) -> Result<Answer, Failure> {
    let exchange = Exchange {
        connection,
        limit,
        token,
    };
    let result = endpoint.exec(&exchange).await;
    Ok(Answer::new(result.map_err(failure)?.response))
}

/// Our transport's own failure, or rustify's, which is one of building the request.
fn failure(error: ClientError) -> Failure {
    if let ClientError::GenericError { source } = error {
        return source
            .downcast()
            .unwrap_or_else(|other| Failure::NotSent(other.to_string()));
    }
    Failure::NotSent(error.to_string())
}

#[async_trait]
impl rustify::client::Client for Exchange<'_> {
    fn base(&self) -> &str {
        &self.connection.base
    }

    async fn send(
        &self,
        request: http02::Request<Vec<u8>>,
    ) -> Result<http02::Response<Vec<u8>>, ClientError> {
        let sent = self.connection.send(request, self.token, self.limit).await;
        sent.map_err(|failure| ClientError::GenericError {
            source: failure.into(),
        })
    }

    /// Without rustify's own judgement, which drops the headers of every status but 2xx.
    async fn execute(
        &self,
        request: http02::Request<Vec<u8>>,
    ) -> Result<http02::Response<Vec<u8>>, ClientError> {
        self.send(request).await
    }
}

/// Leads the one name of our URL to the agent's real address. With it the server name is what
/// TLS asks for (SNI) and checks, by the ordinary verifier.
struct Alias {
    host: String,
    port: u16,
}

impl dns::Resolve for Alias {
    fn resolve(&self, _name: dns::Name) -> dns::Resolving {
        let target = (self.host.clone(), self.port);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host(target).await?.collect();
            Ok(Box::new(found.into_iter()) as dns::Addrs)
        })
    }
}

/// The base of all URLs, the true host if that is another, and how to find it then.
fn target(settings: &ConsulSettings) -> (String, Option<HeaderValue>, Option<Alias>) {
    let url = match &settings.address {
        Address::Unix(_) => return ("http://localhost/v1".to_owned(), None, None),
        Address::Url(url) => url,
    };
    let base = |url: &Url| format!("{}/v1", url.as_str().trim_end_matches('/'));
    let name = settings.tls.server_name.as_deref();
    let (Some(name), "https", Some(host)) = (name, url.scheme(), url.host_str()) else {
        return (base(url), None, None);
    };
    let mut named = url.clone();
    if named.set_host(Some(name)).is_err() {
        return (base(url), None, None);
    }
    let alias = Alias {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: url.port_or_known_default().unwrap_or(443),
    };
    let authority = url
        .port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    (
        base(&named),
        HeaderValue::from_str(&authority).ok(),
        Some(alias),
    )
}

/// `?ns=...&partition=...`, or nothing.
fn scope(settings: &ConsulSettings) -> String {
    let parts = [
        ("ns", &settings.namespace),
        ("partition", &settings.partition),
    ];
    let given = parts.map(|(name, value)| Some((name, value.as_ref()?)));
    let given: Vec<_> = given.into_iter().flatten().collect();
    let url = Url::parse_with_params("http://any", given).expect("a constant URL is well-formed");
    let query = url.query().filter(|query| !query.is_empty());
    query.map_or_else(String::new, |query| format!("?{query}"))
}

fn client(
    settings: &ConsulSettings,
    credentials: Credentials,
    resolver: Option<Alias>,
) -> Result<Client, reqwest::Error> {
    let mut builder = http_client::builder()
        .connect_timeout(settings.limits.connect)
        .pool_idle_timeout(IDLE)
        .tcp_keepalive(KEEPALIVE)
        .tls_danger_accept_invalid_certs(!settings.tls.verify);
    match (&settings.address, credentials.authorities) {
        // Without TLS the system's authorities are not needed, and an image from scratch has none.
        (Address::Unix(path), _) => {
            builder = builder.unix_socket(path.clone()).tls_certs_only([]);
        }
        (Address::Url(url), _) if url.scheme() == "http" => builder = builder.tls_certs_only([]),
        (Address::Url(_), Some(authorities)) => builder = builder.tls_certs_only(authorities),
        (Address::Url(_), None) => {}
    }
    if let Some(identity) = credentials.identity {
        builder = builder.identity(identity);
    }
    if let Some(resolver) = resolver {
        builder = builder.dns_resolver(Arc::new(resolver));
    }
    builder.build()
}
