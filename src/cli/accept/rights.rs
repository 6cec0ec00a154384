//! Whether the token sees the whole prefix: nobody may bless a part of it.
//!
//! A listing that leaves keys out looks like one without them (Consul with a token for a part of
//! the prefix: status 200 and fewer keys). A single key tells: asked for by name, one that may not
//! be read is refused whether it is there or not.
//!
//! What is left: a rule for one single key of a node or zone, or for a backend, zone or node, that
//! neither a listing, nor the settings' rows, nor the fleet view names. The store's index tells
//! nothing: that of the prefix is above the listed keys after any deletion, that of the table counts
//! every prefix.

use std::collections::BTreeSet;

use super::replicas::Heard;
use crate::cli::{Exit, Failure};
use crate::domain::key::{CANARY_STATE, DirectiveKey, Key, META, Prefix, SETTINGS, Scope, Target};
use crate::domain::listing::Listing;
use crate::domain::name::ServerId;
use crate::domain::settings::Settings;
use crate::kv::{Kv, KvError};

/// The most names that are asked for although nobody knows a key there. A fleet of 50 nodes with 50
/// backends has fewer, and each takes a millisecond or two.
const PROBES_MAX: usize = 4_096;
/// A name that nobody gives to anything.
const NOBODY: &str = "_accept_probe_";

/// Refuses a listing that may be a part: the text names the key and the policy. Gives a warning
/// when not all could be looked at.
pub(super) async fn check<K: Kv>(
    kv: &K,
    prefix: &Prefix,
    listing: &Listing,
    heard: &Heard,
) -> Result<Option<String>, Failure> {
    if !kv.capabilities().access_rights {
        return Ok(None);
    }
    let (names, left_out) = names(listing, heard);
    for path in names {
        let key = prefix.key(&path);
        match kv.get(&key).await {
            // Not there; or another program's key, which cannot be asked for by name.
            Ok(None) | Err(KvError::BadRequest(_)) => {}
            Ok(Some(_)) => {
                let text = format!(
                    "{} is there, and not in the listing: it is filtered, or was written just \
                     now. {}. Look again",
                    key.escape_debug(),
                    policy(prefix)
                );
                return Err(Failure::new(Exit::Refused, text));
            }
            Err(KvError::Denied(text)) => return Err(denied(prefix, &key, &text)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((left_out > 0).then(|| {
        format!("{left_out} places were not looked at: keys that nobody knows may be hidden there")
    }))
}

/// The token does not see the whole prefix.
pub(super) fn denied(prefix: &Prefix, what: &str, text: &str) -> Failure {
    let text = format!(
        "the token may not read {}, so what it sees may be a part, and nobody can accept a part. \
         {}. The store says: {text}",
        what.escape_debug(),
        policy(prefix)
    );
    Failure::new(Exit::Refused, text)
}

fn policy(prefix: &Prefix) -> String {
    format!(
        "Give it the policy key_prefix \"{prefix}\" {{ policy = \"list\" }}, with no narrower rule"
    )
}

/// What is asked for by name: every key that somebody believes and the listing lacks, and one name
/// in each place where a key could be hidden that nobody knows; and how many of these are too many.
fn names(listing: &Listing, heard: &Heard) -> (BTreeSet<String>, usize) {
    let believed = heard.beliefs.iter().filter_map(|b| b.listing.as_ref());
    let believed: Vec<_> = believed.collect();
    let probes = probes(believed.iter().copied().chain([listing]), heard);
    let left_out = probes.len().saturating_sub(PROBES_MAX);
    let mut names: BTreeSet<String> = probes.into_iter().take(PROBES_MAX).collect();
    names.extend(
        believed
            .iter()
            .flat_map(|listing| listing.entries.keys().cloned()),
    );
    names.insert(META.to_owned());
    names.retain(|path| !listing.entries.contains_key(path));
    (names, left_out)
}

fn probes<'a>(listings: impl Iterator<Item = &'a Listing>, heard: &Heard) -> BTreeSet<String> {
    let anybody = [
        String::new(),
        format!("zones/{NOBODY}/"),
        format!("nodes/{NOBODY}/"),
    ];
    let mut scopes = BTreeSet::from(anybody);
    let mut servers: BTreeSet<ServerId> = heard.polled.iter().map(|r| r.server.clone()).collect();
    for listing in listings {
        for path in listing.entries.keys() {
            if let Key::Directive(DirectiveKey { scope, target }) = Key::parse(path) {
                scopes.insert(scope_path(&scope));
                if let Target::Server(id) = target {
                    servers.insert(id);
                }
            }
        }
        let settings = listing.entries.get(SETTINGS);
        let settings = settings.and_then(|entry| Settings::parse(&entry.value).ok());
        let rows = settings.into_iter().flat_map(|(settings, _)| settings.rows);
        servers.extend(rows.map(|(server, _)| server));
    }
    for row in &heard.polled {
        scopes.insert(format!("nodes/{}/", row.node));
        scopes.extend(row.zone.iter().map(|zone| format!("zones/{zone}/")));
    }
    let mut backends: BTreeSet<&str> = servers.iter().map(backend).collect();
    backends.insert(NOBODY);
    let fixed = [
        SETTINGS.to_owned(),
        NOBODY.to_owned(),
        format!("deploys/{NOBODY}"),
    ];
    let mut probes = BTreeSet::from(fixed);
    probes.extend(servers.iter().map(|id| format!("server-overrides/{id}")));
    for scope in scopes {
        probes.insert(format!("{scope}{CANARY_STATE}"));
        probes.insert(format!("{scope}group-states/{NOBODY}"));
        let of = |backend| format!("{scope}server-overrides/{backend}/{NOBODY}");
        probes.extend(backends.iter().map(of));
    }
    probes
}

fn scope_path(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => String::new(),
        Scope::Zone(zone) => format!("zones/{zone}/"),
        Scope::Node(node) => format!("nodes/{node}/"),
    }
}

fn backend(server: &ServerId) -> &str {
    let id = server.as_str();
    id.split_once('/').map_or(id, |(backend, _)| backend)
}
