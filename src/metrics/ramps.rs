//! Ramps: how many there are, and where those of whole groups stand.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Family;
use crate::domain::directive::Directive;
use crate::domain::key::{Scope, Target};
use crate::domain::name::Name;
use crate::domain::ramp::{Position, Ramp};
use crate::domain::snapshot::{Placed, Snapshot};

/// The most groups whose ramp has series of its own; a site has a few groups.
const GROUPS_MAX: usize = 32;

/// A ramp that has not ended.
struct Under<'a> {
    placed: &'a Placed,
    ramp: &'a Ramp,
    percent: u8,
    position: Position,
}

/// Shows the ramps of a snapshot.
pub(super) fn encode(
    snapshot: &Snapshot,
    now: Timestamp,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let all: Vec<_> = snapshot
        .placed()
        .filter_map(|placed| Under::of(placed, now))
        .collect();
    let by_pace = |at: usize| {
        let of = all
            .iter()
            .filter(|under| (at == 1) == under.ramp.every.is_none());
        of.count() as u64
    };
    let help = "Ramps that have not ended, by whether they go on";
    Family {
        name: "tidegate_ramps",
        help,
        label: "pace",
        values: &["running", "held"],
    }
    .gauges(encoder, by_pace)?;
    let groups: Vec<_> = all
        .iter()
        .filter_map(Under::of_group)
        .take(GROUPS_MAX)
        .collect();
    if groups.is_empty() {
        return Ok(());
    }
    by_group(
        encoder,
        &groups,
        ("step_percent", "Percentage of the ramp's step"),
        |under| Some(f64::from(under.percent)),
    )?;
    by_group(
        encoder,
        &groups,
        ("step", "The ramp's step, from 1"),
        |under| Some(number(under.position.step? + 1)),
    )?;
    by_group(
        encoder,
        &groups,
        ("steps", "How many steps the ramp has"),
        |under| Some(number(under.ramp.steps.len())),
    )?;
    let next = (
        "next_step_timestamp_seconds",
        "When the ramp's next step begins, in Unix seconds",
    );
    if groups
        .iter()
        .all(|(_, under)| under.position.next.is_none())
    {
        return Ok(());
    }
    by_group(encoder, &groups, next, |under| {
        Some(under.position.next?.as_duration().as_secs_f64())
    })
}

fn by_group(
    encoder: &mut DescriptorEncoder<'_>,
    groups: &[(&Name, &Under<'_>)],
    (name, help): (&str, &str),
    of: impl Fn(&Under<'_>) -> Option<f64>,
) -> fmt::Result {
    let name = format!("tidegate_ramp_{name}");
    let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
    for (group, under) in groups {
        if let Some(value) = of(under) {
            let labels = [("group", group.as_str())];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl<'a> Under<'a> {
    fn of(placed: &'a Placed, now: Timestamp) -> Option<Self> {
        let directive: &Directive = placed.directive.as_ref().ok()?;
        let (ramp, percent) = directive
            .ramp_step(now)
            .filter(|_| !directive.is_lifted(now))?;
        Some(Self {
            placed,
            ramp,
            percent: percent.get(),
            position: ramp.position(directive.since.unwrap_or(now), now),
        })
    }

    /// The group, when it is for every poll of one.
    fn of_group(&self) -> Option<(&'a Name, &Self)> {
        match (&self.placed.key.target, &self.placed.key.scope) {
            (Target::Group(group), Scope::Fleet) => Some((group, self)),
            (Target::Group(_) | Target::Server(_), _) => None,
        }
    }
}

/// Steps are few: a ramp has a hundred at most.
fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
