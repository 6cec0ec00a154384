//! The files that the settings name: token, authorities, our certificate.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use reqwest::header::HeaderValue;
use reqwest::{Certificate, Identity};

use super::environment::{
    Bearer, ClientFiles, ConsulSettings, Secret, SettingError, Tls, TokenSource,
};
use crate::domain::certificate::not_after;
use crate::kv::expiries::{Credential, Expiries};
use crate::pem::{self, Certificates};

/// The longest bearer token, in bytes. Those of CI jobs and instances have one or two thousand.
const BEARER_BYTES_MAX: usize = 65_536;

/// What the files hold.
pub(super) struct Credentials {
    /// The token as a header that is never printed.
    pub(super) token: Option<HeaderValue>,
    /// The authorities to trust; `None`: the system's.
    pub(super) authorities: Option<Vec<Certificate>>,
    /// Our certificate and key.
    pub(super) identity: Option<Identity>,
    /// When the certificates end.
    pub(super) ends: Ends,
}

/// When the certificates end, where there are any and they say it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    /// Of the authorities the last one: the others may be there for what is no more.
    authority: Option<Timestamp>,
    /// Of our certificate and its chain the first one.
    certificate: Option<Timestamp>,
}

impl Ends {
    /// These are in use now.
    pub(super) fn tell(self, expiries: &Expiries) {
        expiries.set(Credential::Authority, self.authority);
        expiries.set(Credential::Certificate, self.certificate);
    }
}

/// Reads all files; gives everything that is wrong with them.
pub(super) fn load(settings: &ConsulSettings) -> Result<Credentials, Vec<SettingError>> {
    let mut errors = Vec::new();
    let mut take = |result: Result<(), SettingError>| errors.extend(result.err());
    let mut credentials = Credentials {
        token: None,
        authorities: None,
        identity: None,
        ends: Ends::default(),
    };
    take(token(&settings.token).map(|found| credentials.token = found));
    if let TokenSource::Login(login) = &settings.token {
        take(bearer(&login.bearer).map(|_| ()));
    }
    take(authorities(&settings.tls).map(|found| {
        let (authorities, end) = found.unzip();
        credentials.authorities = authorities;
        credentials.ends.authority = end.flatten();
    }));
    if let Some(files) = &settings.tls.client {
        take(identity(files).map(|(found, end)| {
            credentials.identity = Some(found);
            credentials.ends.certificate = end;
        }));
    }
    if errors.is_empty() {
        Ok(credentials)
    } else {
        Err(errors)
    }
}

/// What a login shows, read anew if it stands in a file.
pub(super) fn bearer(bearer: &Bearer) -> Result<Secret, SettingError> {
    let variable = bearer.setting();
    let secret = match bearer {
        Bearer::Given(secret) => secret.clone(),
        Bearer::File(path) => {
            let unusable = |why: &dyn std::fmt::Display| unusable(variable, path, why);
            let mut bytes = Vec::new();
            let file = File::open(path).map_err(|error| unusable(&error))?;
            let read = file
                .take(BEARER_BYTES_MAX as u64 + 1)
                .read_to_end(&mut bytes);
            read.map_err(|error| unusable(&error))?;
            Secret::new(String::from_utf8_lossy(&bytes).trim())
        }
    };
    let reason = match secret.expose() {
        "" => "the bearer token is empty",
        text if text.len() > BEARER_BYTES_MAX => "the bearer token is longer than 65,536 bytes",
        text if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            "the bearer token holds white space or another odd character"
        }
        _ => return Ok(secret),
    };
    Err(SettingError {
        variable,
        reason: reason.to_owned(),
    })
}

/// The token, read anew if it stands in a file.
pub(super) fn token(source: &TokenSource) -> Result<Option<HeaderValue>, SettingError> {
    let (variable, text) = match source {
        TokenSource::None | TokenSource::Login(_) => return Ok(None),
        TokenSource::Given(secret) => ("CONSUL_HTTP_TOKEN", secret.expose().to_owned()),
        TokenSource::File(path) => {
            let text =
                std::fs::read(path).map_err(|e| unusable("CONSUL_HTTP_TOKEN_FILE", path, &e))?;
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            ("CONSUL_HTTP_TOKEN_FILE", text)
        }
    };
    let error = |reason: &str| SettingError {
        variable,
        reason: reason.to_owned(),
    };
    if text.is_empty() {
        return Err(error("the token file is empty"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(error(
            "the token holds white space or another odd character",
        ));
    }
    let mut value = HeaderValue::from_str(&text).map_err(|_| error("the token is no header"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// The authorities, and when the last of them ends.
type Authorities = (Vec<Certificate>, Option<Timestamp>);

fn authorities(tls: &Tls) -> Result<Option<Authorities>, SettingError> {
    let (variable, files) = match (&tls.ca_file, &tls.ca_path) {
        (Some(file), _) => ("CONSUL_CACERT", vec![file.clone()]),
        (None, Some(folder)) => ("CONSUL_CAPATH", files_of(folder)?),
        (None, None) => return Ok(None),
    };
    let (mut authorities, mut end) = (Vec::new(), None);
    for file in files {
        for certificate in certificates(variable, &file)?.all {
            end = end.max(not_after(&certificate));
            let certificate = Certificate::from_der(&certificate);
            authorities.push(certificate.map_err(|e| unusable(variable, &file, &e))?);
        }
    }
    Ok(Some((authorities, end)))
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, SettingError> {
    let variable = "CONSUL_CAPATH";
    let entries = std::fs::read_dir(folder).map_err(|e| unusable(variable, folder, &e))?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut files = paths.map_err(|e| unusable(variable, folder, &e))?;
    files.retain(|path| path.is_file());
    files.sort();
    if files.is_empty() {
        return Err(unusable(variable, folder, &"holds no file"));
    }
    Ok(files)
}

/// What we show, and when the first of its certificates ends.
fn identity(files: &ClientFiles) -> Result<(Identity, Option<Timestamp>), SettingError> {
    let variable = "CONSUL_CLIENT_CERT";
    let chain = certificates(variable, &files.certificate)?;
    let end = chain.all.iter().filter_map(|part| not_after(part)).min();
    let mut both = chain.pem;
    let variable = "CONSUL_CLIENT_KEY";
    let key = pem::key(&files.key).map_err(|reason| SettingError { variable, reason })?;
    both.push(b'\n');
    both.extend(key.pem);
    let identity = Identity::from_pem(&both);
    let identity = identity.map_err(|e| unusable(variable, &files.key, &e))?;
    Ok((identity, end))
}

fn certificates(variable: &'static str, file: &Path) -> Result<Certificates, SettingError> {
    pem::certificates(file).map_err(|reason| SettingError { variable, reason })
}

fn unusable(variable: &'static str, file: &Path, why: &dyn std::fmt::Display) -> SettingError {
    SettingError {
        variable,
        reason: format!("{}: {why}", file.display()),
    }
}
