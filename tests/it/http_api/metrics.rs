//! `/metrics` as a scraper reads it.

#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// What a scraper understands of one exposition.
#[derive(Debug)]
struct Exposition {
    /// Families by name, with their type.
    families: BTreeMap<String, String>,
    /// Values by series, as written.
    series: BTreeMap<String, f64>,
}

#[test]
fn a_scrape_is_valid_openmetrics() {
    let (_state, tidegate) = Tidegate::start_drained();
    let answer = tidegate.get("/metrics");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some(kind))
    );
    let exposition = Exposition::read(&answer.text());
    for (family, kind) in [
        ("tidegate_agent_answers", "counter"),
        ("tidegate_agent_silent", "counter"),
        ("tidegate_agent_accept_errors", "counter"),
        ("tidegate_agent_connections", "gauge"),
        ("tidegate_source_reads", "counter"),
        ("tidegate_authority", "gauge"),
        ("tidegate_listing_index", "gauge"),
        ("tidegate_directives", "gauge"),
        ("tidegate_problems", "gauge"),
    ] {
        let found = exposition.families.get(family).map(String::as_str);
        assert_eq!(found, Some(kind), "{family}");
    }
    assert_eq!(
        exposition.sum("tidegate_authority{"),
        1.0,
        "one authority at a time"
    );
}

#[test]
fn counters_move_with_the_polls() {
    let (_state, tidegate) = Tidegate::start_drained();
    let scrape = || Exposition::read(&tidegate.get("/metrics").text());
    let before = scrape();
    for (line, times) in [
        ("web/any", 3),
        ("web/any canary", 2),
        ("web/any mode=shadow", 1),
        ("web/any misspelt", 4),
        ("web", 5),
    ] {
        (0..times).for_each(|_| drop(tidegate.ask(format!("{line}\n"))));
    }
    // An answer is counted after it was sent.
    let answered = |shown: &Exposition| shown.sum("tidegate_agent_answers_total{");
    let after = eventually("all fifteen are counted", PATIENCE, || {
        let after = scrape();
        let grown = answered(&after) - answered(&before);
        check(grown >= 15.0, || grown.to_string()).map(|()| after)
    });
    let grown = |series: &str| after.series[series] - before.series[series];
    for (answer, times) in [
        ("ready", 3.0),
        ("drain", 2.0),
        ("maint", 0.0),
        ("shadow", 1.0),
        ("unknown_group", 4.0),
        ("unknown_directive", 0.0),
        ("unknown_request", 5.0),
    ] {
        let series = format!("tidegate_agent_answers_total{{answer=\"{answer}\"}}");
        assert_eq!(grown(&series), times, "{series}");
    }
    assert_eq!(after.sum("tidegate_agent_silent_total{"), 0.0);
    // Names that came over the wire are no labels: any client could make series without end.
    assert!(after.series.keys().all(|series| !series.contains("web")));
    assert_eq!(after.series.len(), before.series.len());
}

impl Exposition {
    /// Reads the OpenMetrics text format, strictly: one block per family, suffixes by type, no
    /// series twice, `# EOF` last.
    fn read(text: &str) -> Self {
        let body = text
            .strip_suffix("# EOF\n")
            .expect("a scrape ends with # EOF");
        let mut exposition = Self {
            families: BTreeMap::new(),
            series: BTreeMap::new(),
        };
        let mut family = String::new();
        let mut helped = BTreeSet::new();
        for line in body.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", name, _, ..] => assert!(helped.insert(name), "help twice: {line}"),
                ["#", "TYPE", name, kind] => {
                    name.clone_into(&mut family);
                    let known = exposition.families.insert(family.clone(), kind.to_owned());
                    assert_eq!(known, None, "a family in two places: {line}");
                }
                [series, value] => exposition.sample(&family, series, value),
                _ => panic!("no line of OpenMetrics: {line:?}"),
            }
        }
        assert_eq!(
            helped.len(),
            exposition.families.len(),
            "a family without help"
        );
        exposition
    }

    fn sample(&mut self, family: &str, series: &str, value: &str) {
        let name = series.split('{').next().unwrap_or_default();
        let suffix = match self.families[family].as_str() {
            "counter" => "_total",
            "gauge" => "",
            other => panic!("{family}: a type that nobody expects here: {other}"),
        };
        assert_eq!(
            name,
            format!("{family}{suffix}"),
            "a sample outside its family"
        );
        let value: f64 = value
            .parse()
            .unwrap_or_else(|_| panic!("{series}: {value:?}"));
        assert!(value >= 0.0, "{series} {value}");
        let known = self.series.insert(series.to_owned(), value);
        assert_eq!(known, None, "{series} is there twice");
    }

    fn sum(&self, begins: &str) -> f64 {
        let matching = self
            .series
            .iter()
            .filter(|(series, _)| series.starts_with(begins));
        matching.map(|(_, value)| value).sum()
    }
}
