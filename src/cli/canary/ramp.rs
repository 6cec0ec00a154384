//! What a ramp is asked for as, and how one goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::answer::{Percent, State};
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::CANARY;
use crate::domain::name::Name;
use crate::domain::ramp::{By, Nodes, Order, Ramp, Rest};
use crate::domain::topology::Topology;
use jiff::Timestamp;

/// The ramp of `--slowly`.
pub(super) const SLOWLY: &str = "by=nodes,steps=5,25,50,every=2m";

/// In how many parts a whole is divided, to compare places in groups of several sizes.
const SHARES: usize = 1_000_000;

/// A ramp as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    by_nodes: bool,
    steps: Vec<Percent>,
    every: Duration,
}

/// Reads `by=nodes,steps=5,25,50,every=2m`, in any order.
pub(super) fn parse(text: &str) -> Result<Spec, String> {
    let (mut by_nodes, mut steps, mut every) = (true, Vec::new(), None);
    let mut in_steps = false;
    for word in text.split(',').map(str::trim) {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, value),
            None if in_steps => ("steps", word),
            None => return Err(format!("{word:?}: write {SLOWLY}")),
        };
        in_steps = key == "steps";
        match (key, value) {
            ("by", "nodes") => by_nodes = true,
            ("by", "weight") => by_nodes = false,
            ("steps", step) => {
                let number = step.trim_end_matches('%').parse().ok();
                let step = number.and_then(Percent::new);
                steps.push(step.ok_or_else(|| format!("{word:?}: steps are 1 to 100"))?);
            }
            ("every", span) => {
                let span = humantime::parse_duration(span);
                every = Some(span.map_err(|error| format!("every: {error}"))?);
            }
            _ => return Err(format!("{word:?}: write {SLOWLY}")),
        }
    }
    if steps.is_empty() {
        return Err(format!("no steps: write {SLOWLY}"));
    }
    let every = every.ok_or_else(|| format!("no time between the steps: write {SLOWLY}"))?;
    check(&steps, every)?;
    Ok(Spec {
        by_nodes,
        steps,
        every,
    })
}

/// What no replica could read would freeze the canary.
fn check(steps: &[Percent], every: Duration) -> Result<(), String> {
    let ramp = Ramp {
        by: By::Weight,
        steps: steps.to_vec(),
        every: Some(every),
    };
    let desired = Desired::Ready {
        weight: Percent::FULL,
        ramp: Some(ramp),
    };
    let directive = Directive {
        since: Some(Timestamp::UNIX_EPOCH),
        ..Directive::bare(desired)
    };
    let read = Directive::parse(directive.to_json().as_bytes());
    read.map(drop).map_err(|error| error.to_string())
}

impl Spec {
    /// Refuses what would take nodes or weight away from a ramp that has got further.
    pub(super) fn check_after(&self, standing: &Directive, now: Timestamp) -> Result<(), String> {
        let Some((running, reached)) = standing.ramp_step(now) else {
            return Ok(());
        };
        let alike = matches!(running.by, By::Nodes(_)) == self.by_nodes;
        let same = running.steps == self.steps && running.every == Some(self.every);
        let begins = self.steps.first().copied().unwrap_or(Percent::FULL);
        if alike && (same || begins >= reached) {
            return Ok(());
        }
        let reached = reached.get();
        Err(format!(
            "the ramp that stands has reached {reached}%, and this one would begin with less: \
             --resume goes on with a held one, --ready ends it, and another begins after --drain"
        ))
    }

    /// The ramp on this fleet. One over nodes that stands already goes on: its nodes stay in their
    /// order.
    pub(super) fn on(
        &self,
        standing: Option<&Directive>,
        topology: &Topology,
        seed: Option<&String>,
        now: Timestamp,
    ) -> Ramp {
        let ramp = |by| Ramp {
            by,
            steps: self.steps.clone(),
            every: Some(self.every),
        };
        if let Some(Desired::Ready {
            ramp: Some(running),
            ..
        }) = standing.map(|directive| &directive.desired)
            && matches!(running.by, By::Nodes(_)) == self.by_nodes
        {
            return ramp(running.by.clone());
        }
        if !self.by_nodes {
            return ramp(By::Weight);
        }
        let rest = match standing.map(|directive| directive.state(now, "", "")) {
            Some(State::Maint) => Rest::Maint,
            Some(State::Drain | State::Ready(_)) | None => Rest::Drain,
        };
        ramp(By::Nodes(Nodes {
            order: order(topology),
            seed: seed.cloned(),
            rest,
        }))
    }
}

/// The nodes that have a canary row, in such an order that every part of it has about the same
/// share of each role and zone: no backend comes in all at once because its nodes are few.
fn order(topology: &Topology) -> Order {
    let has_canary = |node: &crate::domain::topology::Node| {
        let canary = |(id, row): (&_, &crate::domain::settings::Row)| {
            row.is_of(CANARY) && topology.placement(node, id).is_some()
        };
        topology.rows().iter().any(canary)
    };
    let nodes = topology.nodes().iter().filter(|(_, node)| has_canary(node));
    let mut alike: BTreeMap<_, Vec<&Name>> = BTreeMap::new();
    for (name, node) in nodes {
        let of_both = alike.entry((&node.role, &node.zone)).or_default();
        of_both.push(name);
    }
    let mut placed: Vec<_> = alike.values().flat_map(|names| shares(names)).collect();
    placed.sort();
    let names = placed.into_iter().map(|(_, name)| name.clone()).collect();
    Order::new(names).unwrap_or_default()
}

/// Each with the middle of its share of them all.
fn shares<'n>(names: &[&'n Name]) -> impl Iterator<Item = (usize, &'n Name)> {
    let middle = |place: usize| (2 * place + 1) * SHARES / (2 * names.len());
    names
        .iter()
        .enumerate()
        .map(move |(place, name)| (middle(place), *name))
}

/// The ramp held at the step that it has reached.
pub(super) fn held(standing: &Directive, now: Timestamp) -> Result<Ramp, String> {
    let Some((ramp, step)) = standing.ramp_step(now) else {
        return Err("no ramp is running".to_owned());
    };
    Ok(Ramp {
        by: ramp.by.clone(),
        steps: vec![step],
        every: None,
    })
}

/// The held ramp with the steps that are left of what it was before.
pub(super) fn resumed(held: &Ramp, before: Option<&Ramp>) -> Result<Ramp, String> {
    if held.every.is_some() {
        return Err("no ramp is held".to_owned());
    }
    let usual = parse(SLOWLY)?;
    let (steps, every) = match before {
        Some(before) => (&before.steps, before.every.unwrap_or(usual.every)),
        None => (&usual.steps, usual.every),
    };
    let reached = held.steps.first().copied();
    let left: Vec<_> = steps
        .iter()
        .copied()
        .filter(|step| reached.is_none_or(|reached| *step > reached))
        .collect();
    // The step that was reached comes first: resuming takes nobody out and waits one more turn.
    let steps = reached.into_iter().chain(left).collect();
    Ok(Ramp {
        by: held.by.clone(),
        steps,
        every: Some(every),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_read_in_any_order() {
        let expected = parse(SLOWLY).unwrap();
        let steps: Vec<_> = expected.steps.iter().map(|step| step.get()).collect();
        assert_eq!((steps, expected.by_nodes), (vec![5, 25, 50], true));
        assert_eq!(parse("every=2m,steps=5%,25,50"), Ok(expected));
        for (text, why) in [
            ("steps=5", "no time between"),
            ("every=2m", "no steps"),
            ("5,25", "write by="),
            ("by=cookies,steps=5,every=1m", "write by="),
            ("steps=0,every=1m", "1 to 100"),
            ("steps=5,every=1m,25", "write by="),
            ("steps=5,every=soon", "every: "),
            ("steps=50,5,every=1m", "5 does not grow from 50"),
            ("steps=5,5,every=1m", "5 does not grow from 5"),
            ("steps=5,every=0s", "1s to 366days"),
            ("steps=5,every=367days", "1s to 366days"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn every_step_has_a_share_of_large_and_small_groups_of_nodes() {
        let name = |text: String| Name::parse(&text).unwrap();
        let names = |role: &str, count| -> Vec<_> {
            (0..count).map(|n| name(format!("{role}-{n}"))).collect()
        };
        let (main, registry) = (names("main", 8), names("registry", 2));
        let of = |all: &[Name]| -> Vec<_> {
            let all: Vec<_> = all.iter().collect();
            shares(&all)
                .map(|(at, name)| (at, name.to_string()))
                .collect()
        };
        let mut placed = [of(&main), of(&registry)].concat();
        placed.sort();
        let half: Vec<_> = placed.iter().take(5).map(|(_, name)| &**name).collect();
        assert_eq!(half, ["main-0", "main-1", "registry-0", "main-2", "main-3"]);
    }

    #[test]
    fn a_held_ramp_goes_on_where_it_stopped() {
        let now: Timestamp = "2026-11-30T10:05:00Z".parse().unwrap();
        let json = r#"{"v":1,"state":"ready","since":"2026-11-30T10:00:00Z",
            "ramp":{"by":"weight","steps":[5,25,50],"every":"4m"}}"#;
        let running = Directive::parse(json.as_bytes()).unwrap();
        let stopped = held(&running, now).unwrap();
        assert_eq!((stopped.steps[0].get(), stopped.every), (25, None));
        let Desired::Ready { ramp: before, .. } = &running.desired else {
            panic!("it is a ramp");
        };
        let on = resumed(&stopped, before.as_ref()).unwrap();
        let steps: Vec<_> = on.steps.iter().map(|step| step.get()).collect();
        assert_eq!(
            (steps, on.every),
            (vec![25, 50], Some(Duration::from_mins(4)))
        );
        assert!(resumed(&on, None).unwrap_err().contains("no ramp is held"));
        let ready = Directive::parse(b"ready").unwrap();
        assert!(
            held(&ready, now)
                .unwrap_err()
                .contains("no ramp is running")
        );
    }
}
