//! The list of replicas.

use std::net::IpAddr;
use std::path::PathBuf;

use super::PeerAddress;
use super::load::slot;
use super::settings::Setting;
use crate::domain::name::Name;

/// The most replicas. Each asks each other eight times per `poll_interval`, and one of them out of
/// sight silences all while the source is away: more is not safer.
const PEERS_MAX: usize = 9;

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
            url: base_url(url.trim())?,
        };
        if peers
            .iter()
            .any(|other: &PeerAddress| other.slot == peer.slot)
        {
            return Err(format!("{} is named twice", peer.slot));
        }
        if peers
            .iter()
            .any(|other: &PeerAddress| other.url == peer.url)
        {
            return Err(format!("{} is given twice", peer.url));
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
    let Ok(url) = reqwest::Url::parse(&peer.url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// `http://host:port`, without anything behind.
fn base_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("{text:?} {why}; write http://HOST:PORT"));
    let Ok(url) = reqwest::Url::parse(text) else {
        return wrong("is no URL");
    };
    let (host, port) = (url.host_str(), url.port_or_known_default());
    let (Some(host), Some(port)) = (host, port) else {
        return wrong("names no host");
    };
    if url.scheme() != "http" {
        return wrong("is not http: replicas speak plain HTTP, with a token");
    }
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !bare || !url.username().is_empty() || url.password().is_some() {
        return wrong("has more than a host and a port");
    }
    Ok(format!("http://{host}:{port}"))
}
