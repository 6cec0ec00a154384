//! Ramps: undraining step by step, over nodes or over weight.
//!
//! Both only ever grow while their directive stands: HAProxy never sees a server go up and down
//! again because of the time alone.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::answer::{Percent, State};
use super::hash::fnv1a;
use super::name::Name;

/// The most steps of one ramp.
pub const STEPS_MAX: usize = 100;
/// The shortest time between two steps: HAProxy learns of a step at its next poll only.
pub const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest time that a ramp or plan may name: a year. More is a typing error.
pub const SPAN_MAX: Duration = Duration::from_hours(366 * 24);

/// A gradual undrain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ramp {
    /// What grows.
    pub by: By,
    /// Percentages, growing; at least one, at most [`STEPS_MAX`].
    pub steps: Vec<Percent>,
    /// Time from step to step; without it the ramp holds at its first step.
    pub every: Option<Duration>,
}

/// What grows from step to step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The weight that every node gives the server.
    Weight,
    /// The number of nodes that have the server ready, at the directive's weight.
    Nodes(Nodes),
}

/// Which nodes come first, and what the others answer meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nodes {
    /// The nodes in the order in which they come in; empty: by a hash of seed and node, and a step
    /// is the expected share only.
    pub order: Order,
    /// Makes the hash order; absent: the key's path. A hold and a resume copy it, so that the set
    /// of nodes that are in only grows.
    pub seed: Option<String>,
    /// What the nodes answer that are not in yet.
    pub rest: Rest,
}

/// Nodes in order, each with its rank from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order(BTreeMap<Name, usize>);

/// What a server was before its ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rest {
    /// Drained.
    #[default]
    Drain,
    /// In maintenance.
    Maint,
}

/// Where a ramp stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The step, from 0; `None` behind the last one.
    pub step: Option<usize>,
    /// When the next step begins; `None` when there is none.
    pub next: Option<Timestamp>,
}

impl Ramp {
    /// Where the ramp stands at `now`. A `since` in the future counts as now.
    #[must_use]
    pub fn position(&self, since: Timestamp, now: Timestamp) -> Position {
        let Some(every) = self.every else {
            return Position {
                step: Some(0),
                next: None,
            };
        };
        let done = elapsed(since, now).as_nanos() / every.as_nanos().max(1);
        let step = usize::try_from(done)
            .ok()
            .filter(|&step| step < self.steps.len());
        let next = step.and_then(|step| {
            let steps_begun = u32::try_from(step + 1).ok()?;
            after(since, every.checked_mul(steps_begun)?)
        });
        Position { step, next }
    }

    /// What a node answers at `now`. `weight` is the directive's, `path` the key's.
    #[must_use]
    pub fn state(&self, weight: Percent, at: &Position, node: &str, path: &str) -> State {
        let Some(percent) = at.step.and_then(|step| self.steps.get(step)) else {
            return State::Ready(weight);
        };
        match &self.by {
            By::Weight => State::Ready(*percent),
            By::Nodes(nodes) if nodes.is_in(*percent, node, path) => State::Ready(weight),
            By::Nodes(nodes) => nodes.rest.state(),
        }
    }
}

impl Nodes {
    /// Whether a node is among the first `percent` of all.
    ///
    /// A node that is not on the list comes with the step of 100 %, or behind the last one: a list
    /// that was written before the node existed says nothing about it.
    #[must_use]
    pub fn is_in(&self, percent: Percent, node: &str, path: &str) -> bool {
        let percent = usize::from(percent.get());
        if self.order.0.is_empty() {
            let seed = self.seed.as_deref().unwrap_or(path);
            return share(seed, node) < percent as u64 * 100;
        }
        match self.order.0.get(node) {
            Some(rank) => *rank < (self.order.0.len() * percent).div_ceil(100),
            None => percent == 100,
        }
    }
}

impl Order {
    /// Nodes in the given order; `None` when one stands there twice.
    #[must_use]
    pub fn new(nodes: Vec<Name>) -> Option<Self> {
        let count = nodes.len();
        let ranks: BTreeMap<_, _> = nodes.into_iter().enumerate().map(|(i, n)| (n, i)).collect();
        (ranks.len() == count).then_some(Self(ranks))
    }

    /// The nodes, first one first.
    #[must_use]
    pub fn names(&self) -> Vec<&Name> {
        let mut ranked: Vec<_> = self.0.iter().collect();
        ranked.sort_unstable_by_key(|(_, rank)| **rank);
        ranked.into_iter().map(|(name, _)| name).collect()
    }
}

impl Rest {
    /// The state that it stands for.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Drain => State::Drain,
            Self::Maint => State::Maint,
        }
    }
}

/// Time gone since `since`; none when it lies in the future.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since)
        .try_into()
        .unwrap_or(Duration::ZERO)
}

/// The moment a span after another; `None` beyond the end of time.
pub(super) fn after(moment: Timestamp, span: Duration) -> Option<Timestamp> {
    moment
        .checked_add(SignedDuration::try_from(span).ok()?)
        .ok()
}

/// Where a node stands in the hash order: 0 to 9,999. FNV-1a over seed, a zero byte and node, then
/// the 64-bit finaliser of MurmurHash3. Part of the protocol between replicas: it never changes.
fn share(seed: &str, node: &str) -> u64 {
    let mut hash = fnv1a(seed.bytes().chain([0]).chain(node.bytes()));
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    let scaled = (u128::from(hash) * 10_000) >> 64;
    u64::try_from(scaled).expect("a 64-bit number times 10,000, shifted by 64, fits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn percents(steps: &[u64]) -> Vec<Percent> {
        steps.iter().map(|&s| Percent::new(s).unwrap()).collect()
    }

    fn by_weight(steps: &[u64], every: Option<u64>) -> Ramp {
        Ramp {
            by: By::Weight,
            steps: percents(steps),
            every: every.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_step_begins_exactly_at_its_time() {
        let ramp = by_weight(&[5, 25, 50], Some(120));
        let since = at("2026-11-30T10:00:00Z");
        for (now, step, next) in [
            (
                "2026-11-30T09:00:00Z",
                Some(0),
                Some("2026-11-30T10:02:00Z"),
            ),
            (
                "2026-11-30T10:00:00Z",
                Some(0),
                Some("2026-11-30T10:02:00Z"),
            ),
            (
                "2026-11-30T10:01:59.999Z",
                Some(0),
                Some("2026-11-30T10:02:00Z"),
            ),
            (
                "2026-11-30T10:02:00Z",
                Some(1),
                Some("2026-11-30T10:04:00Z"),
            ),
            (
                "2026-11-30T10:05:59.999Z",
                Some(2),
                Some("2026-11-30T10:06:00Z"),
            ),
            ("2026-11-30T10:06:00Z", None, None),
            ("9999-01-01T00:00:00Z", None, None),
        ] {
            assert_eq!(
                ramp.position(since, at(now)),
                Position {
                    step,
                    next: next.map(at)
                },
                "{now}"
            );
        }
    }

    #[test]
    fn a_step_of_odd_length_begins_when_it_was_announced() {
        let mut ramp = by_weight(&(1..=90).collect::<Vec<_>>(), None);
        ramp.every = Some(Duration::from_micros(1_000_999));
        let since = at("2026-11-30T10:00:00Z");
        let first = ramp.position(since, since);
        let next = first.next.unwrap();
        let before = next - SignedDuration::from_nanos(1);
        assert_eq!(ramp.position(since, before), first);
        assert_eq!(ramp.position(since, next).step, Some(1));
    }

    #[test]
    fn a_ramp_without_every_holds_at_its_first_step() {
        let ramp = by_weight(&[5, 25], None);
        let held = Position {
            step: Some(0),
            next: None,
        };
        assert_eq!(
            ramp.position(at("2020-01-01T00:00:00Z"), at("2030-01-01T00:00:00Z")),
            held
        );
    }

    fn listed(count: usize) -> Nodes {
        let names = (1..=count)
            .map(|i| Name::parse(&format!("lb-{i}")).unwrap())
            .collect();
        Nodes {
            order: Order::new(names).unwrap(),
            ..Nodes::default()
        }
    }

    fn count_in(nodes: &Nodes, percent: u64, of: usize) -> usize {
        let percent = Percent::new(percent).unwrap();
        (1..=of)
            .filter(|i| nodes.is_in(percent, &format!("lb-{i}"), "canary-state"))
            .count()
    }

    #[test]
    fn listed_nodes_come_in_by_their_order_rounded_up() {
        let nodes = listed(8);
        for (percent, expected) in [
            (1, 1),
            (12, 1),
            (13, 2),
            (25, 2),
            (50, 4),
            (99, 8),
            (100, 8),
        ] {
            assert_eq!(count_in(&nodes, percent, 8), expected, "{percent} %");
        }
        assert!(nodes.is_in(Percent::new(5).unwrap(), "lb-1", ""));
        assert!(
            !nodes.is_in(Percent::new(99).unwrap(), "lb-9", ""),
            "not listed, not yet"
        );
        assert!(
            nodes.is_in(Percent::FULL, "lb-9", ""),
            "not listed comes last"
        );
    }

    #[test]
    fn hashed_nodes_come_in_about_in_proportion() {
        let nodes = Nodes {
            seed: Some("01JDQ".to_owned()),
            ..Nodes::default()
        };
        for percent in [5, 25, 50, 75] {
            let got = count_in(&nodes, percent, 2_000);
            let ideal = usize::try_from(percent).unwrap() * 20;
            assert!(got.abs_diff(ideal) < 80, "{got} of 2,000 at {percent} %");
        }
        assert_eq!(count_in(&nodes, 100, 2_000), 2_000);
    }

    #[test]
    fn the_hash_order_never_changes_between_versions() {
        let got = ["lb-1", "lb-2", "haproxy-main-01"].map(|node| share("canary-state", node));
        assert_eq!(got, [5_903, 3_362, 2_665]);
    }

    proptest! {
        #[test]
        fn a_set_of_nodes_only_grows(seed in "[a-z]{0,8}", node in "[a-z0-9]{1,8}", low in 1u64..=100, high in 1u64..=100, listed_count in 0usize..40) {
            let (low, high) = (low.min(high), low.max(high));
            let mut nodes = listed(listed_count);
            nodes.seed = Some(seed);
            for node in [node.as_str(), "lb-3", "lb-17"] {
                let is_in = |p| nodes.is_in(Percent::new(p).unwrap(), node, "x");
                prop_assert!(!is_in(low) || is_in(high));
            }
        }

        #[test]
        fn a_ramp_never_goes_back(steps in proptest::collection::btree_set(1u64..=100, 1..10), every in 1u64..100_000, first in 0i64..4_000_000_000, second in 0i64..4_000_000_000) {
            let ramp = by_weight(&steps.into_iter().collect::<Vec<_>>(), Some(every));
            let since = Timestamp::from_second(2_000_000_000).unwrap();
            let weight = |second| {
                let now = Timestamp::from_second(second).unwrap();
                let position = ramp.position(since, now);
                assert!(position.next.is_none_or(|next| next > now));
                match ramp.state(Percent::FULL, &position, "n", "p") {
                    State::Ready(percent) => percent,
                    State::Drain | State::Maint => unreachable!("a weight ramp is ready"),
                }
            };
            prop_assert!(weight(first.min(second)) <= weight(first.max(second)));
        }
    }
}
