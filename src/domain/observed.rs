//! What `HAProxy` really has: its own word, from a stats socket or through Prometheus.
//!
//! A status is compared by its first word: agent-checked servers show `DRAIN (agent)`, servers
//! whose check is on its way `UP 1/2`, tracking ones `MAINT (via x/y)`, and servers without a
//! health check `no check` (measured on 2.6, 2.8, 3.0 and 3.2).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::name::{Name, ServerId};

/// What a status stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `UP`, `UP 1/2`.
    Up,
    /// `no check`: a server without a health check. It counts as up.
    NoCheck,
    /// Nothing: the exporter has set none of the states. It counts as up.
    Blank,
    /// `DRAIN`, `DRAIN (agent)`: finishes what it has.
    Drain,
    /// `MAINT`, `MAINT (via x/y)`, `MAINT (resolution)`.
    Maint,
    /// `DOWN`, `DOWN 1/2`, `DOWN (agent)`.
    Down,
    /// Something else, such as `NOLB`.
    Other,
}

/// Whether a server takes part at once, or only when no active one can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It takes part.
    Active,
    /// It serves when no active server can.
    Backup,
}

/// How well a state is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exactness {
    /// From a series `..._up` alone: of 1 nobody can say whether it is `DRAIN`, of 0 whether it is
    /// `MAINT`. (The older exporter counts `DRAIN` as 1 and `MAINT` as 0.)
    UpOrNot,
    /// `HAProxy`'s own status.
    Exact,
}

/// One server of one node, as `HAProxy` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// The status as it is shown.
    pub status: String,
    /// What that stands for.
    pub class: Class,
    /// How well it is known.
    pub exactness: Exactness,
    /// The weight in force, 0 to 256: the configured one times the agent's percentage.
    pub weight: Option<u32>,
    /// Whether it is active or backup; Prometheus does not say.
    pub part: Option<Part>,
    /// Sessions now.
    pub sessions: Option<u64>,
    /// The last words of its agent, 127 characters at most; only a stats socket says them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_agt: Option<String>,
    /// As of when: when the socket answered, or Prometheus scraped.
    pub at: Timestamp,
}

/// One backend of one node, as `HAProxy` has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObservedBackend {
    /// Whether a server of it can serve. `HAProxy` shows `DOWN` when the weights of all that can
    /// add up to nothing, drained ones included.
    pub up: bool,
    /// As of when.
    pub at: Timestamp,
}

/// What one node's `HAProxy` has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObservedNode {
    /// Its servers.
    pub servers: BTreeMap<ServerId, Observed>,
    /// Its backends.
    pub backends: BTreeMap<Name, ObservedBackend>,
}

/// What several nodes have, and what could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observation {
    /// The sources that were asked, for a person: `prometheus http://...`, `stats of lb-1`.
    pub sources: Vec<String>,
    /// The nodes seen.
    pub nodes: BTreeMap<Name, ObservedNode>,
    /// Nodes that were seen a short while ago, and are not now.
    pub gone: BTreeSet<Name>,
    /// What could not be seen.
    pub missing: Vec<Missing>,
}

/// Something that was asked for and is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why, for a person.
    pub why: String,
}

impl Class {
    /// Reads a status as `HAProxy` shows it.
    #[must_use]
    pub fn of(status: &str) -> Self {
        let mut words = status.split_whitespace();
        match (words.next(), words.next()) {
            (None, _) => Self::Blank,
            (Some("UP"), _) => Self::Up,
            (Some("no"), Some("check")) => Self::NoCheck,
            (Some("DRAIN"), _) => Self::Drain,
            (Some("MAINT"), _) => Self::Maint,
            (Some("DOWN"), _) => Self::Down,
            (Some(_), _) => Self::Other,
        }
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::NoCheck => "no check",
            Self::Blank => "blank",
            Self::Drain => "DRAIN",
            Self::Maint => "MAINT",
            Self::Down => "DOWN",
            Self::Other => "other",
        }
    }

    /// Whether it counts as up.
    #[must_use]
    pub const fn is_up(self) -> bool {
        match self {
            Self::Up | Self::NoCheck | Self::Blank => true,
            Self::Drain | Self::Maint | Self::Down | Self::Other => false,
        }
    }
}

impl Observed {
    /// The state by which servers are compared: what counts as up is `UP`, anything that is known
    /// by its own name alone is that name.
    #[must_use]
    pub fn state(&self) -> Cow<'static, str> {
        match self.class {
            Class::Up | Class::NoCheck | Class::Blank => Class::Up.as_str().into(),
            Class::Drain | Class::Maint | Class::Down => self.class.as_str().into(),
            Class::Other => self.status.clone().into(),
        }
    }
}

impl Observation {
    /// Takes in what another source has seen. Of one server the newer word counts; of two of the
    /// same age the more exact one.
    pub fn add(&mut self, other: Self) {
        self.sources.extend(other.sources);
        self.missing.extend(other.missing);
        self.gone.extend(other.gone);
        for (name, node) in other.nodes {
            self.nodes.entry(name).or_default().add(node);
        }
    }

    /// Whether anything at all was asked.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The same with its nodes called as the fleet calls them: exporters name a host in full,
    /// `lb-1.example.org`, where polls say `lb-1`. A name whose first label is that of several
    /// nodes stays as it is.
    #[must_use]
    pub fn with_names_of<'a>(mut self, known: impl Iterator<Item = &'a Name>) -> Self {
        let known: Vec<_> = known.collect();
        let called = |name: Name| {
            let label = first_label(name.as_str());
            let same = || known.iter().any(|other| **other == name);
            let mut alike = known.iter().filter(|other| other.as_str() == label);
            match (alike.next(), alike.next()) {
                (Some(one), None) if !same() => (*one).clone(),
                (Some(_) | None, _) => name,
            }
        };
        for (name, node) in std::mem::take(&mut self.nodes) {
            self.nodes.entry(called(name)).or_default().add(node);
        }
        self.gone = self.gone.into_iter().map(called).collect();
        self
    }
}

impl ObservedNode {
    fn add(&mut self, other: Self) {
        for (id, observed) in other.servers {
            let known = self.servers.get(&id);
            let newer =
                |known: &Observed| (known.at, known.exactness) < (observed.at, observed.exactness);
            if known.is_none_or(newer) {
                self.servers.insert(id, observed);
            }
        }
        for (name, backend) in other.backends {
            let known = self.backends.get(&name);
            if known.is_none_or(|known| known.at < backend.at) {
                self.backends.insert(name, backend);
            }
        }
    }
}

/// The first label of a host's name; an address has none.
fn first_label(name: &str) -> &str {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return name;
    }
    name.split('.').next().unwrap_or(name)
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(status: &str, second: i64, exactness: Exactness) -> Observed {
        Observed {
            status: status.to_owned(),
            class: Class::of(status),
            exactness,
            weight: None,
            part: None,
            sessions: None,
            last_agt: None,
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn seen(node: &str, status: &str, second: i64, exactness: Exactness) -> Observation {
        let (node, id) = (
            Name::parse(node).unwrap(),
            ServerId::parse("web/a").unwrap(),
        );
        let mut observation = Observation::default();
        let servers = &mut observation.nodes.entry(node).or_default().servers;
        servers.insert(id, observed(status, second, exactness));
        observation
    }

    #[test]
    fn a_status_is_read_by_its_first_word() {
        for (status, class) in [
            ("UP", Class::Up),
            ("UP 1/2", Class::Up),
            ("UPSIDE", Class::Other),
            ("no check", Class::NoCheck),
            ("no", Class::Other),
            ("", Class::Blank),
            (" ", Class::Blank),
            ("DRAIN", Class::Drain),
            ("DRAIN (agent)", Class::Drain),
            ("MAINT", Class::Maint),
            ("MAINT (via x/y)", Class::Maint),
            ("MAINT (resolution)", Class::Maint),
            ("DOWN", Class::Down),
            ("DOWN 1/2", Class::Down),
            ("DOWN (agent)", Class::Down),
            ("NOLB", Class::Other),
            ("up", Class::Other),
        ] {
            assert_eq!(Class::of(status), class, "{status:?}");
        }
    }

    #[test]
    fn of_two_words_the_newer_counts_and_then_the_more_exact() {
        use Exactness::{Exact, UpOrNot};
        for (first, second, counts) in [
            (("UP", 1, Exact), ("DRAIN", 2, Exact), "DRAIN"),
            (("UP", 2, Exact), ("DRAIN", 1, Exact), "UP"),
            (("UP", 1, UpOrNot), ("DRAIN", 1, Exact), "DRAIN"),
            (("DRAIN", 1, Exact), ("UP", 1, UpOrNot), "DRAIN"),
            (("DRAIN", 1, Exact), ("UP", 2, UpOrNot), "UP"),
        ] {
            let mut both = seen("lb-1", first.0, first.1, first.2);
            both.add(seen("lb-1", second.0, second.1, second.2));
            let found = &both.nodes["lb-1"].servers["web/a"];
            assert_eq!(found.status, counts, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_full_host_name_is_the_node_of_its_first_label_when_there_is_one() {
        for (seen_as, known, shown_as) in [
            ("lb-1.example.org", &["lb-1", "lb-2"][..], "lb-1"),
            ("lb-1.example.org", &["lb-2"], "lb-1.example.org"),
            (
                "lb-1.example.org",
                &["lb-1", "lb-1.example.org"],
                "lb-1.example.org",
            ),
            ("10.0.0.1", &["10"], "10.0.0.1"),
            ("lb-1", &["lb-1"], "lb-1"),
        ] {
            let known: Vec<_> = known
                .iter()
                .map(|name| Name::parse(name).unwrap())
                .collect();
            let renamed = seen(seen_as, "UP", 1, Exactness::Exact).with_names_of(known.iter());
            let names: Vec<_> = renamed.nodes.keys().map(Name::as_str).collect();
            assert_eq!(names, [shown_as], "{seen_as} {known:?}");
        }
    }
}
