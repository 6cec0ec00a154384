//! Where `HAProxy`'s own word comes from, for the commands that show it.

use std::collections::BTreeMap;

use super::settings::Setting;
use crate::domain::name::Name;
use crate::haproxy::prometheus::PrometheusSource;
use crate::haproxy::socket::StatsAddress;

/// The most stats sockets: a large site has 80 nodes.
const SOCKETS_MAX: usize = 1_024;
/// The most roles of nodes.
const ROLES_MAX: usize = 64;
/// The longest text of matchers, in bytes.
const MATCHERS_BYTES_MAX: usize = 1_024;

/// Where `HAProxy`'s own word comes from. Nothing of it changes an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObserveConfig {
    /// A Prometheus that scrapes the fleet.
    pub prometheus: Option<PrometheusSource>,
    /// Stats sockets by node.
    pub stats: BTreeMap<Name, StatsAddress>,
    /// What nodes are for.
    pub roles: Roles,
}

/// What nodes are for, by how their names begin: `main` by `haproxy-main-`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles(Vec<(Name, String)>);

impl Roles {
    /// The role of a node: of several that fit, the one whose text is the longest. `None` when
    /// nobody says.
    #[must_use]
    pub fn of(&self, node: &Name) -> Option<&Name> {
        let fitting = self.0.iter();
        let fitting = fitting.filter(|(_, begin)| node.as_str().starts_with(begin.as_str()));
        fitting
            .max_by_key(|(_, begin)| begin.len())
            .map(|(role, _)| role)
    }
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

/// `main=haproxy-main-,ci=haproxy-ci-`; a role may have several texts.
pub(super) fn roles(_: &Setting, text: &str) -> Result<Roles, String> {
    let mut roles = Vec::new();
    for (role, begin) in pairs(text, "main=haproxy-main-")? {
        Name::parse(begin).map_err(|error| format!("{begin:?} begins no node's name: {error}"))?;
        roles.push((role, begin.to_owned()));
    }
    if roles.len() > ROLES_MAX {
        return Err(format!("{} given; {ROLES_MAX} are allowed", roles.len()));
    }
    Ok(Roles(roles))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_role_of_the_longest_text_that_its_name_begins_with() {
        let setting = &super::super::settings::SETTINGS[0];
        let text = "main=haproxy-, ci=haproxy-ci-, ci=runner-";
        let roles = roles(setting, text).unwrap();
        for (node, role) in [
            ("haproxy-main-01", Some("main")),
            ("haproxy-ci-01", Some("ci")),
            ("runner-1", Some("ci")),
            ("lb-1", None),
        ] {
            let node = Name::parse(node).unwrap();
            assert_eq!(roles.of(&node).map(Name::as_str), role, "{node}");
        }
    }
}
