//! Where Consul is and how to speak to it, from the variables that Consul's own command line
//! documents (<https://developer.hashicorp.com/consul/commands#environment-variables>).
//!
//! | variable | meaning |
//! |---|---|
//! | `CONSUL_HTTP_ADDR` | `host:port`, with `http://` or `https://` and a path if need be, or `unix:///path`; `127.0.0.1:8500` unless set |
//! | `CONSUL_HTTP_TOKEN` | the ACL token |
//! | `CONSUL_HTTP_TOKEN_FILE` | a file that holds it; goes before `CONSUL_HTTP_TOKEN`, is read again on 403 and on reload |
//! | `CONSUL_HTTP_AUTH` | `user:password` for a proxy in front of Consul |
//! | `CONSUL_HTTP_SSL` | `true`: HTTPS, whatever scheme the address has |
//! | `CONSUL_HTTP_SSL_VERIFY` | `false`: do not check the server's certificate |
//! | `CONSUL_CACERT`, `CONSUL_CAPATH` | PEM file, or folder of such, with the authorities to trust; the file goes first; the system's unless set |
//! | `CONSUL_CLIENT_CERT`, `CONSUL_CLIENT_KEY` | PEM files for mutual TLS |
//! | `CONSUL_TLS_SERVER_NAME` | the DNS name that the server's certificate is checked for |
//! | `CONSUL_NAMESPACE`, `CONSUL_PARTITION` | Consul Enterprise |
//! | `TIDEGATE_CONSUL_BEARER_TOKEN` | what the login shows, unless it stands in a file: see [`LoginSettings`] |
//!
//! As for Consul's command line, an empty variable is a variable that is not set.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

use super::credentials;

pub use self::login::{Bearer, Login, LoginSettings};

mod login;

/// How to reach one Consul agent.
#[derive(Debug, Clone)]
pub struct ConsulSettings {
    /// Where the agent listens.
    pub address: Address,
    /// Where the ACL token comes from.
    pub token: TokenSource,
    /// User and password of a proxy in front of Consul.
    pub basic_auth: Option<(String, Secret)>,
    /// Certificates.
    pub tls: Tls,
    /// Consul Enterprise's namespace.
    pub namespace: Option<String>,
    /// Consul Enterprise's partition.
    pub partition: Option<String>,
    /// Time and size limits.
    pub limits: Limits,
}

/// Where an agent listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Over TCP: scheme, host, port and perhaps a path; nothing else.
    Url(Url),
    /// On a unix socket, without TLS.
    Unix(PathBuf),
}

/// Where the ACL token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// No token: Consul's anonymous one.
    None,
    /// The token itself.
    Given(Secret),
    /// A file that holds it and may change.
    File(PathBuf),
    /// Consul gives it for a bearer token.
    Login(Login),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What is trusted, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Whether the server's certificate is checked at all.
    pub verify: bool,
    /// The DNS name it is checked for, instead of the address's host.
    pub server_name: Option<String>,
    /// Authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A folder of such files; not read when `ca_file` is set.
    pub ca_path: Option<PathBuf>,
    /// Our certificate and its key.
    pub client: Option<ClientFiles>,
}

/// Our certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate, with its chain if it has one.
    pub certificate: PathBuf,
    /// The private key: PKCS #8, SEC1 or PKCS #1.
    pub key: PathBuf,
}

/// Time and size limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until the connection stands. 2 s: a hung server shows within two polls.
    pub connect: Duration,
    /// Until the whole answer of a read or write that does not block is there. Without a limit
    /// of our own a hung server hides for 37 s; with 2 s an outage lasts 4 to 6 s.
    pub answer: Duration,
    /// What a blocking read may take beyond its wait and the sixteenth that Consul adds.
    pub blocking_slack: Duration,
    /// The largest body of an answer, in bytes. 64 MiB is 25 times 10,000 ordinary keys.
    pub body_bytes_max: usize,
}

/// One variable that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// The variable to mend.
    pub variable: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// All that is wrong, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<SettingError>);

impl ConsulSettings {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// See [`ConsulSettings::from_lookup`].
    pub fn from_environment() -> Result<Self, SettingErrors> {
        Self::from_lookup(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Reads the variables through a lookup, and the files that they name once, to see that they
    /// can be used. Without a login.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingErrors> {
        Self::new(&LoginSettings::default(), lookup)
    }

    /// The same, and who signs in how.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn new(
        login: &LoginSettings,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingErrors> {
        let mut reader = Reader {
            lookup,
            errors: Vec::new(),
        };
        let settings = reader.settings(login);
        let mut errors = reader.errors;
        if let Err(more) = credentials::load(&settings) {
            errors.extend(more);
        }
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(SettingErrors(errors))
        }
    }
}

struct Reader<F> {
    lookup: F,
    errors: Vec<SettingError>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn settings(&mut self, login: &LoginSettings) -> ConsulSettings {
        let ssl = self.flag("CONSUL_HTTP_SSL", false);
        let tls = Tls {
            verify: self.flag("CONSUL_HTTP_SSL_VERIFY", true),
            server_name: self.parsed("CONSUL_TLS_SERVER_NAME", server_name),
            ca_file: self.get("CONSUL_CACERT").map(PathBuf::from),
            ca_path: self.get("CONSUL_CAPATH").map(PathBuf::from),
            client: self.client_files(),
        };
        ConsulSettings {
            address: self
                .parsed("CONSUL_HTTP_ADDR", |text| address(text, ssl))
                .unwrap_or_else(|| default_address(ssl)),
            token: self.token(login),
            basic_auth: self.get("CONSUL_HTTP_AUTH").map(|text| basic_auth(&text)),
            tls,
            namespace: self.get("CONSUL_NAMESPACE"),
            partition: self.get("CONSUL_PARTITION"),
            limits: Limits::default(),
        }
    }

    fn get(&self, variable: &str) -> Option<String> {
        (self.lookup)(variable).filter(|text| !text.is_empty())
    }

    fn parsed<T>(
        &mut self,
        variable: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(&self.get(variable)?) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.errors.push(SettingError { variable, reason });
                None
            }
        }
    }

    fn flag(&mut self, variable: &'static str, default: bool) -> bool {
        self.parsed(variable, boolean).unwrap_or(default)
    }

    fn token(&mut self, login: &LoginSettings) -> TokenSource {
        match login.read(|variable| self.get(variable)) {
            Ok(Some(login)) => return TokenSource::Login(login),
            Ok(None) => {}
            Err(error) => self.errors.push(error),
        }
        if let Some(path) = self.get("CONSUL_HTTP_TOKEN_FILE") {
            return TokenSource::File(path.into());
        }
        self.get("CONSUL_HTTP_TOKEN")
            .map_or(TokenSource::None, |token| TokenSource::Given(Secret(token)))
    }

    fn client_files(&mut self) -> Option<ClientFiles> {
        let certificate = self.get("CONSUL_CLIENT_CERT");
        let key = self.get("CONSUL_CLIENT_KEY");
        let (variable, other) = match (certificate, key) {
            (None, None) => return None,
            (Some(certificate), Some(key)) => {
                return Some(ClientFiles {
                    certificate: certificate.into(),
                    key: key.into(),
                });
            }
            (Some(_), None) => ("CONSUL_CLIENT_KEY", "CONSUL_CLIENT_CERT"),
            (None, Some(_)) => ("CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY"),
        };
        let reason = format!("is needed as well, because {other} is set");
        self.errors.push(SettingError { variable, reason });
        None
    }
}

/// The spellings that Consul's own command line takes.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn server_name(text: &str) -> Result<String, String> {
    match rustls::pki_types::ServerName::try_from(text) {
        Ok(rustls::pki_types::ServerName::DnsName(_)) => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(format!("{text:?} is no DNS name")),
    }
}

fn basic_auth(text: &str) -> (String, Secret) {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    (user.to_owned(), Secret(password.to_owned()))
}

/// Consul's rule: an address that says `http` is nevertheless spoken to by HTTPS when
/// `CONSUL_HTTP_SSL` asks for it.
fn address(text: &str, ssl: bool) -> Result<Address, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let scheme = match scheme {
        "unix" if rest.starts_with('/') => return Ok(Address::Unix(rest.into())),
        "unix" => return Err("a unix socket is written unix:///path/to/socket".to_owned()),
        "http" if !ssl => "http",
        "http" | "https" => "https",
        _ => {
            return Err(format!(
                "the scheme {scheme:?} is none of http, https, unix"
            ));
        }
    };
    // The text itself is not repeated here: it may hold a password.
    let url = Url::parse(&format!("{scheme}://{rest}"))
        .map_err(|error| format!("is no address of the form host:port ({error})"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user or password: give them by CONSUL_HTTP_AUTH".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a ? or #, which no address has".to_owned());
    }
    Ok(Address::Url(url))
}

fn default_address(ssl: bool) -> Address {
    address("127.0.0.1:8500", ssl).expect("the default address is well-formed")
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(2),
            blocking_slack: Duration::from_millis(1_500),
            body_bytes_max: 64 * 1_024 * 1_024,
        }
    }
}

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(in crate::kv::consul) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url.as_str().trim_end_matches('/')),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            let newline = if n == 0 { "" } else { "\n" };
            write!(f, "{newline}{}: {}", error.variable, error.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

#[cfg(test)]
mod tests;
