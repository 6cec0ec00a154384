//! The unit tests of the rules, run by Prometheus' own tool, and that every alert has one.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use super::folder;
use super::runbook::alerts;
use crate::harness::process::run;
use crate::harness::tools::tool;

/// Each takes some seconds of a processor, and a loaded machine gives it a part of one.
const PROMTOOL_MAX: Duration = Duration::from_mins(2);
/// Those of days are evaluated each hour.
const TESTS: [&str; 2] = ["tidegate.rules.test.yml", "tidegate.rules.week.test.yml"];

/// When an alert is looked at in one test, and whether it is quiet.
type Looks = Vec<(Duration, bool)>;

#[test]
fn the_rules_are_valid_and_fire_when_they_should() {
    promtool(&["check", "rules", "tidegate.rules.yml"]);
    promtool(&["test", "rules", TESTS[0]]);
}

#[test]
fn what_takes_a_week_fires_after_it() {
    promtool(&["test", "rules", TESTS[1]]);
}

#[test]
fn every_alert_is_tested_quiet_just_before_firing_and_quiet_again() {
    let mut tested = Vec::new();
    for file in TESTS {
        let text = fs::read_to_string(folder().join(file)).expect("the tests are there");
        let step = value(&text, "evaluation_interval:").expect("each file says how often");
        for test in text.split("\n  - name: ").skip(1) {
            let complete = looks(test)
                .into_iter()
                .filter(|(_, looks)| is_whole(looks, step));
            tested.extend(complete.map(|(alert, _)| alert));
        }
    }
    let known: Vec<_> = alerts().into_iter().map(|alert| alert.name).collect();
    let untested: Vec<_> = known.iter().filter(|name| !tested.contains(name)).collect();
    assert!(untested.is_empty(), "not tested as a whole: {untested:?}");
    let unknown: Vec<_> = tested.iter().filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "no such alerts: {unknown:?}");
}

/// Quiet one evaluation before it first fires, and quiet at the end.
fn is_whole(looks: &Looks, step: Duration) -> bool {
    let firing = looks.iter().filter(|(_, quiet)| !quiet).map(|(at, _)| *at);
    let Some(first) = firing.clone().min() else {
        return false;
    };
    let before = looks
        .iter()
        .any(|(at, quiet)| *quiet && *at + step == first);
    let after = looks
        .iter()
        .any(|(at, quiet)| *quiet && firing.clone().all(|fired| fired < *at));
    before && after
}

/// The looks of one test, by alert.
fn looks(test: &str) -> BTreeMap<String, Looks> {
    let mut looks = BTreeMap::<_, Looks>::new();
    for entry in test.split("- eval_time:").skip(1) {
        let at = humantime::parse_duration(entry.lines().next().unwrap_or_default().trim());
        let at = at.unwrap_or_else(|error| panic!("eval_time: {error}: {entry}"));
        let name = entry.split_once("alertname: ").map_or("", |(_, rest)| rest);
        let name = name.lines().next().unwrap_or_default().to_owned();
        looks
            .entry(name)
            .or_default()
            .push((at, entry.contains("exp_alerts: []")));
    }
    looks
}

fn value(text: &str, key: &str) -> Option<Duration> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    humantime::parse_duration(value.trim()).ok()
}

fn promtool(arguments: &[&str]) {
    let mut command = Command::new(tool("promtool"));
    command.args(arguments).current_dir(folder());
    let output = run("promtool", &command, PROMTOOL_MAX);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
}
