//! How the value of `settings` is written.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Backup, Guard, NodeSettings, RailSettings, Row, Settings, WEIGHT_DEFAULT, WEIGHT_MAX};
use crate::domain::name::{Name, ServerId};

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Wire {
    guard: Option<WireGuard>,
    #[serde(default)]
    rows: Vec<WireRow>,
    nodes: Option<Value>,
    rails: Option<Value>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct WireGuard {
    #[serde(default)]
    groups: Vec<String>,
    rows_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct WireRow {
    server: String,
    #[serde(default)]
    groups: Vec<String>,
    /// [`WireShape`], and what a later version may add.
    #[serde(flatten)]
    shape: serde_json::Map<String, Value>,
}

/// How a row stands in its backend.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct WireShape {
    zone: Option<String>,
    weight: Option<u64>,
    #[serde(default)]
    role_weights: BTreeMap<String, u64>,
    backup: Option<WireBackup>,
    #[serde(default)]
    roles: Vec<String>,
    agent: Option<bool>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireBackup {
    Never,
    OtherZones,
    Always,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct WireNode {
    name: String,
    zone: Option<String>,
    role: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

pub(super) fn read(value: &[u8]) -> Result<(Settings, Vec<String>), String> {
    let wire: Wire = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let guard = wire.guard.map(|guard| -> Result<_, String> {
        Ok(Guard {
            groups: names("guard.groups", &guard.groups)?.into_iter().collect(),
            rows_max: guard.rows_max,
        })
    });
    let mut reader = Reader {
        settings: Settings {
            guard: guard.transpose()?,
            ..Settings::default()
        },
        unknown: wire.others.into_keys().collect(),
    };
    for row in wire.rows {
        reader.row(row)?;
    }
    reader.nodes(wire.nodes);
    if let Some(value) = wire.rails {
        reader.rails(value);
    }
    Ok((reader.settings, reader.unknown))
}

struct Reader {
    settings: Settings,
    unknown: Vec<String>,
}

impl Reader {
    fn row(&mut self, wire: WireRow) -> Result<(), String> {
        let field = format!("rows: server {:?}", wire.server);
        let server = ServerId::parse(&wire.server).map_err(|error| format!("{field}: {error}"))?;
        let groups = names("rows: groups", &wire.groups)?;
        let shape = part(&field, Value::Object(wire.shape)).and_then(|s| self.shape(&field, s));
        let mut row = shape.unwrap_or_else(|fault| {
            self.settings.faults.push(fault);
            Row::default()
        });
        row.groups = groups;
        if self.settings.rows.insert(server, row).is_some() {
            return Err(format!("{field} stands there twice"));
        }
        Ok(())
    }

    fn shape(&mut self, field: &str, wire: WireShape) -> Result<Row, String> {
        self.unknown_in(field, wire.others);
        let weight = |weight: u64| {
            let fitting = u16::try_from(weight).ok().filter(|w| *w <= WEIGHT_MAX);
            fitting.ok_or_else(|| format!("{field}: weight {weight} is none of 0 to {WEIGHT_MAX}"))
        };
        let mut role_weights = BTreeMap::new();
        for (role, own) in wire.role_weights {
            role_weights.insert(
                name(&format!("{field}: role_weights"), &role)?,
                weight(own)?,
            );
        }
        let zone = optional(&format!("{field}: zone"), wire.zone.as_deref())?;
        let backup = match wire.backup {
            Some(WireBackup::OtherZones) if zone.is_none() => {
                return Err(format!("{field}: backup other-zones needs the row's zone"));
            }
            Some(WireBackup::Never) => Backup::Never,
            Some(WireBackup::Always) => Backup::Always,
            None if zone.is_none() => Backup::Never,
            Some(WireBackup::OtherZones) | None => Backup::OtherZones,
        };
        let roles = names(&format!("{field}: roles"), &wire.roles)?;
        Ok(Row {
            groups: Vec::new(),
            zone,
            weight: wire.weight.map_or(Ok(WEIGHT_DEFAULT), weight)?,
            role_weights,
            backup,
            roles: roles.into_iter().collect(),
            agent: wire.agent.unwrap_or(true),
        })
    }

    fn nodes(&mut self, value: Option<Value>) {
        let Some(value) = value else { return };
        let read = part::<Vec<WireNode>>("nodes", value).and_then(|wire| {
            let mut nodes = BTreeMap::new();
            for node in wire {
                let field = format!("nodes: {:?}", node.name);
                let settings = NodeSettings {
                    zone: optional(&format!("{field}: zone"), node.zone.as_deref())?,
                    role: optional(&format!("{field}: role"), node.role.as_deref())?,
                };
                self.unknown_in(&field, node.others);
                if nodes.insert(name("nodes", &node.name)?, settings).is_some() {
                    return Err(format!("{field} stands there twice"));
                }
            }
            Ok(nodes)
        });
        match read {
            Ok(nodes) => self.settings.nodes = nodes,
            Err(fault) => self.settings.faults.push(fault),
        }
    }

    fn rails(&mut self, value: Value) {
        match RailSettings::read(value) {
            Ok((rails, unknown)) => {
                self.settings.rails = rails;
                self.unknown.extend(unknown);
            }
            Err(fault) => self.settings.faults.push(fault),
        }
    }

    fn unknown_in(&mut self, field: &str, others: BTreeMap<String, Value>) {
        let named = others.into_keys().map(|other| format!("{field}: {other}"));
        self.unknown.extend(named);
    }
}

/// One part of the settings, read apart from the others.
pub(super) fn part<T: DeserializeOwned>(field: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("{field}: {error}"))
}

pub(super) fn name(field: &str, text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| format!("{field}: {text:?}: {error}"))
}

fn optional(field: &str, text: Option<&str>) -> Result<Option<Name>, String> {
    text.map(|text| name(field, text)).transpose()
}

/// Names in their order, each once.
pub(super) fn names(field: &str, texts: &[String]) -> Result<Vec<Name>, String> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for text in texts {
        let name = name(field, text)?;
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    Ok(names)
}
