//! What is wrong with files for agent checks.
//!
//! A condition that cannot be judged here is supposed either way, and the files are judged for
//! each; a finding of some of them says of which.

use std::collections::{BTreeMap, BTreeSet};

use super::condition::Suppositions;
use super::configuration::Configuration;
use super::reading::{File, Reading, Setting, Unknown};
use super::version::Version;

pub use self::report::{Allowed, Counts, Finding, Report};
pub use self::rules::{ALL, Rule, Severity};
pub use self::running::{Running, RunningServer};
pub use self::scene::{OneBackend, Row, Scene};
pub(super) use self::start::WINDOW_MS_MAX;

mod agent;
mod allow;
mod report;
pub(in crate::domain::haproxy) mod rules;
mod running;
mod scene;
mod send;
mod start;
mod traffic;
mod weight;

/// The most ways in which files are read: four conditions that cannot be judged.
pub const READINGS_MAX: usize = 16;

/// What is known beside the files. `None`: nobody was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// HAProxy's version.
    pub version: Option<Version>,
    /// What a running HAProxy has.
    pub running: Option<Running>,
    /// The servers, as `backend/server`, that poll for this node.
    pub polling: Option<BTreeSet<String>>,
}

/// Files, read in every way that conditions allow.
#[derive(Debug)]
pub struct Readings<'a> {
    /// Each way, with its sections; never empty.
    pub all: Vec<(Reading<'a>, Configuration)>,
}

/// Why files cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {READINGS_MAX} ways to read the files; tell --haproxy-version, or look at fewer \
     files. Conditions that cannot be judged: {0}"
)]
pub struct TooManyReadings(String);

impl<'a> Readings<'a> {
    /// Reads the files.
    ///
    /// # Errors
    /// Too many conditions that cannot be judged.
    pub fn of(files: &'a [File], setting: &Setting) -> Result<Self, TooManyReadings> {
        let mut all = Vec::new();
        let mut open = vec![setting.supposed.clone()];
        let mut unknown = BTreeSet::new();
        while let Some(supposed) = open.pop() {
            if all.len() + open.len() >= READINGS_MAX {
                let unknown: Vec<_> = unknown.into_iter().collect();
                return Err(TooManyReadings(unknown.join(", ")));
            }
            let setting = Setting {
                supposed,
                ..setting.clone()
            };
            match Reading::of(files, &setting) {
                Ok(reading) => {
                    let configuration = Configuration::of(&reading);
                    all.push((reading, configuration));
                }
                Err(Unknown(question)) => {
                    for answer in [false, true] {
                        let mut supposed = setting.supposed.clone();
                        supposed.insert(question.clone(), answer);
                        open.push(supposed);
                    }
                    unknown.insert(question);
                }
            }
        }
        Ok(Self { all })
    }

    /// Judges them.
    #[must_use]
    pub fn judge(&self, evidence: &Evidence) -> Report {
        let mut found: BTreeMap<(usize, &'static str, String), Place<'_>> = BTreeMap::new();
        let mut counts = Counts::default();
        for (reading, configuration) in &self.all {
            let scene = Scene::new(reading, configuration, evidence);
            counts = counts.most(scene.counts());
            for Found {
                rule,
                line,
                message,
            } in findings(&scene).0
            {
                let key = (line, rule.id, message);
                let place = found.entry(key).or_insert_with(|| Place {
                    rule,
                    of: Vec::new(),
                });
                place.of.push(&reading.supposed);
            }
        }
        let (reading, _) = self.all.first().expect("at least one way to read them");
        let allowances = allow::Allowances::of(reading);
        let findings = found.into_iter().map(|((line, _, message), place)| Raised {
            rule: place.rule,
            line,
            message,
            only_if: if place.of.len() == self.all.len() {
                Vec::new()
            } else {
                common(&place.of)
            },
        });
        Report::new(reading, &allowances, findings.collect(), counts)
    }
}

/// A rule that was found, and in which readings.
struct Place<'a> {
    rule: &'static Rule,
    of: Vec<&'a Suppositions>,
}

/// A finding, before it is known whether it is allowed.
struct Raised {
    rule: &'static Rule,
    line: usize,
    message: String,
    only_if: Vec<String>,
}

/// A finding of one reading.
struct Found {
    rule: &'static Rule,
    line: usize,
    message: String,
}

/// The findings of one reading.
#[derive(Default)]
struct Findings(Vec<Found>);

impl Findings {
    fn add(&mut self, rule: &'static Rule, line: usize, message: impl Into<String>) {
        let message = message.into();
        self.0.push(Found {
            rule,
            line,
            message,
        });
    }
}

fn findings(scene: &Scene<'_>) -> Findings {
    let mut found = Findings::default();
    let faults = scene
        .reading
        .faults
        .iter()
        .chain(&scene.configuration.faults);
    for fault in faults {
        let at = fault
            .column
            .map_or_else(String::new, |at| format!(" (byte {})", at + 1));
        found.add(&rules::SYNTAX, fault.line, format!("{}{at}", fault.what));
    }
    // What such a file means nobody knows.
    if !found.0.is_empty() {
        return found;
    }
    for judge in [
        send::judge,
        agent::judge,
        weight::judge,
        start::judge,
        traffic::judge,
        running::judge,
    ] {
        judge(scene, &mut found);
    }
    found
}

/// What all of them suppose.
fn common(of: &[&Suppositions]) -> Vec<String> {
    let Some((first, others)) = of.split_first() else {
        return Vec::new();
    };
    let of_all = first.iter().filter(|(question, answer)| {
        others
            .iter()
            .all(|other| other.get(*question) == Some(answer))
    });
    let shown = |(question, answer): (&String, &bool)| match answer {
        true => question.clone(),
        false => format!("!{question}"),
    };
    let shown: Vec<_> = of_all.map(shown).collect();
    if shown.is_empty() {
        vec!["some conditions".to_owned()]
    } else {
        shown
    }
}

#[cfg(test)]
mod tests;
