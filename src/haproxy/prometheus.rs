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

use reqwest::Client;
use serde::Deserialize;
use tokio::task::JoinSet;

use self::series::{Reader, Sample, Series};
use crate::causes::root_cause;
use crate::clock;
use crate::domain::observed::{Missing, Observation};
use crate::http_client::{self, BodyError};

mod series;

/// How long one query may take: 20,000 series take Prometheus some 100 ms.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(5);
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

impl PrometheusSource {
    /// What its series say now. What could not be seen is named in the observation.
    pub async fn observe(&self) -> Observation {
        let mut observation = self.gather().await.unwrap_or_else(|why| Observation {
            missing: vec![Missing {
                what: self.name(),
                why,
            }],
            ..Observation::default()
        });
        observation.sources.push(self.name());
        observation
    }

    fn name(&self) -> String {
        format!("prometheus {}", self.url)
    }

    async fn gather(&self) -> Result<Observation, String> {
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
        let nodes = reader.nodes()?;
        let mut gone = reader.lately();
        gone.retain(|name| !nodes.contains_key(name));
        Ok(Observation {
            nodes,
            gone,
            ..Observation::default()
        })
    }
}

/// A client for this URL. Over plain HTTP the system's authorities are not needed: an image from
/// scratch has none.
fn client(url: &str) -> Result<Client, String> {
    let builder = if url.starts_with("https:") {
        http_client::builder()
    } else {
        http_client::plain()
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
    let body = http_client::body(&mut answer, ANSWER_BYTES_MAX).await;
    let body = body.map_err(|error| match error {
        BodyError::TooLarge => format!("its answer is larger than {ANSWER_BYTES_MAX} bytes"),
        BodyError::Broken(error) => failed(error),
    })?;
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
    fn a_query_is_escaped_as_a_part_of_a_url() {
        let query = "a{b=\"c\"} == 1";
        assert_eq!(escaped(query), "a%7Bb%3D%22c%22%7D%20%3D%3D%201");
    }
}
