//! What is asked for, directive by directive: so that an alert about a server that is meant to be
//! out can be kept quiet.
//!
//! The names come from the store, from those who may write there, and never from a poll. Their
//! number is limited all the same.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gauge;
use crate::domain::answer::State;
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::{Scope, Target};
use crate::domain::ramp::By;
use crate::domain::snapshot::{Placed, Snapshot};

/// The most directives that are shown, those for the whole fleet first: five series each. A fleet
/// has some twenty groups; hundreds of overrides at once are a mistake, or a migration.
pub const DIRECTIVES_SHOWN_MAX: usize = 256;

/// What a directive may ask for; `unreadable` freezes what it covers.
const STATES: [&str; 4] = ["ready", "drain", "maint", "unreadable"];

/// One directive that counts.
struct Asked<'a> {
    /// `group`, or `proxy` and `server` as HAProxy's own exporter has them; and the polls that it
    /// counts for, both empty for all.
    labels: Vec<(&'static str, &'a str)>,
    is_group: bool,
    state: &'static str,
    /// Of the configured weight, over all nodes; 0 when out, `None` when it cannot be read.
    percent: Option<f64>,
    since: Option<Timestamp>,
    /// Its end, whatever happens then.
    until: Option<Timestamp>,
}

/// Shows what this snapshot asks for at `now`.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    snapshot: &Snapshot,
    now: Timestamp,
) -> fmt::Result {
    let mut all: Vec<_> = snapshot
        .placed()
        .filter_map(|placed| asked(placed, now))
        .collect();
    let left_out = all.len().saturating_sub(DIRECTIVES_SHOWN_MAX);
    all.truncate(DIRECTIVES_SHOWN_MAX);
    for (is_group, what) in [(true, "group"), (false, "server")] {
        let of_this = || all.iter().filter(|asked| asked.is_group == is_group);
        if of_this().next().is_none() {
            continue;
        }
        let name = format!("tidegate_desired_{what}_state");
        let help = format!(
            "1 for the state that each directive of a {what} asks for now, 0 for the others"
        );
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Gauge)?;
        for asked in of_this() {
            for state in STATES {
                let mut labels = asked.labels.clone();
                labels.push(("state", state));
                let is = u64::from(state == asked.state);
                ConstGauge::new(is).encode(family.encode_family(&labels)?)?;
            }
        }
        let seconds = |at: Timestamp| at.as_duration().as_secs_f64();
        for (part, help, values) in [
            (
                "weight_percent",
                "Percent of the configured weight, over all nodes, that each directive asks for now",
                &(|asked: &Asked<'_>| asked.percent) as &dyn Fn(&Asked<'_>) -> Option<f64>,
            ),
            (
                "since_timestamp_seconds",
                "Since when each directive stands, where it says so, in Unix seconds",
                &|asked| asked.since.map(seconds),
            ),
            (
                "until_timestamp_seconds",
                "When each directive that has an end ends, in Unix seconds",
                &|asked| asked.until.map(seconds),
            ),
        ] {
            let name = format!("tidegate_desired_{what}_{part}");
            let with = |asked| Some((asked, values(asked)?));
            encode_values(encoder, (&name, help), of_this().filter_map(with))?;
        }
    }
    let help = "Directives that the desired states leave out, being too many";
    gauge(encoder, "tidegate_desired_left_out", help, left_out as u64)
}

fn encode_values<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    values: impl Iterator<Item = (&'a Asked<'a>, f64)>,
) -> fmt::Result {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (asked, value) in values {
        ConstGauge::new(value).encode(family.encode_family(&asked.labels)?)?;
    }
    Ok(())
}

/// `None` for one that no longer counts.
fn asked(placed: &Placed, now: Timestamp) -> Option<Asked<'_>> {
    let directive = placed.directive.as_ref();
    if directive.is_ok_and(|directive| directive.is_lifted(now)) {
        return None;
    }
    let (zone, node) = match &placed.key.scope {
        Scope::Fleet => ("", ""),
        Scope::Zone(zone) => (zone.as_str(), ""),
        Scope::Node(node) => ("", node.as_str()),
    };
    let mut labels = match &placed.key.target {
        Target::Group(group) => vec![("group", group.as_str())],
        Target::Server(id) => {
            let (backend, server) = id.parts();
            vec![("proxy", backend), ("server", server)]
        }
    };
    labels.extend([("zone", zone), ("node", node)]);
    let (state, percent) = directive.map_or(("unreadable", None), |directive| {
        let (state, percent) = state(directive, now);
        (state, Some(percent))
    });
    let readable = directive.ok();
    Some(Asked {
        labels,
        is_group: matches!(placed.key.target, Target::Group(_)),
        state,
        percent,
        since: readable.and_then(|directive| directive.since),
        until: readable.and_then(|directive| Some(directive.expiry?.until)),
    })
}

fn state(directive: &Directive, now: Timestamp) -> (&'static str, f64) {
    // On a ramp by nodes some have it ready: it is coming back.
    if let (Some((ramp, step)), Desired::Ready { weight, .. }) =
        (directive.ramp_step(now), &directive.desired)
    {
        let step = f64::from(step.get());
        return match ramp.by {
            By::Weight => ("ready", step),
            By::Nodes(_) => ("ready", step * f64::from(weight.get()) / 100.0),
        };
    }
    match directive.state(now, "", "") {
        State::Ready(percent) => ("ready", f64::from(percent.get())),
        State::Drain => ("drain", 0.0),
        State::Maint => ("maint", 0.0),
    }
}
