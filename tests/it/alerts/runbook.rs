//! Every alert says what it is and leads to its section of the runbook, and the runbook names no
//! alert, state or reason that is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::Value;
use tidegate::domain::authority::{AuthorityName, HeldKind};
use tidegate::domain::snapshot::ProblemKind;

use super::rules;
use crate::harness::prometheus::Prometheus;

const PAGE: &str = "docs/runbook.md";

/// An alert as Prometheus understands it.
pub(super) struct Alert {
    pub(super) name: String,
    rule: Value,
}

impl Alert {
    fn text<'a>(&'a self, kind: &str, name: &str) -> &'a str {
        self.rule[kind][name].as_str().unwrap_or_default()
    }
}

/// All alerts of the rules.
pub(super) fn alerts() -> Vec<Alert> {
    let prometheus = Prometheus::launch("1m", &rules(), "");
    let all = prometheus.rules().into_iter();
    let alert = |rule: Value| {
        let name = rule["name"].as_str().unwrap_or_default().to_owned();
        (rule["type"] == "alerting").then_some(Alert { name, rule })
    };
    let alerts: Vec<_> = all.filter_map(alert).collect();
    assert!(alerts.len() > 20, "only {} alerts", alerts.len());
    alerts
}

#[test]
fn every_alert_says_how_heavy_it_is_and_leads_to_its_section() {
    let sections = sections();
    for alert in alerts() {
        let name = &alert.name;
        let severity = alert.text("labels", "severity");
        assert!(
            ["critical", "warning", "info", "none"].contains(&severity),
            "{name}: severity {severity:?}"
        );
        // What notifies somebody waits for a second look.
        let waits = alert.rule["duration"].as_f64() > Some(0.0);
        assert!(waits || severity == "none", "{name} has no `for`");
        for annotation in ["summary", "description"] {
            assert!(
                !alert.text("annotations", annotation).is_empty(),
                "{name}: {annotation}"
            );
        }
        let expected = format!("{PAGE}#{}", name.to_lowercase());
        assert_eq!(alert.text("annotations", "runbook_url"), expected, "{name}");
        assert!(sections.contains(name), "{PAGE} has no section {name}");
    }
}

#[test]
fn the_runbook_names_only_alerts_that_there_are() {
    let alerts = alerts();
    let known: BTreeSet<_> = alerts.iter().map(|alert| alert.name.as_str()).collect();
    let name = Regex::new(r"\bTidegate[A-Z][A-Za-z]+").expect("a constant pattern");
    let page = page();
    let named: BTreeSet<_> = name.find_iter(&page).map(|found| found.as_str()).collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "{PAGE}: no such alerts: {unknown:?}");
}

#[test]
fn every_state_and_reason_of_a_replica_has_its_place_in_the_runbook() {
    let (page, sections) = (page(), sections());
    let states = AuthorityName::ALL.map(AuthorityName::as_str);
    for state in states.iter().chain(&["draining"]) {
        assert!(
            sections.contains(&format!("Replica: {state}")),
            "no section of {state}"
        );
    }
    let reasons = HeldKind::ALL.map(HeldKind::as_str);
    let kinds = ProblemKind::ALL
        .into_iter()
        .filter(|kind| *kind != ProblemKind::Overdue);
    for word in reasons.into_iter().chain(kinds.map(ProblemKind::as_str)) {
        assert!(
            page.contains(&format!("\n| `{word}` |")),
            "no line of {word}"
        );
    }
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    fs::read_to_string(path).expect("the runbook is there")
}

fn sections() -> BTreeSet<String> {
    let page = page();
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    headings.map(str::to_owned).collect()
}
