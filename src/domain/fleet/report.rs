//! What one replica says of the fleet: to the other replicas, and to itself over a restart.
//!
//! JSON, its times in RFC 3339 and its intervals in milliseconds:
//! ```text
//! {"v":1, "prefix":"frontend/gprd/", "replica":"a", "at":.., "since":.., "poll_interval_ms":2000,
//!  "newest":{"epoch":1,"gen":7,"index":4711}, "dropped":0, "nodes":{
//!    "lb-1":{"zones":{"us-east1-b":..}, "addresses":{"10.0.0.1":{"since":..,"last":..}}, "rows":{
//!      "web/gke-cny-web":{"polls":12,"unanswered":0,"first":..,"last":..,"interval_ms":2000,
//!        "address":"10.0.0.1",
//!        "told":{"at":..,"answer":"ready 40%","version":{"epoch":1,"gen":7,"index":4711}}}}}}}
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Addresses, Node, ROWS_MAX, Row, Run, Told, Version, counted};
use crate::domain::answer::Answer;
use crate::domain::key::Prefix;
use crate::domain::name::{Name, ServerId};
use crate::domain::sealed::{SealError, open, seal};
use crate::domain::sentinel::Generation;

/// The version of this form.
const VERSION: u64 = 1;
/// What a kept report begins with.
const HEAD: &str = "tidegate-fleet 1";

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
    pub nodes: BTreeMap<Name, Node>,
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
struct Wire {
    v: u64,
    prefix: String,
    replica: String,
    at: Timestamp,
    since: Timestamp,
    poll_interval_ms: u64,
    newest: Option<WireVersion>,
    dropped: u64,
    nodes: BTreeMap<String, WireNode>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireVersion {
    pub(super) epoch: u64,
    pub(super) r#gen: u64,
    pub(super) index: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireNode {
    zones: BTreeMap<String, Timestamp>,
    addresses: BTreeMap<IpAddr, WireRun>,
    rows: BTreeMap<String, WireRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRun {
    since: Timestamp,
    last: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRow {
    polls: u64,
    unanswered: u64,
    first: Timestamp,
    last: Timestamp,
    interval_ms: Option<u64>,
    address: IpAddr,
    told: Option<WireTold>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTold {
    at: Timestamp,
    answer: String,
    version: WireVersion,
}

impl Report {
    /// The JSON text.
    #[must_use]
    pub fn to_json(&self, prefix: &Prefix) -> String {
        let nodes = self.nodes.iter();
        let wire = Wire {
            v: VERSION,
            prefix: prefix.as_str().to_owned(),
            replica: self.replica.to_string(),
            at: self.at,
            since: self.since,
            poll_interval_ms: millis(self.poll_interval),
            newest: self.newest.map(Into::into),
            dropped: self.dropped,
            nodes: nodes
                .map(|(name, node)| (name.to_string(), node.into()))
                .collect(),
        };
        serde_json::to_string(&wire).expect("strings and numbers always serialise")
    }

    /// Reads the JSON text of a replica of the same environment.
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn parse(json: &[u8], prefix: &Prefix) -> Result<Self, ReportError> {
        let unreadable = ReportError::Unreadable;
        let wire: Wire =
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
        seal(HEAD, &(self.to_json(prefix) + "\n"))
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// See [`ReportError`]. Nothing of such bytes is used.
    pub fn from_bytes(bytes: &[u8], prefix: &Prefix) -> Result<Self, ReportError> {
        Self::parse(open(HEAD, bytes)?, prefix)
    }
}

impl Wire {
    fn read(self) -> Result<Report, String> {
        let nodes = self.nodes.into_iter().map(|(name, node)| {
            let read = || Ok((parse_name(&name)?, node.read()?));
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

impl WireNode {
    fn read(self) -> Result<Node, String> {
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
        for (server, row) in self.rows {
            let bad = |error: String| format!("server {server:?}: {error}");
            let id = ServerId::parse(&server).map_err(|error| bad(error.to_string()))?;
            node.rows.insert(id, row.read().map_err(bad)?);
        }
        Ok(node)
    }
}

impl WireRow {
    fn read(self) -> Result<Row, String> {
        let told = |told: WireTold| {
            let answer = Answer::from_words(&told.answer)
                .ok_or_else(|| format!("{:?} is no answer", told.answer))?;
            let (at, version) = (told.at, told.version.into());
            Ok::<_, String>(Told {
                at,
                version,
                answer,
            })
        };
        Ok(Row {
            polls: self.polls,
            unanswered: self.unanswered,
            first: self.first,
            last: self.last,
            interval: self
                .interval_ms
                .map(Duration::from_millis)
                .and_then(counted),
            address: self.address,
            told: self.told.map(told).transpose()?,
        })
    }
}

impl From<&Node> for WireNode {
    fn from(node: &Node) -> Self {
        let zones = node.zones.iter();
        let rows = node.rows.iter();
        Self {
            zones: zones.map(|(zone, at)| (zone.to_string(), *at)).collect(),
            addresses: wire_addresses(&node.addresses),
            rows: rows
                .map(|(server, row)| (server.to_string(), row.into()))
                .collect(),
        }
    }
}

impl From<&Row> for WireRow {
    fn from(row: &Row) -> Self {
        Self {
            polls: row.polls,
            unanswered: row.unanswered,
            first: row.first,
            last: row.last,
            interval_ms: row.interval.map(millis),
            address: row.address,
            told: row.told.map(|told| WireTold {
                at: told.at,
                answer: told.answer.words(),
                version: told.version.into(),
            }),
        }
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

fn parse_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| format!("{text:?}: {error}"))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
