//! What a ramp is asked for as, and how one goes on.

use std::time::Duration;

use crate::domain::answer::Percent;
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::CANARY;
use crate::domain::name::Name;
use crate::domain::ramp::{By, Nodes, Order, Ramp, Rest};
use crate::domain::topology::Topology;
use jiff::Timestamp;

/// The ramp of `--slowly`.
pub(super) const SLOWLY: &str = "by=nodes,steps=5,25,50,every=2m";

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
    Ok(Spec {
        by_nodes,
        steps,
        every: every.ok_or_else(|| format!("no time between the steps: write {SLOWLY}"))?,
    })
}

impl Spec {
    /// The ramp on this fleet. One that stands already with the same steps goes on: its nodes stay
    /// in their order.
    pub(super) fn on(
        &self,
        standing: Option<&Directive>,
        topology: &Topology,
        seed: Option<&String>,
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
        {
            let same = ramp(running.by.clone());
            if same == *running && matches!(running.by, By::Nodes(_)) == self.by_nodes {
                return same;
            }
        }
        if !self.by_nodes {
            return ramp(By::Weight);
        }
        let rest = match standing.map(|directive| &directive.desired) {
            Some(Desired::Maint) => Rest::Maint,
            Some(Desired::Drain | Desired::Ready { .. }) | None => Rest::Drain,
        };
        ramp(By::Nodes(Nodes {
            order: order(topology),
            seed: seed.cloned(),
            rest,
        }))
    }
}

/// The nodes that have a canary row, in turn from each zone: no zone comes last.
fn order(topology: &Topology) -> Order {
    let has_canary = |node: &crate::domain::topology::Node| {
        let canary = |(id, row): (&_, &crate::domain::settings::Row)| {
            row.is_of(CANARY) && topology.placement(node, id).is_some()
        };
        topology.rows().iter().any(canary)
    };
    let nodes = topology.nodes().iter().filter(|(_, node)| has_canary(node));
    let mut turns: std::collections::BTreeMap<Option<&Name>, usize> =
        std::collections::BTreeMap::new();
    let mut placed: Vec<_> = nodes
        .map(|(name, node)| {
            let turn = turns.entry(node.zone.as_ref()).or_default();
            *turn += 1;
            (*turn, name.clone())
        })
        .collect();
    placed.sort();
    let names = placed.into_iter().map(|(_, name)| name).collect();
    Order::new(names).unwrap_or_default()
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
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
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
