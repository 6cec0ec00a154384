//! The texts of single settings, read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::settings::{Kind, SLOT_BYTES_MAX, Setting};
use super::{AgentClose, LogFormat};
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::kv::source::KvSource;

/// The longest name of an auth method that Consul takes, in bytes.
const AUTH_METHOD_BYTES_MAX: usize = 128;

pub(super) fn folder(_: &Setting, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("empty; leave it out to remember nothing".to_owned());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn name(_: &Setting, text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| error.to_string())
}

pub(super) fn root(_: &Setting, text: &str) -> Result<String, String> {
    Prefix::new(text, "any")
        .map(|_| text.to_owned())
        .map_err(|error| format!("every segment of the path is a name, but {error}"))
}

pub(super) fn kv(_: &Setting, text: &str) -> Result<KvSource, String> {
    match text.strip_prefix("dir:") {
        Some("") => Err("the path is missing; write dir:PATH".to_owned()),
        Some(path) if path.contains('\0') => Err("a path holds no zero byte".to_owned()),
        Some(path) => Ok(KvSource::Directory(PathBuf::from(path))),
        None if text == "consul" => Ok(KvSource::Consul),
        None => Err(format!("{text:?} is neither consul nor dir:PATH")),
    }
}

/// Consul's own rule for the names of auth methods.
pub(super) fn auth_method(_: &Setting, text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if text.is_empty() || text.len() > AUTH_METHOD_BYTES_MAX || !text.bytes().all(allowed) {
        return Err(format!(
            "{text:?} is no name of an auth method: 1 to {AUTH_METHOD_BYTES_MAX} letters, digits, - and _"
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn bearer_token_file(_: &Setting, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("empty; leave it out when nobody signs in".to_owned());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn slot(setting: &Setting, text: &str) -> Result<Name, String> {
    if text.len() > SLOT_BYTES_MAX {
        return Err(format!(
            "{} bytes; a slot has at most {SLOT_BYTES_MAX}",
            text.len()
        ));
    }
    name(setting, text)
}

pub(super) fn switch(_: &Setting, text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

pub(super) fn span(setting: &Setting, text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text)
        .map_err(|error| format!("{text:?} is no time such as 2s or 500ms: {error}"))?;
    match setting.kind {
        Kind::Span { min, max } if span < min || span > max => Err(format!(
            "{text} is not between {} and {}",
            humantime::format_duration(min),
            humantime::format_duration(max)
        )),
        Kind::Span { .. }
        | Kind::Text
        | Kind::OneOf(_)
        | Kind::Count { .. }
        | Kind::Switch
        | Kind::List
        | Kind::Pairs => Ok(span),
    }
}

pub(super) fn count(setting: &Setting, text: &str) -> Result<usize, String> {
    let (min, max) = match setting.kind {
        Kind::Count { min, max } => (min, max),
        Kind::Text
        | Kind::OneOf(_)
        | Kind::Span { .. }
        | Kind::Switch
        | Kind::List
        | Kind::Pairs => (1, u64::MAX),
    };
    let number = text.parse().ok().filter(|n| (min..=max).contains(n));
    number
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| format!("{text:?} is no whole number between {min} and {max}"))
}

pub(super) fn address(_: &Setting, text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no address and port such as 0.0.0.0:8790 or [::]:8790"))
}

pub(super) fn agent_close(_: &Setting, text: &str) -> Result<AgentClose, String> {
    match text {
        "lazy" => Ok(AgentClose::Lazy),
        "fin" => Ok(AgentClose::Fin),
        other => Err(format!("{other:?} is neither lazy nor fin")),
    }
}

pub(super) fn log_format(_: &Setting, text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is neither text nor json")),
    }
}

/// A filter takes every word for the name of a module: a misspelt level would silence the log.
pub(super) fn filter(_: &Setting, text: &str) -> Result<String, String> {
    for part in text.split(',').map(str::trim) {
        let module = part.contains("::") || part.starts_with('[');
        let silent = match part.split_once('=') {
            Some((_, level)) => level.is_empty(),
            None => !module && part.parse::<LevelFilter>().is_err(),
        };
        if silent || part.is_empty() {
            return Err(format!(
                "{part:?} is no level (off, error, warn, info, debug, trace), nor a module with one"
            ));
        }
    }
    EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("{text:?} is no log filter: {error}"))
}
