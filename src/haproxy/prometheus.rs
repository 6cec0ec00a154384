//! What Prometheus has scraped of `HAProxy`, asked over its HTTP API.
//!
//! Two namings are read. `HAProxy`'s own exporter has `haproxy_server_status{proxy,server,state}`
//! (1 for the state that holds), `haproxy_server_weight` and `haproxy_backend_status{proxy,state}`.
//! The older exporter and recording rules have `haproxy_server_up` and `haproxy_backend_up` with
//! the labels backend and server: of those 1 and 0 is all that is known.
//!
//! A sample's age is that of its scrape, by Prometheus' own clock: `timestamp()` of a plain series.
//! Of a recorded series it is that of the rule's evaluation: what it was computed from may be older
//! by Prometheus' lookback (5 minutes).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::Client;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::causes::root_cause;
use crate::clock;
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{
    Class, Exactness, Missing, Observation, Observed, ObservedBackend, ObservedNode,
};
use crate::http_client;

/// How long one query may take: 20,000 series take Prometheus some 100 ms.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest answer that is read: a series takes some 200 bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How much of an error's text is told, in characters.
const ERROR_CHARS_MAX: usize = 300;

/// Where Prometheus is, and which of its series are those of this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusSource {
    /// `http://host:port`, or a longer path that its API stands below.
    pub url: String,
    /// Matchers within the braces of every series, such as `env="gprd"`; may be empty.
    pub matchers: String,
    /// The label that names the node. Without one: `fqdn`, otherwise `instance` without its port.
    pub node_label: Option<String>,
}

/// A series that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Series {
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
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success { data: Data },
    Error { error: String },
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
    Scalar((f64, String)),
}

#[derive(Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

impl Series {
    const ALL: [Self; 10] = [
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
    ];

    /// The query; one state of each status has them all, whichever of them holds.
    fn query(self, matchers: &str) -> String {
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
        }
    }
}

impl PrometheusSource {
    /// What its series say now. What could not be seen is named in the observation.
    pub async fn observe(&self) -> Observation {
        let mut observation = match self.gather().await {
            Ok(nodes) => Observation {
                nodes,
                ..Observation::default()
            },
            Err(why) => Observation {
                missing: vec![Missing {
                    what: self.name(),
                    why,
                }],
                ..Observation::default()
            },
        };
        observation.sources.push(self.name());
        observation
    }

    fn name(&self) -> String {
        format!("prometheus {}", self.url)
    }

    async fn gather(&self) -> Result<BTreeMap<Name, ObservedNode>, String> {
        let client = client(&self.url)?;
        let Data::Scalar((seconds, _)) = ask(&client, &self.url, "time()", None).await? else {
            return Err("time() is no number there".to_owned());
        };
        // All at one moment: series of two scrapes would contradict each other.
        let (there, here) = (seconds, clock::now());
        let mut questions = JoinSet::new();
        for series in Series::ALL {
            let (client, url) = (client.clone(), self.url.clone());
            let query = series.query(&self.matchers);
            questions.spawn(async move {
                let data = ask(&client, &url, &query, Some(there)).await;
                (series, data.map_err(|why| format!("{query}: {why}")))
            });
        }
        let mut found = BTreeMap::new();
        while let Some(answered) = questions.join_next().await {
            let (series, data) = answered.map_err(|error| error.to_string())?;
            let Data::Vector(samples) = data? else {
                return Err("a series is no vector there".to_owned());
            };
            found.insert(series, samples);
        }
        let reader = Reader {
            source: self,
            found,
            there,
            here,
        };
        reader.nodes()
    }
}

/// What the series say together.
struct Reader<'a> {
    source: &'a PrometheusSource,
    found: BTreeMap<Series, Vec<Sample>>,
    /// The moment for which they hold, by Prometheus' clock and by ours.
    there: f64,
    here: Timestamp,
}

impl Reader<'_> {
    fn nodes(&self) -> Result<BTreeMap<Name, ObservedNode>, String> {
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

/// A client for this URL. Over plain HTTP the system's authorities are not needed: an image from
/// scratch has none.
fn client(url: &str) -> Result<Client, String> {
    let builder = if url.starts_with("https:") {
        http_client::builder()
    } else {
        http_client::to_replicas()
    };
    let client = builder.timeout(QUERY_TIME_MAX).build();
    client.map_err(|error| format!("the HTTP client: {error}"))
}

async fn ask(client: &Client, url: &str, query: &str, at: Option<f64>) -> Result<Data, String> {
    let failed = |error: reqwest::Error| {
        if error.is_timeout() {
            format!("no whole answer within {QUERY_TIME_MAX:?}")
        } else {
            root_cause(&error)
        }
    };
    let mut address = format!("{url}/api/v1/query?query={}", escaped(query));
    if let Some(at) = at {
        address += &format!("&time={at}");
    }
    let mut answer = client.get(address).send().await.map_err(failed)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!(
                "its answer is larger than {ANSWER_BYTES_MAX} bytes"
            ));
        }
        body.extend_from_slice(&chunk);
    }
    match serde_json::from_slice(&body) {
        Ok(Answer::Success { data }) => Ok(data),
        Ok(Answer::Error { error }) => Err(shown(&error)),
        Err(_) if !status.is_success() => Err(format!("it answers {status}")),
        Err(error) => Err(format!("this is no answer of Prometheus: {error}")),
    }
}

fn shown(text: &str) -> String {
    let text: String = text.chars().take(ERROR_CHARS_MAX).collect();
    text.escape_debug().to_string()
}

/// A text as part of a query string.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
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
        assert_eq!(
            escaped("a{b=\"c\"} == 1"),
            "a%7Bb%3D%22c%22%7D%20%3D%3D%201"
        );
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
