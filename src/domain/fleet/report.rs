//! What one replica says of the fleet: to the other replicas, and to itself over a restart.
//!
//! JSON. Its times are RFC 3339, those of a row ages in milliseconds at the report's own. What many
//! rows share is said once, and a row names its place: 400,000 rows take 20 MB.
//! ```text
//! {"v":2, "prefix":"frontend/gprd/", "replica":"a", "at":.., "since":.., "poll_interval_ms":2000,
//!  "newest":{"epoch":1,"gen":7,"index":4711}, "dropped":0,
//!  "servers":["web/gke-cny-web"], "sources":["10.0.0.1"], "answers":["ready 40%"],
//!  "versions":[{"epoch":1,"gen":7,"index":4711}],
//!  "nodes":{
//!    "lb-1":{"zones":{"us-east1-b":..}, "addresses":{"10.0.0.1":{"since":..,"last":..}},
//!      "rows":[[server, polls, unanswered, first, last, interval or 0, source,
//!               null or [age, answer, version]]]}}}
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use super::shared::{Listings, Lists, Places, WireRow};
use super::{Addresses, Node, ROWS_MAX, Run, Version};
use crate::domain::answer::Answer;
use crate::domain::key::Prefix;
use crate::domain::name::{Name, ServerId};
use crate::domain::sealed::{SealError, open, seal};
use crate::domain::sentinel::Generation;

/// The version of this form.
const VERSION: u64 = 2;
/// The room that a report is written into, in bytes: what is not used of it is never touched. A text
/// that grows by doubling leaves holes of its size behind, and an allocation above 32 MiB is one that
/// the allocator gives back as soon as it is free (glibc's `M_MMAP_THRESHOLD`, which rises with what
/// is freed, but never above that).
const JSON_ROOM: usize = 33 * 1024 * 1024;
/// What a kept report begins with.
const HEAD: &str = "tidegate-fleet 2";

/// What one replica says of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The replica.
    pub replica: Name,
    /// When it says so.
    pub at: Timestamp,
    /// Since when it has listened.
    pub since: Timestamp,
    /// The fleet's smallest agent-inter, as it is configured there.
    pub poll_interval: Duration,
    /// The listing that is in force there.
    pub newest: Option<Version>,
    /// Rows and polls that were not kept, for want of room, since its start.
    pub dropped: u64,
    /// The nodes that asked it.
    pub nodes: BTreeMap<Name, Arc<Node>>,
}

/// Why bytes are no report of this environment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReportError {
    /// A kept one that is not whole, or not ours.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// Not understood.
    #[error("it cannot be understood: {0}")]
    Unreadable(String),
    /// Of another environment.
    #[error("it is of {0}")]
    Elsewhere(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<N> {
    v: u64,
    prefix: String,
    replica: String,
    at: Timestamp,
    since: Timestamp,
    poll_interval_ms: u64,
    newest: Option<WireVersion>,
    dropped: u64,
    servers: Vec<String>,
    sources: Vec<IpAddr>,
    answers: Vec<String>,
    versions: Vec<WireVersion>,
    nodes: N,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireVersion {
    pub(super) epoch: u64,
    pub(super) r#gen: u64,
    pub(super) index: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireNode<R> {
    zones: BTreeMap<String, Timestamp>,
    addresses: BTreeMap<IpAddr, WireRun>,
    rows: R,
}

type WireNodes = BTreeMap<String, WireNode<Vec<WireRow>>>;

/// Nodes that are written one by one: a copy of all rows would be as large as the table.
struct Nodes<'a> {
    all: &'a BTreeMap<Name, Arc<Node>>,
    lists: &'a Lists,
    at: Timestamp,
}

struct RowsOf<'a> {
    node: &'a Node,
    report: &'a Nodes<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRun {
    since: Timestamp,
    last: Timestamp,
}

impl Report {
    /// The JSON text.
    #[must_use]
    pub fn to_json(&self, prefix: &Prefix) -> String {
        let mut lists = Lists::default();
        for (server, row) in self.nodes.values().flat_map(|node| node.rows.iter()) {
            lists.add(server, &row);
        }
        let nodes = Nodes {
            all: &self.nodes,
            lists: &lists,
            at: self.at,
        };
        let wire = Wire {
            v: VERSION,
            prefix: prefix.as_str().to_owned(),
            replica: self.replica.to_string(),
            at: self.at,
            since: self.since,
            poll_interval_ms: millis(self.poll_interval),
            newest: self.newest.map(Into::into),
            dropped: self.dropped,
            servers: written(&lists.servers, ToString::to_string),
            sources: written(&lists.sources, |source| *source),
            answers: written(&lists.answers, |answer| answer.words()),
            versions: written(&lists.versions, |version| (*version).into()),
            nodes,
        };
        let mut json = Vec::with_capacity(JSON_ROOM);
        serde_json::to_writer(&mut json, &wire).expect("strings and numbers always serialise");
        String::from_utf8(json).expect("JSON is text")
    }

    /// Reads the JSON text of a replica of the same environment.
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn parse(json: &[u8], prefix: &Prefix) -> Result<Self, ReportError> {
        let unreadable = ReportError::Unreadable;
        let wire: Wire<WireNodes> =
            serde_json::from_slice(json).map_err(|error| unreadable(error.to_string()))?;
        if wire.v != VERSION {
            let text = format!("its form is {}, this version reads {VERSION}", wire.v);
            return Err(unreadable(text));
        }
        if wire.prefix != prefix.as_str() {
            return Err(ReportError::Elsewhere(wire.prefix));
        }
        let rows: usize = wire.nodes.values().map(|node| node.rows.len()).sum();
        if rows > ROWS_MAX {
            let text = format!("{rows} rows are more than the {ROWS_MAX} that a replica keeps");
            return Err(unreadable(text));
        }
        wire.read().map_err(unreadable)
    }

    /// The bytes to keep over a restart.
    #[must_use]
    pub fn to_bytes(&self, prefix: &Prefix) -> Vec<u8> {
        seal(HEAD, self.to_json(prefix) + "\n")
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// See [`ReportError`]. Nothing of such bytes is used.
    pub fn from_bytes(bytes: &[u8], prefix: &Prefix) -> Result<Self, ReportError> {
        Self::parse(open(HEAD, bytes)?, prefix)
    }
}

impl Wire<WireNodes> {
    fn read(self) -> Result<Report, String> {
        let servers = self.servers.iter().map(|server| {
            let id = ServerId::parse(server);
            id.map_err(|error| format!("server {server:?}: {error}"))
        });
        let answers = self.answers.iter().map(|words| {
            Answer::from_words(words).ok_or_else(|| format!("{words:?} is no answer"))
        });
        let listings = Listings {
            at: self.at,
            servers: servers.collect::<Result<_, _>>()?,
            sources: self.sources,
            answers: answers.collect::<Result<_, _>>()?,
            versions: self.versions.into_iter().map(Into::into).collect(),
        };
        let nodes = self.nodes.into_iter().map(|(name, node)| {
            let read = || Ok((parse_name(&name)?, Arc::new(node.read(&listings)?)));
            read().map_err(|error: String| format!("node {name:?}: {error}"))
        });
        Ok(Report {
            replica: parse_name(&self.replica)?,
            at: self.at,
            since: self.since,
            poll_interval: Duration::from_millis(self.poll_interval_ms),
            newest: self.newest.map(Into::into),
            dropped: self.dropped,
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}

impl WireNode<Vec<WireRow>> {
    fn read(self, listings: &Listings) -> Result<Node, String> {
        if self.rows.is_empty() {
            return Err("it has no row".to_owned());
        }
        let mut node = Node::default();
        for (zone, at) in self.zones {
            node.in_zone(&parse_name(&zone)?, at);
        }
        for (address, run) in self.addresses {
            node.addresses.seen(address, Run::new(run.since, run.last));
        }
        for row in &self.rows {
            let (server, row) = listings.read(row)?;
            node.rows.put(server, &row);
        }
        Ok(node)
    }
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.all.iter().map(|(name, node)| {
            let zones = node.zones.iter();
            let node = WireNode {
                zones: zones.map(|(zone, at)| (zone.to_string(), *at)).collect(),
                addresses: wire_addresses(&node.addresses),
                rows: RowsOf { node, report: self },
            };
            (name.as_str(), node)
        }))
    }
}

impl Serialize for RowsOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Nodes { lists, at, .. } = self.report;
        let rows = self.node.rows.iter();
        serializer.collect_seq(rows.map(|(server, row)| lists.wire(server, &row, *at)))
    }
}

impl From<Version> for WireVersion {
    fn from(version: Version) -> Self {
        Self {
            epoch: version.generation.epoch,
            r#gen: version.generation.r#gen,
            index: version.index,
        }
    }
}

impl From<WireVersion> for Version {
    fn from(wire: WireVersion) -> Self {
        Self {
            generation: Generation {
                epoch: wire.epoch,
                r#gen: wire.r#gen,
            },
            index: wire.index,
        }
    }
}

fn wire_addresses(addresses: &Addresses) -> BTreeMap<IpAddr, WireRun> {
    let wire = |run: Run| WireRun {
        since: run.since,
        last: run.last,
    };
    addresses.iter().map(|(at, run)| (at, wire(run))).collect()
}

fn written<T, W>(places: &Places<T>, write: impl Fn(&T) -> W) -> Vec<W> {
    places.values().iter().map(write).collect()
}

fn parse_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
