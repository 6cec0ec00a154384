//! The dashboards of `deploy/grafana`. No Grafana is at hand: they are held against the shape that
//! Grafana reads, against Prometheus' own parser, and against real scrapes and real spans.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use self::shape::{Dashboard, Panel, Target};

mod expressions;
mod links;
mod scene;
mod shape;
mod stands;
mod trace_queries;

/// A dashboard, and its text.
struct Board {
    file: String,
    text: String,
    dashboard: Dashboard,
}

/// What Grafana itself fills in.
const BUILT_IN: [&str; 9] = [
    "__all",
    "__from",
    "__to",
    "__rate_interval",
    "__url_time_range",
    "__value",
    "__data",
    "__field",
    "__series",
];

fn boards() -> Vec<Board> {
    let files = fs::read_dir(folder()).expect("the dashboards are there");
    let files = files.map(|entry| entry.expect("the folder can be read").path());
    let mut boards: Vec<_> = files.map(|path| Board::read(&path)).collect();
    boards.sort_by(|one, other| one.file.cmp(&other.file));
    assert_eq!(boards.len(), 4, "one for each question");
    boards
}

impl Board {
    fn read(path: &Path) -> Self {
        let file = path.file_name().expect("it is a file").to_string_lossy();
        let text = fs::read_to_string(path).expect("it can be read");
        let dashboard =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        Self {
            file: file.into_owned(),
            text,
            dashboard,
        }
    }

    /// Panels that show something.
    fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.dashboard.panels.iter().filter(|panel| !panel.is_row())
    }

    /// The expressions, with where each stands and how its series are called.
    fn expressions(&self) -> impl Iterator<Item = Expression<'_>> {
        let of_panels = self.panels().flat_map(move |panel| {
            let targets = panel.targets.iter();
            targets.filter_map(move |target| match target {
                Target::Prometheus {
                    expr,
                    legend_format,
                    ..
                } => Some(Expression {
                    place: format!("{}: {}", self.file, panel.title),
                    text: expr,
                    legend: legend_format.as_deref().unwrap_or_default(),
                }),
                Target::Tempo { .. } => None,
            })
        });
        let annotations = self.dashboard.annotations.list.iter();
        of_panels.chain(annotations.map(move |annotation| Expression {
            place: format!("{}: annotation {}", self.file, annotation.name),
            text: &annotation.expr,
            legend: "",
        }))
    }
}

struct Expression<'a> {
    place: String,
    text: &'a str,
    legend: &'a str,
}

/// The variables that a text uses, without what Grafana has of its own.
fn used(text: &str) -> BTreeSet<String> {
    let variable = Regex::new(r"\$(?:\{(\w+)|(\w+))").expect("a valid expression");
    let names = variable.captures_iter(text).filter_map(|found| {
        let name = found.get(1).or(found.get(2))?.as_str();
        (!BUILT_IN.contains(&name)).then(|| name.to_owned())
    });
    names.collect()
}

/// The text with these values for its variables; each of them must have one.
fn filled(text: &str, values: &BTreeMap<&str, &str>) -> String {
    let variable = Regex::new(r"\$(?:\{([\w.]+)(?::\w+)?\}|(\w+))").expect("a valid expression");
    let value = |found: &regex::Captures<'_>| {
        let name = found.get(1).or(found.get(2)).expect("one of the two");
        let value = values.get(name.as_str());
        (*value.unwrap_or_else(|| panic!("no value for {} in {text}", name.as_str()))).to_owned()
    };
    variable.replace_all(text, value).into_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana/dashboards")
}
