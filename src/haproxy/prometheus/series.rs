//! The series that are asked for, and what they say together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::PrometheusSource;
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{Class, Exactness, Observed, ObservedBackend, ObservedNode};

/// How far back a node is remembered that has no series now: a series ends with the first scrape
/// that fails, and a node that asks no agent would be missed by nobody.
pub(super) const LATELY: &str = "15m";

/// A series that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Series {
    ServerStatus,
    ServerStatusAt,
    ServerWeight,
    ServerSessions,
    ServerUp,
    ServerUpAt,
    BackendStatus,
    BackendStatusAt,
    BackendUp,
    BackendUpAt,
    Lately,
}

#[derive(Deserialize)]
pub(super) struct Sample {
    pub(super) metric: BTreeMap<String, String>,
    pub(super) value: (f64, String),
}

impl Series {
    pub(super) const ALL: [Self; 11] = [
        Self::ServerStatus,
        Self::ServerStatusAt,
        Self::ServerWeight,
        Self::ServerSessions,
        Self::ServerUp,
        Self::ServerUpAt,
        Self::BackendStatus,
        Self::BackendStatusAt,
        Self::BackendUp,
        Self::BackendUpAt,
        Self::Lately,
    ];

    /// The query; one state of each status has them all, whichever of them holds.
    pub(super) fn query(self, matchers: &str) -> String {
        let series = |name: &str| format!("{name}{{{matchers}}}");
        let one_state = |name: &str| {
            let comma = if matchers.is_empty() { "" } else { "," };
            format!("timestamp({name}{{{matchers}{comma}state=\"UP\"}})")
        };
        match self {
            Self::ServerStatus => format!("{} == 1", series("haproxy_server_status")),
            Self::ServerStatusAt => one_state("haproxy_server_status"),
            Self::ServerWeight => series("haproxy_server_weight"),
            Self::ServerSessions => series("haproxy_server_current_sessions"),
            Self::ServerUp => series("haproxy_server_up"),
            Self::ServerUpAt => format!("timestamp({})", series("haproxy_server_up")),
            Self::BackendStatus => format!("{} == 1", series("haproxy_backend_status")),
            Self::BackendStatusAt => one_state("haproxy_backend_status"),
            Self::BackendUp => series("haproxy_backend_up"),
            Self::BackendUpAt => format!("timestamp({})", series("haproxy_backend_up")),
            Self::Lately => {
                let [native, older] = ["haproxy_backend_status", "haproxy_backend_up"].map(series);
                format!("last_over_time({native}[{LATELY}]) or last_over_time({older}[{LATELY}])")
            }
        }
    }
}

/// What the series say together.
pub(super) struct Reader<'a> {
    pub(super) source: &'a PrometheusSource,
    pub(super) found: BTreeMap<Series, Vec<Sample>>,
    /// The moment for which they hold, by Prometheus' clock and by ours.
    pub(super) there: f64,
    pub(super) here: Timestamp,
}

impl Reader<'_> {
    pub(super) fn nodes(&self) -> Result<BTreeMap<Name, ObservedNode>, String> {
        let mut nodes = BTreeMap::new();
        self.servers(&mut nodes);
        self.backends(&mut nodes);
        let named = |sample: &&Sample| self.node(sample).is_some();
        let all = || self.found.values().flatten();
        let nameless = all().count() - all().filter(named).count();
        if nameless > 0 {
            let label = self.source.node_label.as_deref();
            let label = label.unwrap_or("fqdn or instance");
            return Err(format!(
                "{nameless} series have no label {label} that names a node: set observe.node_label"
            ));
        }
        Ok(nodes)
    }

    /// The nodes that were there lately, those that are there now included.
    pub(super) fn lately(&self) -> BTreeSet<Name> {
        let samples = self.samples(Series::Lately);
        samples.filter_map(|sample| self.node(sample)).collect()
    }

    fn servers(&self, nodes: &mut BTreeMap<Name, ObservedNode>) {
        for (series, exactness) in [
            (Series::ServerUpAt, Exactness::UpOrNot),
            (Series::ServerStatusAt, Exactness::Exact),
        ] {
            for (node, id, value) in self.of_servers(series) {
                let node = nodes.entry(node).or_default();
                node.servers
                    .insert(id, blank(exactness, self.moment(value)));
            }
        }
        // What has no series of its own moment is of a scrape in between, or of nobody.
        let mut set = |series, set: &dyn Fn(&mut Observed, &Sample)| {
            for sample in self.samples(series) {
                let row = self.node(sample).zip(server_id(sample));
                let row = row.and_then(|(node, id)| nodes.get_mut(&node)?.servers.get_mut(&id));
                if let Some(observed) = row {
                    set(observed, sample);
                }
            }
        };
        set(Series::ServerUp, &|observed, sample| {
            if observed.exactness == Exactness::UpOrNot {
                let up = number(&sample.value.1) == Some(1.0);
                observed.class = if up { Class::Up } else { Class::Down };
                observed.status = format!("up {}", u8::from(up));
            }
        });
        set(Series::ServerStatus, &|observed, sample| {
            if observed.exactness == Exactness::Exact {
                let state = sample.metric.get("state").map_or("", String::as_str);
                observed.class = Class::of(state);
                state.clone_into(&mut observed.status);
            }
        });
        set(Series::ServerWeight, &|observed, sample| {
            observed.weight = sample.value.1.parse().ok();
        });
        set(Series::ServerSessions, &|observed, sample| {
            observed.sessions = sample.value.1.parse().ok();
        });
    }

    fn backends(&self, nodes: &mut BTreeMap<Name, ObservedNode>) {
        for (at, value) in [
            (Series::BackendUpAt, Series::BackendUp),
            (Series::BackendStatusAt, Series::BackendStatus),
        ] {
            let mut up = BTreeMap::new();
            for sample in self.samples(value) {
                let state = sample.metric.get("state");
                let is_up = state.map_or(number(&sample.value.1) == Some(1.0), |s| s == "UP");
                up.extend(self.backend(sample).map(|key| (key, is_up)));
            }
            for sample in self.samples(at) {
                let (Some(key), Some(at)) = (self.backend(sample), number(&sample.value.1)) else {
                    continue;
                };
                let at = self.moment(at);
                // Without a state that holds nobody says that it is up.
                let up = up.get(&key).copied().unwrap_or(false);
                let node = nodes.entry(key.0).or_default();
                node.backends.insert(key.1, ObservedBackend { up, at });
            }
        }
    }

    fn samples(&self, series: Series) -> impl Iterator<Item = &Sample> {
        self.found.get(&series).into_iter().flatten()
    }

    fn of_servers(&self, series: Series) -> impl Iterator<Item = (Name, ServerId, f64)> {
        self.samples(series).filter_map(|sample| {
            let value = number(&sample.value.1)?;
            Some((self.node(sample)?, server_id(sample)?, value))
        })
    }

    fn backend(&self, sample: &Sample) -> Option<(Name, Name)> {
        Some((self.node(sample)?, Name::parse(proxy(sample)?).ok()?))
    }

    fn node(&self, sample: &Sample) -> Option<Name> {
        let label = |label: &str| sample.metric.get(label).map(String::as_str);
        let text = match self.source.node_label.as_deref() {
            Some(own) => label(own)?,
            None => label("fqdn").or_else(|| label("instance"))?,
        };
        Name::parse(host(text)).ok()
    }

    /// A moment of Prometheus' clock by ours.
    fn moment(&self, at: f64) -> Timestamp {
        let age = Duration::try_from_secs_f64(self.there - at).unwrap_or(Duration::ZERO);
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        self.here.saturating_sub(age).unwrap_or(Timestamp::MIN)
    }
}

/// A server of which no state is known yet.
fn blank(exactness: Exactness, at: Timestamp) -> Observed {
    Observed {
        status: String::new(),
        class: Class::Blank,
        exactness,
        weight: None,
        part: None,
        sessions: None,
        last_agt: None,
        at,
    }
}

/// `HAProxy`'s own exporter calls a backend `proxy`, the older one `backend`.
fn proxy(sample: &Sample) -> Option<&str> {
    let label = |label| sample.metric.get(label).map(String::as_str);
    label("proxy").or_else(|| label("backend"))
}

fn server_id(sample: &Sample) -> Option<ServerId> {
    let server = sample.metric.get("server")?;
    ServerId::parse(&format!("{}/{server}", proxy(sample)?)).ok()
}

/// The host of `host:port`; an IPv6 address stands in brackets there.
fn host(instance: &str) -> &str {
    if let Some((address, _)) = instance.strip_prefix('[').and_then(|i| i.split_once(']')) {
        return address;
    }
    match instance.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.parse::<u16>().is_ok() => host,
        Some(_) | None => instance,
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_by_its_host() {
        for (instance, name) in [
            ("lb-1:9101", "lb-1"),
            ("lb-1.example.org:9101", "lb-1.example.org"),
            ("10.0.0.1:9101", "10.0.0.1"),
            ("[fd00::1]:9101", "fd00::1"),
            ("fd00::1", "fd00::1"),
            ("lb-1", "lb-1"),
        ] {
            assert_eq!(host(instance), name);
        }
    }

    #[test]
    fn matchers_stand_in_every_series() {
        for series in Series::ALL {
            let query = series.query("env=\"gprd\"");
            assert!(query.contains("{env=\"gprd\""), "{query}");
            assert!(!series.query("").contains("{,"), "{query}");
        }
    }

    fn sample(labels: &[(&str, &str)], value: &str) -> Sample {
        let label = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Sample {
            metric: labels.iter().map(label).collect(),
            value: (0.0, value.to_owned()),
        }
    }

    fn read(found: Vec<(Series, Sample)>) -> Result<BTreeMap<Name, ObservedNode>, String> {
        let source = PrometheusSource {
            url: String::new(),
            matchers: String::new(),
            node_label: None,
        };
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for (series, sample) in found {
            all.entry(series).or_default().push(sample);
        }
        let here = "2026-11-30T10:00:00Z".parse().unwrap();
        let (source, found, there) = (&source, all, 1_000.0);
        Reader {
            source,
            found,
            there,
            here,
        }
        .nodes()
    }

    #[test]
    fn both_namings_are_read_and_the_more_exact_one_counts() {
        let native = [("instance", "lb-1:9101"), ("proxy", "web"), ("server", "a")];
        let older = [
            ("instance", "lb-1:9101"),
            ("backend", "web"),
            ("server", "b"),
        ];
        let both = [
            ("instance", "lb-1:9101"),
            ("backend", "web"),
            ("server", "a"),
        ];
        let drain = [native[0], native[1], native[2], ("state", "DRAIN")];
        let nodes = read(vec![
            (Series::ServerStatusAt, sample(&native, "970")),
            (Series::ServerStatus, sample(&drain, "1")),
            (Series::ServerWeight, sample(&native, "40")),
            (Series::ServerSessions, sample(&native, "3")),
            (Series::ServerUpAt, sample(&both, "999")),
            (Series::ServerUp, sample(&both, "1")),
            (Series::ServerUpAt, sample(&older, "999")),
            (Series::ServerUp, sample(&older, "0")),
        ])
        .unwrap();
        let servers = &nodes["lb-1"].servers;
        let (a, b) = (&servers["web/a"], &servers["web/b"]);
        assert_eq!(
            (a.class, a.weight, a.sessions),
            (Class::Drain, Some(40), Some(3))
        );
        assert_eq!(a.at.to_string(), "2026-11-30T09:59:30Z");
        assert_eq!((b.class, b.exactness), (Class::Down, Exactness::UpOrNot));
    }

    #[test]
    fn a_series_without_a_node_is_named_and_nothing_is_guessed() {
        let nameless = [("proxy", "web"), ("server", "a")];
        let error = read(vec![(Series::ServerStatusAt, sample(&nameless, "970"))]).unwrap_err();
        assert!(
            error.contains("1 series have no label fqdn or instance"),
            "{error}"
        );
    }
}
