//! What each known row is asked to be now, so that it can be compared with HAProxy's own word.
//!
//! Servers and nodes are those that the store names, in `settings` or by a directive, never those of
//! a poll. A server that is asked to be the same everywhere is one series, without a node.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gauge;
use crate::domain::answer::{Answer, State};
use crate::domain::directive::Directive;
use crate::domain::key::{Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::request::Request;
use crate::domain::settings::Row;
use crate::domain::snapshot::{Decision, Snapshot};

/// The most rows that are shown. A ramp over nodes makes a row of each node of each of its servers:
/// 900 on a large site.
pub const ROWS_SHOWN_MAX: usize = 8_192;

/// One row, or one server everywhere.
struct Asked<'a> {
    server: &'a ServerId,
    /// Empty: every node.
    node: &'a str,
    state: State,
    /// The weight that HAProxy has then, where the configured one is known.
    weight: Option<u32>,
}

/// Finds them.
struct Finder<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    /// What directives of single zones and nodes are about.
    narrower: BTreeSet<&'a Target>,
    found: Vec<Asked<'a>>,
    left_out: usize,
}

/// Shows what this snapshot asks of rows at `now`.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> fmt::Result {
    let finder = Finder::new(snapshot, now);
    let found = &finder.found;
    if !found.is_empty() {
        let name = "tidegate_desired_row_state";
        let help = "1 for the state that a known row is asked to be in now; without a node: on all";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for asked in found {
            let mut labels = asked.labels().to_vec();
            labels.push(("state", word(asked.state)));
            ConstGauge::new(1_u64).encode(family.encode_family(&labels)?)?;
        }
    }
    if found.iter().any(|asked| asked.weight.is_some()) {
        let name = "tidegate_desired_row_weight";
        let help = "The weight that HAProxy has where it follows, by the configured weight of the \
                    settings; only of rows that are asked to be ready";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for asked in found {
            if let Some(weight) = asked.weight {
                ConstGauge::new(weight).encode(family.encode_family(&asked.labels())?)?;
            }
        }
    }
    let help = "Rows that the desired rows leave out, being too many";
    let left_out = finder.left_out as u64;
    gauge(encoder, "tidegate_desired_rows_left_out", help, left_out)
}

impl<'a> Finder<'a> {
    fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let placed = || snapshot.placed().map(|placed| &placed.key);
        let narrower = placed().filter(|key| key.scope != Scope::Fleet);
        let mut finder = Self {
            snapshot,
            now,
            narrower: narrower.map(|key| &key.target).collect(),
            found: Vec::new(),
            left_out: 0,
        };
        let listed = &snapshot.settings.rows;
        for (server, row) in listed.iter().filter(|(_, row)| row.agent) {
            finder.server(server, Some(row));
        }
        // Of a server that no settings list, its own directive decides whatever its groups are.
        for key in placed().filter(|key| key.scope == Scope::Fleet) {
            if let Target::Server(server) = &key.target
                && !listed.contains_key(server)
            {
                finder.server(server, None);
            }
        }
        finder
    }

    fn server(&mut self, server: &'a ServerId, row: Option<&'a Row>) {
        if row.is_none_or(|row| row.role_weights.is_empty()) && !self.differs(server, row) {
            self.add(server, row, None);
            return;
        }
        for (name, node) in &self.snapshot.settings.nodes {
            let has = |row: &Row| {
                let role = node.role.as_ref();
                row.roles.is_empty() || role.is_some_and(|role| row.roles.contains(role))
            };
            if row.is_none_or(has) {
                let zone = node.zone.as_ref().map(Name::as_str);
                let place = (name.as_str(), zone, node.role.as_ref());
                self.add(server, row, Some(place));
            }
        }
    }

    /// Whether nodes may be told different things.
    fn differs(&self, server: &ServerId, row: Option<&Row>) -> bool {
        let groups = row.into_iter().flat_map(|row| &row.groups);
        let mut targets = groups.map(|group| Target::Group(group.clone()));
        let server_is = self.narrower.contains(&Target::Server(server.clone()));
        if server_is || targets.any(|target| self.narrower.contains(&target)) {
            return true;
        }
        let decision = self.decide(server, row, (None, ""), None);
        let directive = decision
            .winner
            .and_then(|placed| placed.directive.as_ref().ok());
        let on_the_way = |directive: &Directive| directive.ramp_step(self.now).is_some();
        directive.is_some_and(|directive| directive.is_by_nodes() && on_the_way(directive))
    }

    fn add(
        &mut self,
        server: &'a ServerId,
        row: Option<&'a Row>,
        place: Option<(&'a str, Option<&'a str>, Option<&'a Name>)>,
    ) {
        let (node, zone, role) = place.unwrap_or_default();
        let base = row.map(|row| row.weight_on(role));
        let decision = self.decide(server, row, (zone, node), base);
        // Whatever else is said freezes: then nobody knows what HAProxy has. Nor does anybody know
        // which groups decide for a server that no settings list.
        let known = row.is_some() || decision.winner.is_some();
        let (Answer::State(state), true) = (decision.answer, known) else {
            return;
        };
        if self.found.len() >= ROWS_SHOWN_MAX {
            self.left_out += 1;
            return;
        }
        let weight = match state {
            State::Ready(percent) => {
                // HAProxy takes floor(base × percent / 100).
                base.map(|base| u32::from(base) * u32::from(percent.get()) / 100)
            }
            State::Drain | State::Maint => None,
        };
        self.found.push(Asked {
            server,
            node,
            state,
            weight,
        });
    }

    fn decide(
        &self,
        server: &ServerId,
        row: Option<&Row>,
        (zone, node): (Option<&str>, &str),
        base: Option<u16>,
    ) -> Decision<'a> {
        let groups = row.into_iter().flat_map(|row| &row.groups);
        let request = Request::of(server, groups.map(Name::as_str), zone, base);
        self.snapshot.decide(&request, node, self.now)
    }
}

impl<'a> Asked<'a> {
    /// As HAProxy's own exporter has them, and the node as it names itself.
    fn labels(&self) -> [(&'static str, &'a str); 3] {
        let (proxy, server) = self.server.parts();
        [("proxy", proxy), ("server", server), ("node", self.node)]
    }
}

const fn word(state: State) -> &'static str {
    match state {
        State::Ready(_) => "ready",
        State::Drain => "drain",
        State::Maint => "maint",
    }
}
