//! The queries for traces, over the spans of a real change.

use super::links::{links, trace_query};
use super::*;
use crate::harness::collector::{Collector, Sent};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, eventually};

/// The part of `TraceQL` that the dashboards use: conditions of a span, and perhaps of its parent;
/// which attributes to show.
#[derive(Debug)]
struct Query {
    parent: Option<Vec<Condition>>,
    span: Vec<Condition>,
    shown: Vec<String>,
}

#[derive(Debug)]
struct Condition {
    field: String,
    fits: Regex,
}

#[test]
fn each_query_for_traces_finds_what_a_real_change_left() {
    let collector = Collector::start();
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let kv = state.kv();
    let mut replica = Tidegate::launch(&["--kv", &kv], &collector.environment());
    replica.await_ready();
    let line = "web/gke-cny-web canary node=lb-1";
    assert_eq!(replica.ask_line(line), "up drain");
    let ramp = "by=weight,steps=5,50,every=1h";
    let ramp = [
        "canary", "--env", "gprd", "--kv", &kv, "--ready", "--ramp", ramp, "--reason", "tried",
    ];
    let output = tidegate(&ramp, &collector.environment());
    assert_eq!(output.code, Some(0), "{output:?}");
    replica.await_answer(line, "up ready 5%", PATIENCE);
    for name in ["authority.change", "ramp.start"] {
        collector.await_named(name, 1, PATIENCE);
    }
    let command = &collector.await_named("tidegate canary", 1, PATIENCE)[0];
    let change = crate::operators::id(&output.stdout);
    let generation = command.attribute("generation");
    // A folder may be read between two files of a change: then that is delivered first.
    let delivered = eventually("the whole change is delivered", PATIENCE, || {
        let all = collector.named("delivered");
        let of_change = all
            .iter()
            .find(|it| it.attribute("generation") == generation);
        of_change.cloned().ok_or_else(|| format!("{all:#?}"))
    });
    let gen_alone = generation.split('.').next_back().expect("epoch.gen");
    let index = delivered.attribute("index");

    let mut count = 0;
    for board in &boards() {
        for (place, query) in queries(board) {
            count += 1;
            // What a click hands over depends on the panel.
            let found = [gen_alone, &index].iter().any(|clicked| {
                let values = [
                    ("env", "gprd"),
                    ("change", &change),
                    ("generation", &generation),
                    ("__value.raw", clicked),
                ];
                Query::parse(&filled(&query, &values.into())).finds(&collector.all())
            });
            assert!(found, "{place}: {query}\n{:#?}", collector.all());
        }
    }
    assert!(count > 20, "{count} are not all");
}

/// The queries of panels and of links to Explore, and where they stand.
fn queries(board: &Board) -> Vec<(String, String)> {
    let of_panels = board.panels().flat_map(|panel| {
        let targets = panel.targets.iter();
        targets.filter_map(move |target| match target {
            Target::Tempo { query, .. } => Some((&panel.title, query.clone())),
            Target::Prometheus { .. } => None,
        })
    });
    let of_links = links(board);
    let of_links = of_links.filter_map(|(panel, link)| Some((&panel.title, trace_query(link)?)));
    let all = of_panels.chain(of_links);
    all.map(|(title, query)| (format!("{}: {title}", board.file), query))
        .collect()
}

impl Query {
    fn parse(text: &str) -> Self {
        let form = Regex::new(r"^\{ ([^}]+) \}(?: > \{ ([^}]+) \})?(?: \| select\(([^)]+)\))?$");
        let form = form.expect("a valid expression");
        let found = form.captures(text);
        let found = found.unwrap_or_else(|| panic!("no query that is known here: {text}"));
        let conditions = |at: usize| {
            let part = found.get(at)?.as_str().split(" && ");
            Some(part.map(Condition::parse).collect::<Vec<_>>())
        };
        let first = conditions(1).expect("it is not optional");
        let (parent, span) = match conditions(2) {
            Some(second) => (Some(first), second),
            None => (None, first),
        };
        let shown = found.get(3).map_or("", |shown| shown.as_str());
        let shown = shown.split(", ").filter(|field| !field.is_empty());
        Self {
            parent,
            span,
            shown: shown.map(str::to_owned).collect(),
        }
    }

    /// Whether some span is found, and each attribute that is to be shown is one of such a span.
    fn finds(&self, all: &[Sent]) -> bool {
        let fits =
            |conditions: &[Condition], sent: &Sent| conditions.iter().all(|one| one.fits(sent));
        let below = |sent: &Sent| {
            self.parent.as_ref().is_none_or(|parent| {
                let same = |other: &&Sent| {
                    other.span.trace_id == sent.span.trace_id
                        && other.span.span_id == sent.span.parent_span_id
                };
                all.iter().filter(same).any(|other| fits(parent, other))
            })
        };
        let found = all
            .iter()
            .filter(|sent| fits(&self.span, sent) && below(sent));
        let found: Vec<_> = found.collect();
        let is_there = |field: &String| found.iter().any(|sent| value(sent, field).is_some());
        !found.is_empty() && self.shown.iter().all(is_there)
    }
}

impl Condition {
    fn parse(text: &str) -> Self {
        let form = Regex::new("^(\\S+) (=|=~) `([^`]*)`$").expect("a valid expression");
        let found = form.captures(text);
        let found = found.unwrap_or_else(|| panic!("no condition that is known here: {text}"));
        let value = match &found[2] {
            "=" => regex::escape(&found[3]),
            _ => found[3].to_owned(),
        };
        Self {
            field: found[1].to_owned(),
            fits: Regex::new(&format!("^(?:{value})$")).expect("a valid expression"),
        }
    }

    fn fits(&self, sent: &Sent) -> bool {
        value(sent, &self.field).is_some_and(|value| self.fits.is_match(&value))
    }
}

/// The value of `name`, `span.<attribute>` or `resource.<attribute>`.
fn value(sent: &Sent, field: &str) -> Option<String> {
    let text = match field.split_once('.') {
        None if field == "name" => sent.span.name.clone(),
        Some(("span", key)) => sent.attribute(key),
        Some(("resource", key)) => sent.resource(key),
        _ => panic!("no field that is known here: {field}"),
    };
    (!text.is_empty()).then_some(text)
}
