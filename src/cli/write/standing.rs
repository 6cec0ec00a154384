//! What a write is judged by: the store as it stands, and what the fleet looks like.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::sockets::servers_states;
use crate::cli::look::{Look, observe};
use crate::cli::{Exit, Failure};
use crate::clock;
use crate::domain::acceptance::PolledRow;
use crate::domain::deploy::Deploy;
use crate::domain::fleet::Merged;
use crate::domain::key::Key;
use crate::domain::listing::Listing;
use crate::domain::migration::{Old, groups_by_name};
use crate::domain::name::Name;
use crate::domain::observed::{Class, Observation, Part};
use crate::domain::snapshot::Snapshot;
use crate::domain::topology::{self, Placement, Topology, Unfollowed};

/// The store as it was looked at, and the fleet.
pub(in crate::cli) struct Standing {
    pub(in crate::cli) listing: Listing,
    pub(in crate::cli) snapshot: Snapshot,
    pub(in crate::cli) topology: Topology,
    /// The rows that do not follow the KV.
    pub(super) old: Old,
    pub(in crate::cli) now: Timestamp,
    /// Who could not be asked.
    pub(in crate::cli) missing: Vec<String>,
}

impl Standing {
    /// Asks the store, the replicas, and where HAProxy's own word comes from. Only without the
    /// store nothing can be written.
    pub(in crate::cli) fn of(look: &Look) -> Result<Self, Failure> {
        let context = &look.context;
        let listing = context.block_on(context.list(&context.prefix))?;
        let snapshot = Snapshot::build(&listing)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", context.prefix)))?;
        let now = clock::now();
        let (fleet, missing) = context.block_on(look.fleet());
        let mut missing: Vec<_> = missing
            .into_iter()
            .map(|missing| format!("{}: {}", missing.what, missing.why))
            .collect();
        let mut topology = Topology::from_settings(&snapshot.settings, Some(now));
        if let Some(fleet) = &fleet {
            topology = topology.with_polls(&polled(fleet, now), Some(now));
        }
        let sources = &look.config.observe;
        let mut old = Old::default();
        if sources.prometheus.is_some() || !sources.stats.is_empty() {
            let asking = async { tokio::join!(servers_states(&look.config), observe(sources)) };
            let (servers, seen) = context.block_on(asking);
            let known: BTreeSet<_> = topology
                .nodes()
                .keys()
                .chain(sources.stats.keys())
                .collect();
            let seen = seen.with_names_of(known.into_iter());
            old = Old::new(servers, fleet.as_ref()).with_shown(&seen);
            missing.extend(
                seen.missing
                    .iter()
                    .map(|m| format!("{}: {}", m.what, m.why)),
            );
            topology = topology
                .with_unfollowed(&unfollowed(&old, &seen, &snapshot), Some(now))
                .with_observed(&downs(&seen, &snapshot, &old), Some(now));
        }
        Ok(Self {
            listing,
            snapshot,
            topology,
            old,
            now,
            missing,
        })
    }

    /// The deploy locks.
    pub(in crate::cli) fn deploys(&self) -> BTreeMap<Name, Result<Deploy, String>> {
        let deploy =
            |(path, entry): (&String, &crate::domain::listing::Entry)| match Key::parse(path) {
                Key::Deploy(stage) => Some((stage, Deploy::parse(&entry.value))),
                Key::Meta | Key::Settings | Key::Directive(_) | Key::Folder | Key::Unknown => None,
            };
        self.listing.entries.iter().filter_map(deploy).collect()
    }
}

/// The rows that are polled now.
fn polled(fleet: &Merged, now: Timestamp) -> Vec<PolledRow> {
    let judge = fleet.judge(now);
    let nodes = fleet
        .nodes
        .iter()
        .filter(|(_, node)| !judge.silent_node(node));
    let rows = nodes.flat_map(|(name, node)| {
        let zone = node.zones_now().next().cloned();
        node.rows.iter().map(move |(server, row)| PolledRow {
            server: server.clone(),
            node: name.clone(),
            zone: zone.clone(),
            told: row.told.as_ref().map(|told| told.answer.words()),
        })
    });
    rows.collect()
}

/// The rows that do not follow the KV, as their nodes show them.
fn unfollowed(old: &Old, seen: &Observation, snapshot: &Snapshot) -> Vec<Unfollowed> {
    let rows = old.rows().map(|(node, server, row)| {
        let shown = seen.nodes.get(node).and_then(|n| n.servers.get(server));
        let part = shown.and_then(|shown| shown.part);
        let settled = snapshot.settings.rows.get(server);
        Unfollowed {
            node: node.clone(),
            server: server.clone(),
            placement: Placement {
                active: part != Some(Part::Backup),
                weight: row.state.initial,
            },
            groups: settled.map_or_else(|| groups_by_name(server), |row| row.groups.clone()),
            now: row.state.answer(row.state.now),
        }
    });
    rows.collect()
}

/// What cannot serve by HAProxy's own word. A drain or maintenance that an agent made is what is
/// desired, and changes with it; on a row without an agent somebody made it by hand.
fn downs(seen: &Observation, snapshot: &Snapshot, old: &Old) -> Vec<topology::Observation> {
    let has_agent = |server| {
        snapshot
            .settings
            .rows
            .get(server)
            .is_none_or(|row| row.agent)
    };
    let rows = seen.nodes.iter().flat_map(|(name, node)| {
        node.servers.iter().map(move |(server, observed)| {
            let down = match observed.class {
                Class::Down | Class::Other => true,
                Class::Up | Class::NoCheck | Class::Blank => false,
                // What a row is that does not follow the KV, its socket has told already.
                Class::Drain | Class::Maint => {
                    !has_agent(server) && old.row(name, server).is_none()
                }
            };
            topology::Observation {
                node: name.clone(),
                server: server.clone(),
                down,
            }
        })
    });
    rows.collect()
}
