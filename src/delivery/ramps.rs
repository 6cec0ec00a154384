//! Where the ramps stand, from look to look.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tracing::info;

use crate::domain::ramp::By;
use crate::domain::snapshot::Snapshot;
use crate::domain::trace_parent::TraceParent;
use crate::telemetry::Sighting;

/// The most ramps that are followed. They are started by hand, one for each group.
const RAMPS_MAX: usize = 256;

/// The ramps of the last look.
#[derive(Debug, Default)]
pub(super) struct Ramps {
    /// `None` before the first look: what runs already was told by whoever saw it begin.
    known: Option<BTreeMap<String, Stage>>,
}

/// How far a ramp is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    percent: u8,
    by: &'static str,
    asked: Option<TraceParent>,
}

/// What became of a ramp since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    Start,
    Step,
    End,
}

impl Ramps {
    /// Looks, and tells what is other than at the last look.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let stages = stages(snapshot, now);
        if let Some(known) = self.known.replace(stages.clone()) {
            for (path, became, stage) in events(&known, &stages) {
                tell(path, became, stage, now);
            }
        }
    }
}

impl Became {
    const fn span(self) -> &'static str {
        match self {
            Self::Start => "ramp.start",
            Self::Step => "ramp.step",
            Self::End => "ramp.end",
        }
    }
}

fn stages(snapshot: &Snapshot, now: Timestamp) -> BTreeMap<String, Stage> {
    let ramped = snapshot.placed().filter_map(|placed| {
        let directive = placed.directive.as_ref().ok()?;
        let (ramp, percent) = directive.ramp_step(now)?;
        let stage = Stage {
            percent: percent.get(),
            by: match ramp.by {
                By::Weight => "weight",
                By::Nodes(_) => "nodes",
            },
            asked: directive
                .author
                .trace
                .as_deref()
                .and_then(TraceParent::parse),
        };
        Some((placed.path.clone(), stage))
    });
    ramped.take(RAMPS_MAX).collect()
}

/// A ramp that was replaced by another one has not ended: it goes on from where it was.
fn events<'a>(
    known: &'a BTreeMap<String, Stage>,
    now: &'a BTreeMap<String, Stage>,
) -> Vec<(&'a str, Became, &'a Stage)> {
    let ended = known
        .iter()
        .filter(|(path, _)| !now.contains_key(*path))
        .map(|(path, stage)| (path.as_str(), Became::End, stage));
    let others = now
        .iter()
        .filter_map(|(path, stage)| match known.get(path) {
            None => Some((path.as_str(), Became::Start, stage)),
            Some(before) if before.percent != stage.percent => {
                Some((path.as_str(), Became::Step, stage))
            }
            Some(_) => None,
        });
    ended.chain(others).collect()
}

fn tell(path: &str, became: Became, stage: &Stage, now: Timestamp) {
    let (name, by, percent) = (became.span(), stage.by, stage.percent);
    let sighting = Sighting {
        name,
        begin: now,
        end: now,
        asked: stage.asked.as_slice(),
        attributes: vec![
            ("path", path.to_owned()),
            ("by", by.to_owned()),
            ("percent", percent.to_string()),
        ],
        failed: None,
    };
    let trace_id = sighting.tell();
    let trace_id = trace_id.as_deref();
    info!(path = %path.escape_debug(), by, percent, trace_id, "{name}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::listing::Listing;

    const RAMP: &str = r#"{"v":1,"state":"ready","since":"2026-11-30T10:00:00Z",
        "trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "ramp":{"by":"weight","steps":[5,25],"every":"1m"}}"#;

    #[test]
    fn a_ramp_begins_steps_and_ends_once_each() {
        let at = |entries: &[(&str, &str)], now: &str| {
            let listing = Listing::with_sentinel(1, entries);
            let snapshot = Snapshot::build(&listing).unwrap();
            stages(&snapshot, now.parse().unwrap())
        };
        let ramp = [("canary-state", RAMP)];
        let looks = [
            at(&[("canary-state", "drain")], "2026-11-30T09:59:59Z"),
            at(&ramp, "2026-11-30T10:00:01Z"),
            at(&ramp, "2026-11-30T10:00:59Z"),
            at(&ramp, "2026-11-30T10:01:00Z"),
            at(&ramp, "2026-11-30T10:02:00Z"),
            at(&ramp, "2026-11-30T10:03:00Z"),
        ];
        let mut told = Vec::new();
        for pair in looks.windows(2) {
            let events = events(&pair[0], &pair[1]);
            told.extend(events.iter().map(|(path, became, stage)| {
                assert!(stage.asked.is_some());
                format!("{path} {} {}", became.span(), stage.percent)
            }));
        }
        assert_eq!(
            told,
            [
                "canary-state ramp.start 5",
                "canary-state ramp.step 25",
                "canary-state ramp.end 25",
            ]
        );
    }
}
