//! `settings.rails`: what the commands refuse, and how much they ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::wire::{name, names, part};
use crate::domain::key::CANARY;
use crate::domain::name::Name;
use crate::domain::ramp::SPAN_MAX;

/// The field `rails`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailSettings {
    /// How many servers must be able to serve.
    pub floors: Floors,
    /// The most servers that one write may take traffic from without a typed sentence, 1 and more;
    /// default [`MANY_ROWS`]. More than half of the rows always needs one.
    pub many_rows: usize,
    /// Whether `--yes` and a reason stand for that sentence without a terminal; default false.
    pub unattended: bool,
    /// When a reason must be given; default never.
    pub reason: ReasonRule,
    /// How long what takes traffic away may stand.
    pub ttl: TtlRule,
    /// How much of the history is kept.
    pub history: History,
    /// Which groups a deploy stage holds, for the deploy lock; default `cny`: `canary`.
    pub stages: BTreeMap<Name, BTreeSet<Name>>,
}

/// How many servers of a backend must be able to serve, seen from every node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floors {
    /// Of a backend that is not named; default 1. A backend whose servers are all of the canary
    /// group has 0 unless it is named: draining the canary is an everyday act, and its requests go
    /// elsewhere.
    pub default: usize,
    /// Of single backends.
    pub backends: BTreeMap<Name, usize>,
}

/// When a write needs a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonRule {
    /// Never.
    #[default]
    Never,
    /// When it takes traffic from a server.
    Reductions,
    /// Always.
    Always,
}

/// How long a directive may stand that takes traffic away, other than a group's of the whole
/// fleet: that one is the group's lasting state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TtlRule {
    /// Whether it must say when it ends; default false.
    pub required: bool,
    /// The longest time up to its end, a second to a year; default no limit.
    pub max: Option<Duration>,
}

/// How much of the history is kept; what is beyond either bound may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The most changes, 1 to 100,000; default 2,000.
    pub changes: usize,
    /// The oldest change, a second to a year; default 90 days.
    pub age: Duration,
}

/// The default of [`RailSettings::many_rows`]: the servers of one zone, in a fleet of the usual
/// size, are fewer.
pub const MANY_ROWS: usize = 30;

const HISTORY_CHANGES: usize = 2_000;
/// Each change is one key, listed whole by `history`.
const HISTORY_CHANGES_MAX: usize = 100_000;
const HISTORY_AGE: Duration = Duration::from_hours(90 * 24);

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Wire {
    floors: Option<WireFloors>,
    many_rows: Option<usize>,
    #[serde(default)]
    unattended: bool,
    #[serde(default)]
    reason: ReasonRule,
    #[serde(default)]
    ttl: WireTtl,
    #[serde(default)]
    history: WireHistory,
    stages: Option<BTreeMap<String, Vec<String>>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct WireFloors {
    default: Option<usize>,
    #[serde(default)]
    backends: BTreeMap<String, usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct WireTtl {
    #[serde(default)]
    required: bool,
    max: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct WireHistory {
    changes: Option<usize>,
    age: Option<String>,
}

impl Default for RailSettings {
    fn default() -> Self {
        let name = |text| Name::parse(text).expect("the built-in names are names");
        Self {
            floors: Floors::default(),
            many_rows: MANY_ROWS,
            unattended: false,
            reason: ReasonRule::Never,
            ttl: TtlRule::default(),
            history: History::default(),
            stages: BTreeMap::from([(name("cny"), BTreeSet::from([name(CANARY)]))]),
        }
    }
}

impl Default for Floors {
    fn default() -> Self {
        Self {
            default: 1,
            backends: BTreeMap::new(),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            changes: HISTORY_CHANGES,
            age: HISTORY_AGE,
        }
    }
}

impl Floors {
    /// The floor of a backend; `canary_only`: whether all its servers are of the canary group.
    #[must_use]
    pub fn of(&self, backend: &str, canary_only: bool) -> usize {
        let unnamed = if canary_only { 0 } else { self.default };
        self.backends.get(backend).copied().unwrap_or(unnamed)
    }
}

impl RailSettings {
    /// Reads the field, and names what this version does not know.
    pub(super) fn read(value: Value) -> Result<(Self, Vec<String>), String> {
        let wire: Wire = part("rails", value)?;
        let mut rails = Self {
            unattended: wire.unattended,
            reason: wire.reason,
            ttl: TtlRule {
                required: wire.ttl.required,
                max: span("rails.ttl.max", wire.ttl.max.as_deref())?,
            },
            ..Self::default()
        };
        if let Some(floors) = wire.floors {
            rails.floors.default = floors.default.unwrap_or(rails.floors.default);
            for (backend, floor) in floors.backends {
                let backend = name("rails.floors.backends", &backend)?;
                rails.floors.backends.insert(backend, floor);
            }
        }
        let history = &mut rails.history;
        history.age =
            span("rails.history.age", wire.history.age.as_deref())?.unwrap_or(HISTORY_AGE);
        if let Some(changes) = wire.history.changes {
            history.changes = within("rails.history.changes", changes, HISTORY_CHANGES_MAX)?;
        }
        if let Some(many_rows) = wire.many_rows {
            rails.many_rows = within("rails.many_rows", many_rows, usize::MAX)?;
        }
        if let Some(stages) = wire.stages {
            rails.stages.clear();
            for (stage, groups) in stages {
                let field = format!("rails.stages.{stage}");
                let groups = names(&field, &groups)?.into_iter().collect();
                rails.stages.insert(name("rails.stages", &stage)?, groups);
            }
        }
        let unknown = wire
            .others
            .into_keys()
            .map(|other| format!("rails.{other}"));
        Ok((rails, unknown.collect()))
    }
}

fn within(field: &str, number: usize, max: usize) -> Result<usize, String> {
    if (1..=max).contains(&number) {
        return Ok(number);
    }
    let bound = if max == usize::MAX {
        "1 or more".to_owned()
    } else {
        format!("1 to {max}")
    };
    Err(format!("{field} is {number}, allowed is {bound}"))
}

fn span(field: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    let span = humantime::parse_duration(text)
        .map_err(|error| format!("{field} is {text:?}: {error}; write it as 12h or 90d"))?;
    if (Duration::from_secs(1)..=SPAN_MAX).contains(&span) {
        Ok(Some(span))
    } else {
        Err(format!("{field} is {text:?}, allowed is 1s to a year"))
    }
}
