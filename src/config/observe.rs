//! Where `HAProxy`'s own word comes from, for the commands that show it.

use std::collections::BTreeMap;

use super::settings::Setting;
use crate::domain::name::Name;
use crate::haproxy::prometheus::PrometheusSource;
use crate::haproxy::socket::StatsAddress;

/// The most stats sockets: a large site has 80 nodes.
pub(super) const SOCKETS_MAX: usize = 1_024;
/// The longest text of matchers, in bytes.
const MATCHERS_BYTES_MAX: usize = 1_024;

/// Where `HAProxy`'s own word comes from. Nothing of it changes an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObserveConfig {
    /// A Prometheus that scrapes the fleet.
    pub prometheus: Option<PrometheusSource>,
    /// Stats sockets by node.
    pub stats: BTreeMap<Name, StatsAddress>,
}

/// `http://host:port` or `https://host/path`, without what stands behind a `?`. A secret in it
/// would be seen in the list of processes.
pub(super) fn prometheus(_: &Setting, text: &str) -> Result<String, String> {
    // What stands before an @ may be a password.
    let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
    web_address(text, &['?', '#', '@'])
        .map(|text| text.trim_end_matches('/').to_owned())
        .map_err(|why| format!("{shown:?} {why}; write http://HOST:PORT"))
}

/// `http://host...` or `https://host...` without any of these characters. The error does not repeat
/// the text.
pub(super) fn web_address<'a>(text: &'a str, without: &[char]) -> Result<&'a str, &'static str> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let Some(rest) = rest else {
        return Err("begins with neither http:// nor https://");
    };
    if rest.contains(without) || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("has more than a host, a port and a path");
    }
    if rest.is_empty() || rest.starts_with(['/', ':', '?']) {
        return Err("names no host");
    }
    Ok(text)
}

/// What stands within the braces of a series. Prometheus itself checks the rest.
pub(super) fn matchers(_: &Setting, text: &str) -> Result<String, String> {
    if text.len() > MATCHERS_BYTES_MAX {
        let len = text.len();
        return Err(format!("{len} bytes are more than {MATCHERS_BYTES_MAX}"));
    }
    let bad = text.is_empty() || text.contains(['{', '}']) || text.contains(char::is_control);
    if bad || text.ends_with(',') {
        return Err(format!(
            "{text:?} are no matchers such as env=\"gprd\",type=\"haproxy\", without braces"
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn label(_: &Setting, text: &str) -> Result<String, String> {
    let first = text.chars().next();
    let starts = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no label's name"))
}

/// `lb-1=unix:/run/haproxy/admin.sock,lb-2=10.0.0.2:9999`.
pub(super) fn stats(_: &Setting, text: &str) -> Result<BTreeMap<Name, StatsAddress>, String> {
    let mut all = BTreeMap::new();
    for (name, address) in pairs(text, "lb-1=unix:/run/haproxy/admin.sock")? {
        let address = StatsAddress::parse(address)?;
        if all.insert(name.clone(), address).is_some() {
            return Err(format!("{name} is named twice"));
        }
    }
    if all.len() > SOCKETS_MAX {
        return Err(format!("{} given; {SOCKETS_MAX} are allowed", all.len()));
    }
    Ok(all)
}

pub(super) fn pairs<'a>(text: &'a str, example: &str) -> Result<Vec<(Name, &'a str)>, String> {
    let pair = |pair: &'a str| {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("{pair:?} is no pair such as {example}"))?;
        let name = name.trim();
        let name = Name::parse(name).map_err(|error| format!("{name:?}: {error}"))?;
        Ok((name, value.trim()))
    };
    text.split(',').map(str::trim).map(pair).collect()
}
