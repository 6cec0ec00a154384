//! What the replicas believe, and what the fleet was told.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;

use crate::cli::replica::Replica;
use crate::domain::acceptance::PolledRow;
use crate::domain::key::Prefix;
use crate::domain::listing::{Entry, Listing};
use crate::domain::name::{Name, ServerId};
use crate::domain::sentinel::Generation;

/// What one replica believes.
#[derive(Debug)]
pub(super) struct Belief {
    pub(super) replica: String,
    pub(super) url: String,
    pub(super) authority: String,
    pub(super) reason: String,
    /// The highest ever seen there.
    pub(super) highest: Generation,
    /// Whether it is silent because its history went back.
    pub(super) broken: bool,
    /// What it last believed; the values of keys that it does not know are left out.
    pub(super) listing: Option<Listing>,
}

/// A replica's last answer to one row.
type Latest = BTreeMap<(Name, ServerId), (Option<Timestamp>, PolledRow)>;

#[derive(Deserialize)]
struct WireSnapshot {
    replica: String,
    prefix: String,
    authority: String,
    reason: String,
    highest_epoch: u64,
    highest_gen: u64,
    broken_epoch: Option<u64>,
    index: Option<u64>,
    entries: Vec<WireEntry>,
}

#[derive(Deserialize)]
struct WireEntry {
    path: String,
    modify_index: u64,
    value: Option<String>,
}

#[derive(Deserialize)]
struct WireFleet {
    nodes: Vec<WireNode>,
    rows_left_out: usize,
}

#[derive(Deserialize)]
struct WireNode {
    node: String,
    zones: Vec<String>,
    rows: Vec<WireRow>,
}

#[derive(Deserialize)]
struct WireRow {
    server: String,
    answer: Option<String>,
    answered: Option<Timestamp>,
}

/// What the replicas that answered say, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) beliefs: Vec<Belief>,
    /// The replicas that answered.
    pub(super) replicas: Vec<Replica>,
    pub(super) polled: Vec<PolledRow>,
    pub(super) warnings: Vec<String>,
}

impl Heard {
    /// Asks each. Who cannot be asked is a warning; a replica of another environment is refused
    /// with the text.
    pub(super) async fn of(replicas: &[Replica], prefix: &Prefix) -> Result<Self, String> {
        let mut heard = Self::default();
        let mut latest = Latest::new();
        for replica in replicas {
            let url = &replica.url;
            match ask(replica).await {
                Ok(said) if said.prefix != prefix.as_str() => {
                    return Err(format!(
                        "{url} is a replica of {}, not of {prefix}",
                        said.prefix.escape_debug()
                    ));
                }
                Ok(said) => match said.read(url) {
                    Ok(belief) => {
                        heard.beliefs.push(belief);
                        heard.replicas.push(replica.clone());
                    }
                    Err(error) => heard.warn(format!("{url}: {error}")),
                },
                Err(error) => {
                    heard.warn(format!("{url} cannot be asked: {error}"));
                    continue;
                }
            }
            match fleet(replica, &mut latest).await {
                Ok(0) => {}
                Ok(left_out) => heard.warn(format!("{url}: {left_out} rows are left out")),
                Err(error) => heard.warn(format!("{url} does not show the fleet: {error}")),
            }
        }
        heard.polled = latest.into_values().map(|(_, row)| row).collect();
        Ok(heard)
    }

    /// The furthest of what is believed.
    pub(super) fn furthest(&self) -> Option<&Listing> {
        let listings = self.beliefs.iter().filter_map(|b| b.listing.as_ref());
        listings.max_by_key(|listing| (Generation::read(listing).ok(), listing.index))
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }
}

/// Whether a replica answers by a history at least this new.
pub(super) async fn answers(replica: &Replica, epoch: u64) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        epoch: u64,
        reason: String,
    }
    let body = replica.get("/api/v1/snapshot").await?;
    let said: Said = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    if said.epoch < epoch {
        return Err(said.reason);
    }
    replica.get("/readyz").await.map(|_| ())
}

async fn ask(replica: &Replica) -> Result<WireSnapshot, String> {
    let body = replica.get("/api/v1/snapshot?entries=true").await?;
    serde_json::from_slice(&body)
        .map_err(|error| format!("its answer cannot be read, is it of another version? {error}"))
}

/// Takes over what is newer, and gives the number of rows that the view has no room for.
async fn fleet(replica: &Replica, latest: &mut Latest) -> Result<usize, String> {
    let body = replica.get("/api/v1/fleet").await?;
    let fleet: WireFleet = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let name = |text: &str| Name::parse(text).map_err(|error| error.to_string());
    for WireNode { node, zones, rows } in fleet.nodes {
        let node = name(&node)?;
        // A node that says several zones is shown as in the first.
        let zone = zones.first().map(|zone| name(zone)).transpose()?;
        for row in rows {
            let server = ServerId::parse(&row.server).map_err(|error| error.to_string())?;
            let key = (node.clone(), server.clone());
            let known = latest.get(&key);
            if known.is_none_or(|(answered, _)| *answered < row.answered) {
                let polled = PolledRow {
                    server,
                    node: node.clone(),
                    zone: zone.clone(),
                    told: row.answer,
                };
                latest.insert(key, (row.answered, polled));
            }
        }
    }
    Ok(fleet.rows_left_out)
}

impl WireSnapshot {
    fn read(self, url: &str) -> Result<Belief, String> {
        let entry = |entry: WireEntry| {
            let value = STANDARD.decode(entry.value.unwrap_or_default());
            let value = value.map_err(|error| format!("{}: {error}", entry.path))?;
            let modify_index = entry.modify_index;
            let read = Entry {
                value: value.into(),
                modify_index,
            };
            Ok((entry.path, read))
        };
        let entries = self.entries.into_iter().map(entry);
        let entries = entries.collect::<Result<BTreeMap<_, _>, String>>()?;
        Ok(Belief {
            replica: self.replica,
            url: url.to_owned(),
            authority: self.authority,
            reason: self.reason,
            highest: Generation {
                epoch: self.highest_epoch,
                r#gen: self.highest_gen,
            },
            broken: self.broken_epoch.is_some(),
            listing: self.index.map(|index| Listing { index, entries }),
        })
    }
}
