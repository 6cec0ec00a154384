//! Whether the token sees the whole prefix: nobody may bless a part of it.
//!
//! A listing that leaves keys out looks like one without them (Consul with a token for a part of
//! the prefix: status 200 and fewer keys). A single key tells: asked for by name, one that may not
//! be read is refused whether it is there or not.

use std::collections::BTreeSet;

use super::replicas::Heard;
use crate::cli::{Exit, Failure};
use crate::domain::key::{DirectiveKey, Key, META, Prefix, SETTINGS, Scope, Target};
use crate::domain::listing::Listing;
use crate::kv::{Kv, KvError};

/// The most places that are probed. A fleet has fewer backends, zones and nodes.
const PROBES_MAX: usize = 1_024;
/// A name that nobody gives to anything.
const NOBODY: &str = "_accept_probe_";

/// Refuses a listing that may be a part. `Err` names the key and the policy.
pub(super) async fn check<K: Kv>(
    kv: &K,
    prefix: &Prefix,
    listing: &Listing,
    heard: &Heard,
) -> Result<(), Failure> {
    if !kv.capabilities().access_rights {
        return Ok(());
    }
    for path in names(listing, heard) {
        match kv.get(&prefix.key(&path)).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let text = format!(
                    "{} is there, and not in the listing: it is filtered, or was written just \
                     now. {}. Look again",
                    prefix.key(&path),
                    policy(prefix)
                );
                return Err(Failure::new(Exit::Refused, text));
            }
            Err(KvError::Denied(text)) => {
                return Err(denied(prefix, &prefix.key(&path), &text));
            }
            // Another program's key that cannot be asked for by name.
            Err(KvError::BadRequest(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
/// in each place where a key could be hidden that nobody knows.
fn names(listing: &Listing, heard: &Heard) -> BTreeSet<String> {
    let believed: BTreeSet<&String> = heard
        .beliefs
        .iter()
        .filter_map(|belief| belief.listing.as_ref())
        .flat_map(|listing| listing.entries.keys())
        .collect();
    let probes = probes(
        listing.entries.keys().chain(believed.iter().copied()),
        heard,
    );
    let mut names: BTreeSet<String> = probes.into_iter().take(PROBES_MAX).collect();
    names.extend(believed.into_iter().cloned());
    names.insert(META.to_owned());
    names.retain(|path| !listing.entries.contains_key(path));
    names
}

fn probes<'a>(paths: impl Iterator<Item = &'a String>, heard: &Heard) -> BTreeSet<String> {
    let mut scopes: BTreeSet<String> = [
        String::new(),
        format!("zones/{NOBODY}/"),
        format!("nodes/{NOBODY}/"),
    ]
    .into();
    let mut backends = BTreeSet::from([NOBODY.to_owned()]);
    for path in paths {
        let Key::Directive(DirectiveKey { scope, target }) = Key::parse(path) else {
            continue;
        };
        scopes.insert(scope_path(&scope));
        if let Target::Server(id) = target {
            backends.extend(backend(id.as_str()));
        }
    }
    for row in &heard.polled {
        scopes.insert(format!("nodes/{}/", row.node));
        scopes.extend(row.zone.iter().map(|zone| format!("zones/{zone}/")));
        backends.extend(backend(row.server.as_str()));
    }
    let fixed = [
        SETTINGS.to_owned(),
        NOBODY.to_owned(),
        format!("deploys/{NOBODY}"),
    ];
    let mut probes = BTreeSet::from(fixed);
    for scope in scopes {
        probes.insert(format!("{scope}canary-state"));
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

fn backend(id: &str) -> Option<String> {
    id.split_once('/').map(|(backend, _)| backend.to_owned())
}
