//! The list of replicas.

use std::net::IpAddr;
use std::path::PathBuf;

use super::PeerAddress;
use super::settings::Setting;
use super::values::slot;
use crate::domain::name::Name;

/// The most replicas. Each asks each other eight times per `poll_interval`, and one of them out of
/// sight silences all while the source is away: more is not safer.
pub(super) const PEERS_MAX: usize = 9;

/// `a=http://10.0.0.1:8791,b=...`, sorted by slot.
pub(super) fn addresses(setting: &Setting, text: &str) -> Result<Vec<PeerAddress>, String> {
    let mut peers = Vec::new();
    for pair in text.split(',').map(str::trim) {
        let Some((name, url)) = pair.split_once('=') else {
            return Err(format!(
                "{pair:?} is no NAME=URL such as a=http://10.0.0.1:8791"
            ));
        };
        let peer = PeerAddress {
            slot: slot(setting, name.trim()).map_err(|error| format!("{name:?}: {error}"))?,
            url: replica_url(url.trim())?,
        };
        if peers
            .iter()
            .any(|other: &PeerAddress| other.slot == peer.slot)
        {
            return Err(format!("{} is named twice", peer.slot));
        }
        if peers
            .iter()
            .any(|other: &PeerAddress| authority(&other.url) == authority(&peer.url))
        {
            return Err(format!("{} is given twice", authority(&peer.url)));
        }
        peers.push(peer);
    }
    if !(2..=PEERS_MAX).contains(&peers.len()) {
        let count = peers.len();
        return Err(format!(
            "{count} given; 2 to {PEERS_MAX} are allowed, this replica included"
        ));
    }
    peers.sort();
    Ok(peers)
}

/// Names with commas between; none is no name.
pub(super) fn slots(setting: &Setting, text: &str) -> Result<Vec<Name>, String> {
    let names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.map(|name| slot(setting, name)).collect()
}

pub(super) fn token_file(_: &Setting, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("empty; leave it out when all peers are on this machine".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// Whether no packet to this peer leaves the machine.
pub(super) fn is_on_this_machine(peer: &PeerAddress) -> bool {
    let authority = authority(&peer.url);
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    host == "localhost" || address(host).is_some_and(|address| address.is_loopback())
}

const PLAIN: &str = "http://";
const ENCRYPTED: &str = "https://";

/// Host and port of a replica's URL. Whether it is asked over TLS does not make it another.
pub(super) fn authority(url: &str) -> &str {
    let rest = url.strip_prefix(PLAIN);
    rest.or_else(|| url.strip_prefix(ENCRYPTED)).unwrap_or(url)
}

/// Whether a replica is asked over TLS.
#[must_use]
pub fn is_encrypted(url: &str) -> bool {
    url.starts_with(ENCRYPTED)
}

/// Reads the URL of a replica's HTTP listener: `http://host:port` or `https://host:port`, without
/// anything behind. A port that is left out would be 80 or 443, which is nobody's.
///
/// # Errors
/// What is wrong with it, and the form that is expected.
pub fn replica_url(text: &str) -> Result<String, String> {
    // What stands before an @ may be a password.
    let shown = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let wrong = |why: &str| Err(format!("{shown:?} {why}; write {PLAIN}HOST:PORT"));
    let rest = authority(text);
    if rest.len() == text.len() {
        return wrong("begins with neither http:// nor https://");
    }
    let scheme = &text[..text.len() - rest.len()];
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#', '@']) {
        return wrong("has more than a host and a port");
    }
    let Some((host, port)) = authority.rsplit_once(':') else {
        return wrong("names no port");
    };
    if port.parse::<u16>().is_ok_and(|port| port > 0) {
        let name = Name::parse(host).is_ok() && !host.contains([':', '_']);
        if !name && address(host).is_none() {
            return wrong("names no host");
        }
        if address(host).is_some_and(|address| address.is_unspecified()) {
            return wrong("is no address of one machine");
        }
        return Ok(format!("{scheme}{authority}"));
    }
    wrong("has no port between 1 and 65535")
}

/// An IPv4 address, or an IPv6 one in brackets.
fn address(host: &str) -> Option<IpAddr> {
    match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => host.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}
