//! A real Prometheus scrapes three replicas over Consul and two HAProxy nodes, with the rules as they
//! are rolled out, but for their times: each fault raises its alerts and no other, and they end with
//! it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use regex::Regex;

use crate::alerts::rules;
use crate::harness::consul::Consul;
use crate::harness::delay::Delay;
use crate::harness::haproxy::Version;
use crate::harness::prometheus::Prometheus;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{check, eventually, throughout};
use crate::read_paths::Node;

/// A node is silent after five seconds; then a scrape tells the replicas to ask each other, and the
/// next one shows it.
const NOTICED: Duration = Duration::from_mins(1);
/// Longer than any time of the shortened rules: what would flap has done so by then.
const STEADY: Duration = Duration::from_secs(6);
/// Longer than a read of Consul may take.
const NEVER: Duration = Duration::from_secs(10);

/// Two rows of each node ask, both of the canary; `gke-b` is not enrolled.
const SETTINGS: &str = r#"{"rows":[
    {"server":"web/gke-cny-web","groups":["canary"]},
    {"server":"canary_web/gke-cny-web","groups":["canary"]}]}"#;

/// Everything runs until this is dropped.
struct Scene {
    prometheus: Prometheus,
    nodes: [Node; 2],
    replicas: Replicas,
    /// The way of replica b to Consul.
    way: Delay,
    consul: Consul,
}

impl Scene {
    fn start() -> Self {
        let consul = Consul::dev();
        for (key, value) in [
            ("_meta", META),
            ("canary-state", "ready"),
            ("settings", SETTINGS),
        ] {
            consul.kv_put(&format!("frontend/gprd/{key}"), value);
        }
        let arguments = ["--kv", "consul", "--poll-interval", "1s"];
        let mut replicas = Replicas::start(3, &arguments, &consul_environment(&consul));
        let way = Delay::before(consul.http());
        let b = &mut replicas.all[1];
        b.kill();
        b.set_variable("CONSUL_HTTP_ADDR", &way.url());
        b.start_again();
        let agents = [replicas.all[0].agent(), replicas.all[2].agent()];
        let nodes = [
            Node::start("lb-1", Version::V26, Some(agents[0])),
            Node::start("lb-2", Version::V28, Some(agents[1])),
        ];
        let prometheus = Prometheus::launch("1s", &shortened(), &targets(&replicas, &nodes));
        let scene = Self {
            prometheus,
            nodes,
            replicas,
            way,
            consul,
        };
        scene.await_all_seen();
        scene
    }

    /// All three replicas know both nodes, and Prometheus knows what each of the four rows is and is
    /// meant to be: without that, no alert would prove anything.
    fn await_all_seen(&self) {
        for (query, count) in [
            ("tidegate_fleet_merged_nodes == 2", 3),
            ("tidegate:desired_row", 2),
            (
                r#"tidegate:haproxy_server{metric="status",server="gke-cny-web"}"#,
                4,
            ),
        ] {
            eventually(query, NOTICED, || {
                let text = self.prometheus.query(query)?;
                check(text.matches(r#""metric":{"#).count() == count, || {
                    text.clone()
                })
            });
        }
    }

    /// Waits until just these alerts fire.
    fn await_firing(&self, expected: &[&str]) {
        let expected: BTreeSet<_> = expected.iter().map(|&name| name.to_owned()).collect();
        eventually(&format!("{expected:?} fire"), NOTICED, || {
            let firing = self.prometheus.firing()?;
            check(firing == expected, || format!("{firing:?}"))
        });
    }

    /// Nothing fires, and stays so.
    fn await_quiet(&self) {
        self.await_firing(&[]);
        throughout("nothing fires", STEADY, || {
            let firing = self.prometheus.firing()?;
            check(firing.is_empty(), || format!("{firing:?}"))
        });
    }
}

/// The rules with every `for` and every range of seconds only; nothing else is changed.
fn shortened() -> String {
    let rules = rules();
    let waits = Regex::new(r"(?m)^( +for): \d+[mh]$").expect("a constant pattern");
    let ranges = Regex::new(r"\[\d+m\]").expect("a constant pattern");
    assert!(waits.find_iter(&rules).count() > 15 && ranges.is_match(&rules));
    let rules = waits.replace_all(&rules, "$1: 2s");
    ranges.replace_all(&rules, "[5s]").into_owned()
}

fn targets(replicas: &Replicas, nodes: &[Node; 2]) -> String {
    let addresses = replicas.all.iter().map(Tidegate::http);
    let list = addresses.map(|address: SocketAddr| format!("'{address}'"));
    let list = list.collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "- job_name: tidegate\n  static_configs: [{{targets: [{list}], labels: {{env: gprd}}}}]\n\
         - job_name: haproxy\n  static_configs:\n"
    );
    for node in nodes {
        let (name, exporter) = (node.haproxy.name(), node.exporter);
        let labels = format!("{{fqdn: {name}.example.org, env: gprd}}");
        text += &format!("  - {{targets: ['{exporter}'], labels: {labels}}}\n");
    }
    text
}

#[test]
fn the_alerts_of_each_fault_fire_and_end_with_it() {
    let mut scene = Scene::start();
    scene.await_quiet();

    let broken = "frontend/gprd/server-overrides/web/gke-cny-web";
    scene.consul.kv_put(broken, "reddy");
    scene.await_firing(&["TidegateProblemEntries kind=directive"]);
    scene.consul.kv_delete(broken);
    scene.await_quiet();

    let lb_1 = &scene.nodes[0].haproxy;
    lb_1.stats("disable agent web/gke-cny-web");
    scene.await_firing(&["TidegateRowSilent"]);
    lb_1.stats("set server web/gke-cny-web state drain");
    let disobeys = "TidegateHaproxyDoesNotFollow desired=ready metric=status node=lb-1 proxy=web \
                    server=gke-cny-web state=DRAIN";
    scene.await_firing(&["TidegateRowSilent", disobeys]);
    lb_1.stats("enable agent web/gke-cny-web");
    scene.await_quiet();

    // By hand, of what is not followed by polls alone: the weight.
    lb_1.stats("disable agent canary_web/gke-cny-web");
    lb_1.stats("set weight canary_web/gke-cny-web 30%");
    let weight =
        "TidegateHaproxyWeight metric=weight node=lb-1 proxy=canary_web server=gke-cny-web";
    scene.await_firing(&["TidegateRowSilent", weight]);
    lb_1.stats("enable agent canary_web/gke-cny-web");
    scene.await_quiet();

    scene.nodes[1].haproxy.stop();
    scene.await_firing(&["TidegateNodeSilent"]);
    scene.nodes[1].haproxy.start_again();
    scene.await_quiet();

    let b = scene.replicas.all[1].http();
    scene.way.set(NEVER);
    let relayed = format!("TidegateReplicaNotCurrent authority=relayed instance={b}");
    scene.await_firing(&[&relayed]);
    scene.way.set(Duration::ZERO);
    scene.await_quiet();

    scene.replicas.all[1].kill();
    let down = format!("TidegateReplicaDown instance={b}");
    scene.await_firing(&[&down, "TidegateReplicaMissing"]);
    scene.replicas.all[1].start_again();
    scene.await_quiet();
}
