//! The expressions: `PromQL` by Prometheus' own tool, over series and labels that there are.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::scene::Scene;
use super::*;
use crate::harness::folder::Folder;
use crate::harness::process::run;
use crate::harness::prometheus::TARGET_LABELS;
use crate::harness::tools::tool;
use crate::harness::wait::{PATIENCE, check, eventually};

/// What Grafana puts in. The rate is over many scrapes of the test's Prometheus.
const VALUES: [(&str, &str); 4] = [
    ("env", "gprd"),
    ("replica", ".*"),
    ("server", ".*"),
    ("__rate_interval", "3s"),
];
/// How long the first expressions have to wait for rates.
const SETTLED: Duration = Duration::from_secs(20);

#[test]
fn each_expression_is_one_for_promtool() {
    let boards = boards();
    let mut rules = "groups:\n- name: dashboards\n  rules:\n".to_owned();
    let mut count = 0;
    for expression in boards.iter().flat_map(Board::expressions) {
        count += 1;
        let text = serde_json::to_string(&expression.filled()).expect("a text");
        writeln!(rules, "  - record: expression:{count}\n    expr: {text}")
            .expect("a string takes every byte");
    }
    assert!(count > 70, "{count} are not all");
    let folder = Folder::new("dashboards");
    folder.write("rules.yml", &rules);
    let mut command = Command::new(tool("promtool"));
    command
        .args(["check", "rules"])
        .arg(folder.join("rules.yml"));
    let output = run("promtool", &command, PATIENCE);
    let shown = format!("{}{}\n{rules}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(0), "{shown}");
    assert!(shown.contains(&format!("{count} rules found")), "{shown}");
}

#[test]
fn each_expression_has_numbers_of_a_real_fleet_and_only_labels_that_there_are() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/tidegate.rules.yml");
    let scene = Scene::start(&fs::read_to_string(rules).expect("the rules are there"));
    scene.change();
    let boards = boards();
    for expression in boards.iter().flat_map(Board::expressions) {
        let text = expression.filled();
        eventually(&expression.place, SETTLED, || {
            let answer = scene.prometheus.query(&text)?;
            let series = numbers(&answer).ok_or_else(|| format!("{text}\n{answer}"))?;
            expression.check_legend(&series)
        });
    }
    let known = Labels::of(&scene.scrapes());
    for expression in boards.iter().flat_map(Board::expressions) {
        known.check(&expression);
    }
}

impl Expression<'_> {
    fn filled(&self) -> String {
        filled(self.text, &VALUES.into())
    }

    /// Whether each label of the legend is one of some series.
    fn check_legend(&self, series: &[BTreeSet<String>]) -> Result<(), String> {
        let label = Regex::new(r"\{\{(\w+)\}\}").expect("a valid expression");
        label.captures_iter(self.legend).try_for_each(|found| {
            let known = series.iter().any(|labels| labels.contains(&found[1]));
            check(known, || format!("no series has {}", &found[1]))
        })
    }
}

/// The labels of each series of an answer; `None` when there is none, or one is no number.
fn numbers(answer: &str) -> Option<Vec<BTreeSet<String>>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let series = answer["data"]["result"].as_array()?;
    let is_number = |one: &Value| one["value"][1].as_str().is_some_and(|value| value != "NaN");
    let labels = |one: &Value| {
        let labels = one["metric"].as_object()?;
        is_number(one).then(|| labels.keys().cloned().collect())
    };
    let series: Option<Vec<_>> = series.iter().map(labels).collect();
    series.filter(|series| !series.is_empty())
}

/// The labels of each metric.
struct Labels(BTreeMap<String, BTreeSet<String>>);

impl Labels {
    fn of(scrapes: &str) -> Self {
        let sample = Regex::new(r"(?m)^(\w+)(?:\{(.*)\})? ").expect("a valid expression");
        let label = Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).expect("a valid expression");
        let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for found in sample.captures_iter(scrapes) {
            let labels = found.get(2).map_or("", |labels| labels.as_str());
            let labels = label.captures_iter(labels).map(|one| one[1].to_owned());
            let known = all.entry(found[1].to_owned()).or_default();
            known.extend(labels.chain(TARGET_LABELS.map(str::to_owned)));
        }
        // Prometheus' own, of the rules that fire.
        let alerts = ["alertname", "alertstate", "severity", "env"];
        all.insert("ALERTS".to_owned(), alerts.map(str::to_owned).into());
        Self(all)
    }

    /// Each metric of an expression is there, with the labels that it is chosen by; and each label
    /// that is grouped or joined by is one of some metric of it.
    fn check(&self, expression: &Expression<'_>) {
        let metric = Regex::new(r"\b((?:tidegate|haproxy|process)_\w+|ALERTS)\b(?:\{([^}]*)\})?");
        let chosen = Regex::new(r#"(\w+)\s*(?:=~|!~|!=|=)\s*""#).expect("a valid expression");
        let grouped =
            Regex::new(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)");
        let place = &expression.place;
        let mut labels = BTreeSet::new();
        let metric = metric.expect("a valid expression");
        for found in metric.captures_iter(expression.text) {
            let known = self.0.get(&found[1]);
            let known = known.unwrap_or_else(|| panic!("{place}: no metric {}", &found[1]));
            let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
            for label in chosen.captures_iter(matchers) {
                assert!(
                    known.contains(&label[1]),
                    "{place}: {} has no {}",
                    &found[1],
                    &label[1]
                );
            }
            labels.extend(known);
        }
        assert!(!labels.is_empty(), "{place}: no metric");
        let grouped = grouped.expect("a valid expression");
        for found in grouped.captures_iter(expression.text) {
            let names = found[1].split(',').map(str::trim);
            for name in names.filter(|name| !name.is_empty()) {
                assert!(
                    labels.contains(&name.to_owned()),
                    "{place}: no metric of it has {name}"
                );
            }
        }
    }
}
