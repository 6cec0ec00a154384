//! From two snapshots to a verdict.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::{Finding, judge};
use super::policy;
use super::station::{special_nodes, stations};
use super::survey::Survey;
use super::{Capacity, Comparison, Context, Flag, Override, Rail, Refusal, Verdict};
use crate::domain::key::{Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::Row;
use crate::domain::snapshot::{Difference, Snapshot};
use crate::domain::topology::Topology;

/// Says what a write does, and why it may not be written.
///
/// The rails are those of the settings before the write. Only backends with a row that the write
/// touches are looked at: the others are as they were.
#[must_use]
pub fn evaluate(
    before: &Snapshot,
    after: &Snapshot,
    topology: &Topology,
    context: &Context<'_>,
) -> Verdict {
    let differences = after.differences(before);
    let mut verdict = Verdict::default();
    if differences.is_empty() && topology.written().next().is_none() {
        let rule = before.settings.rails.reason;
        let refusal = policy::refusal_of_no_change(rule, context);
        verdict.refusals.extend(refusal);
        return verdict;
    }
    let assumed;
    let topology = if topology.nodes().is_empty() && !topology.rows().is_empty() {
        let text = "no LB node is known (settings.nodes is empty, and none polls): one in each zone is assumed";
        verdict.warnings.push(text.to_owned());
        assumed = topology.with_assumed_nodes(zones_of_keys(before, after));
        &assumed
    } else {
        topology
    };
    let comparison = Comparison {
        before,
        after,
        topology,
        now: context.now,
    };
    verdict
        .warnings
        .extend(unknown_targets(&differences, topology));
    let survey = survey(&comparison, &differences, &mut verdict.capacities);
    verdict.rows = survey.plan(topology);
    verdict.warnings.extend(survey.warnings());
    let mut refusals = policy::refusals(&comparison, &survey, &differences, context);
    refusals.extend(survey.findings.iter().map(refusal));
    refusals.sort_by_key(|refusal| refusal.rail);
    let unattended = before.settings.rails.unattended;
    let overrides = |refusal: &Refusal| context.overrides(refusal, unattended);
    (verdict.overridden, verdict.refusals) = refusals.into_iter().partition(overrides);
    verdict
}

fn survey<'a>(
    comparison: &Comparison<'a>,
    differences: &[Difference<'a>],
    capacities: &mut Vec<Capacity>,
) -> Survey<'a> {
    let topology = comparison.topology;
    let mut backends: BTreeMap<&str, Vec<(&ServerId, &Row)>> = BTreeMap::new();
    for (id, row) in topology.rows() {
        backends.entry(id.parts().0).or_default().push((id, row));
    }
    let written: BTreeSet<_> = topology.written().collect();
    let touched = |rows: &[(&ServerId, &Row)]| {
        let touches = |difference: &Difference<'_>| match target(difference) {
            Some(Target::Server(id)) => rows.iter().any(|(known, _)| *known == id),
            Some(Target::Group(group)) => rows.iter().any(|(_, row)| row.groups.contains(group)),
            None => false,
        };
        differences.iter().any(touches) || rows.iter().any(|(id, _)| written.contains(id))
    };
    let kinds = topology.kinds();
    let special = special_nodes(comparison);
    let floors = &comparison.before.settings.rails.floors;
    let mut survey = Survey::default();
    for (backend, rows) in backends {
        if !touched(&rows) {
            continue;
        }
        let mut of_zones: BTreeMap<Option<Name>, Capacity> = BTreeMap::new();
        for station in stations(comparison, &kinds, &special, backend, &rows) {
            let (capacity, findings) = judge(&station, floors, comparison.now);
            worst_of_zone(&mut of_zones, capacity);
            survey.find(findings);
            survey.visit(&station, comparison.now);
        }
        capacities.extend(of_zones.into_values());
    }
    survey
}

fn worst_of_zone(of_zones: &mut BTreeMap<Option<Name>, Capacity>, capacity: Capacity) {
    match of_zones.get_mut(&capacity.zone) {
        Some(known) if (known.next, known.now) <= (capacity.next, capacity.now) => {}
        Some(known) => *known = capacity,
        None => {
            of_zones.insert(capacity.zone.clone(), capacity);
        }
    }
}

/// One refusal for all that a rail has found.
fn refusal((rail, findings): (&Rail, &Vec<Finding<'_>>)) -> Refusal {
    let rows: BTreeSet<_> = findings
        .iter()
        .flat_map(|f| f.rows.iter().copied())
        .collect();
    let texts: Vec<_> = findings
        .iter()
        .map(|finding| finding.text.as_str())
        .collect();
    let overridden_by = match rail {
        Rail::Floor => Some(Flag::BelowFloor),
        Rail::CanaryAlone => Some(Flag::CanaryAlone),
        Rail::SecondZone => Some(Flag::SecondZone),
        Rail::Settings
        | Rail::ManyRows
        | Rail::MaintFromReady
        | Rail::DeployLock
        | Rail::Ttl
        | Rail::Reason
        | Rail::TooFarAhead => None,
    };
    let mut text = texts.join("\n");
    if *rail == Rail::CanaryAlone {
        text += "\ndrain the canary on these nodes first: backup servers serve only when no active one can";
    }
    Refusal {
        rail: *rail,
        rows: rows.into_iter().cloned().collect(),
        text,
        overridden_by: overridden_by.map(Override::Flag),
    }
}

/// What is written about and not known: nothing of it is looked at.
fn unknown_targets(differences: &[Difference<'_>], topology: &Topology) -> Vec<String> {
    let mut texts = BTreeSet::new();
    for difference in differences {
        match target(difference) {
            Some(Target::Server(id)) if !topology.describes(id) => {
                texts.insert(format!("{id} stands in no settings: no rail counts on it"));
            }
            Some(Target::Group(group))
                if !topology.rows().values().any(|r| r.groups.contains(group)) =>
            {
                texts.insert(format!(
                    "no known row is of the group {group}: no rail looks at it (settings.rows names rows and groups)"
                ));
            }
            Some(Target::Server(_) | Target::Group(_)) | None => {}
        }
        match scope(difference) {
            Some(Scope::Node(node)) if !topology.nodes().contains_key(node) => {
                texts.insert(format!("{node} is no known LB node: no rail looks at it"));
            }
            Some(Scope::Zone(zone)) if !topology.zones().contains(zone) => {
                texts.insert(format!("no known LB node stands in zone {zone}"));
            }
            Some(Scope::Node(_) | Scope::Zone(_) | Scope::Fleet) | None => {}
        }
    }
    texts.into_iter().collect()
}

fn zones_of_keys<'a>(before: &'a Snapshot, after: &'a Snapshot) -> impl Iterator<Item = &'a Name> {
    let placed = before.placed().chain(after.placed());
    placed.filter_map(|placed| match &placed.key.scope {
        Scope::Zone(zone) => Some(zone),
        Scope::Node(_) | Scope::Fleet => None,
    })
}

pub(super) fn target<'a>(difference: &Difference<'a>) -> Option<&'a Target> {
    let placed = difference.after.or(difference.before)?;
    Some(&placed.key.target)
}

pub(super) fn scope<'a>(difference: &Difference<'a>) -> Option<&'a Scope> {
    let placed = difference.after.or(difference.before)?;
    Some(&placed.key.scope)
}
