//! A real Prometheus that scrapes the nodes of a test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use super::consul::loopback;
use super::folder::Folder;
use super::http;
use super::ports::Port;
use super::process::Process;
use super::tools::tool;
use super::wait::{PATIENCE, check, eventually};

/// The rules that make the older naming out of HAProxy's own series, with a label that tells them
/// apart: `naming="older"`.
const OLDER_NAMING: &str = r#"
groups:
  - name: older
    interval: 500ms
    rules:
      - record: haproxy_server_up
        expr: label_replace(sum without (state, proxy) (label_replace(haproxy_server_status{state=~"UP|DRAIN"}, "backend", "$1", "proxy", "(.*)")), "naming", "older", "", "")
      - record: haproxy_backend_up
        expr: label_replace(sum without (state, proxy) (label_replace(haproxy_backend_status{state="UP"}, "backend", "$1", "proxy", "(.*)")), "naming", "older", "", "")
"#;

/// What a target's series have besides their own labels, in [`Prometheus::of_fleet`].
pub(crate) const TARGET_LABELS: [&str; 3] = ["env", "instance", "job"];

/// A Prometheus of its own folder, on a port that is its own.
pub(crate) struct Prometheus {
    process: Process,
    address: SocketAddr,
    _port: Port,
    _folder: Folder,
}

impl Prometheus {
    /// Starts it for these nodes: the name that the label `fqdn` gives each, and where its exporter
    /// is. Returns when all have been scraped.
    pub(crate) fn start(nodes: &[(&str, SocketAddr)]) -> Self {
        let mut config = "- job_name: haproxy\n  static_configs:\n".to_owned();
        for (name, exporter) in nodes {
            let labels = format!("{{fqdn: {name}, env: gprd}}");
            writeln!(config, "  - {{targets: ['{exporter}'], labels: {labels}}}")
                .expect("a string takes every byte");
        }
        let mut prometheus = Self::launch("500ms", OLDER_NAMING, &config);
        prometheus.await_scrapes(nodes.len());
        prometheus
    }

    /// One that scrapes a replica, with these rules.
    pub(crate) fn of_replica(replica: SocketAddr, rules: &str) -> Self {
        let targets = format!("[{{targets: ['{replica}']}}]");
        Self::launch(
            "100ms",
            rules,
            &format!("- job_name: tidegate\n  static_configs: {targets}\n"),
        )
    }

    /// One that scrapes replicas and the exporters of nodes, with these rules.
    pub(crate) fn of_fleet(replicas: &[SocketAddr], nodes: &[SocketAddr], rules: &str) -> Self {
        let job = |name: &str, targets: &[SocketAddr]| {
            let targets: Vec<_> = targets.iter().map(|at| format!("'{at}'")).collect();
            let targets = targets.join(", ");
            format!(
                "- job_name: {name}\n  static_configs: [{{targets: [{targets}], labels: {{env: gprd}}}}]\n"
            )
        };
        let jobs = [job("tidegate", replicas), job("haproxy", nodes)].concat();
        Self::launch("200ms", rules, &jobs)
    }

    /// One with these rules, which scrapes what these `scrape_configs` say, each `interval`.
    pub(crate) fn launch(interval: &str, rules: &str, scrape_configs: &str) -> Self {
        let (folder, port) = (Folder::new("prometheus"), Port::reserve(loopback(1)));
        let address = SocketAddr::new(loopback(1), port.number());
        folder.write("rules.yml", rules);
        let config = format!(
            "global: {{scrape_interval: {interval}, evaluation_interval: {interval}}}\n\
             rule_files: [rules.yml]\nscrape_configs:\n{scrape_configs}"
        );
        folder.write("prometheus.yml", &config);
        let mut command = Command::new(tool("prometheus"));
        command
            .arg(format!(
                "--config.file={}",
                folder.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::start("prometheus", folder.path(), &command);
        Self {
            process,
            address,
            _port: port,
            _folder: folder,
        }
    }

    /// The answer to a query, or why there is none yet.
    pub(crate) fn query(&self, text: &str) -> Result<String, String> {
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={escaped}");
        let answer = http::get(self.address, &path).map_err(|error| error.to_string())?;
        Ok(answer.text())
    }

    /// The alerts that fire and notify somebody: the name, and the labels that tell it from others
    /// of that name.
    pub(crate) fn firing(&self) -> Result<BTreeSet<String>, String> {
        let text = self.query(r#"ALERTS{alertstate="firing",severity!="none"}"#)?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let samples = answer["data"]["result"].as_array().ok_or(text)?;
        let named = samples.iter().filter_map(|sample| {
            let labels = sample["metric"].as_object()?;
            let mut name = labels["alertname"].as_str()?.to_owned();
            let common = [
                "__name__",
                "alertname",
                "alertstate",
                "severity",
                "env",
                "job",
            ];
            for (label, value) in labels.iter().filter(|(l, _)| !common.contains(&l.as_str())) {
                write!(name, " {label}={}", value.as_str()?).expect("a string takes every byte");
            }
            Some(name)
        });
        Ok(named.collect())
    }

    /// Its rules as it understands them: of `/api/v1/rules`.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let answer = eventually("prometheus has its rules", PATIENCE, || {
            let answer = http::get(self.address, "/api/v1/rules");
            let text = answer.map_err(|error| error.to_string())?.text();
            serde_json::from_str::<Value>(&text).map_err(|error| format!("{error}: {text}"))
        });
        let groups = answer["data"]["groups"].as_array().cloned();
        let groups = groups.unwrap_or_default().into_iter();
        let rules = |group: Value| group["rules"].as_array().cloned().unwrap_or_default();
        groups.flat_map(rules).collect()
    }

    /// What the setting takes.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process, for signals.
    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn await_scrapes(&mut self, count: usize) {
        // Both namings of each node: a rule is evaluated after the first scrape.
        eventually("prometheus has scraped all nodes", PATIENCE, || {
            self.process.assert_running();
            let text = self.query("count(haproxy_backend_up)by(fqdn)")?;
            check(text.matches("fqdn").count() == count, || text.clone())
        });
    }
}
