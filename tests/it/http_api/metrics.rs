//! `/metrics` as a scraper reads it.

#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::{BTreeMap, BTreeSet};

use tidegate::clock;
use tidegate::metrics::DIRECTIVES_SHOWN_MAX;

use crate::harness::state_folder::StateFolder;
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
        ("tidegate_agent_answer_seconds", "histogram"),
        ("tidegate_source_judged_seconds", "histogram"),
        ("tidegate_held", "gauge"),
        ("tidegate_listing_digest", "gauge"),
        ("tidegate_ramps", "gauge"),
        ("tidegate_replicas_in_view", "gauge"),
        ("tidegate_replica_index_spread", "gauge"),
        ("tidegate_fleet_oldest_unapplied_seconds", "gauge"),
        ("tidegate_build_info", "gauge"),
        ("process_start_time_seconds", "gauge"),
        ("process_cpu_seconds", "counter"),
        ("process_resident_memory_bytes", "gauge"),
        ("process_open_fds", "gauge"),
        ("process_max_fds", "gauge"),
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
fn what_is_desired_is_shown_as_it_counts_now() {
    let state = StateFolder::new();
    let since = clock::now();
    let ramp = format!(
        r#"{{"state":"ready","since":"{since}","ramp":{{"by":"nodes","steps":[25,50],"every":"1h"}}}}"#
    );
    for (key, value) in [
        ("canary-state", ramp.as_str()),
        ("zones/z-b/canary-state", "maint"),
        ("server-overrides/web/a", "40%"),
        ("server-overrides/web/b", "rubbish"),
        (
            "server-overrides/web/c",
            r#"{"state":"drain","until":"2020-01-01T00:00:00Z","on_expiry":"lift"}"#,
        ),
    ] {
        state.put(key, value);
    }
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let shown = Exposition::read(&tidegate.get("/metrics").text());
    let canary = r#"group="canary",zone="",node="""#;
    let in_zone = r#"group="canary",zone="z-b",node="""#;
    let row = |server: &str| format!(r#"proxy="web",server="{server}",zone="",node="""#);
    for (labels, state, percent) in [
        (("group", canary.to_owned()), "ready", Some(25.0)),
        (("group", in_zone.to_owned()), "maint", Some(0.0)),
        (("server", row("a")), "ready", Some(40.0)),
        (("server", row("b")), "unreadable", None),
    ] {
        let (what, labels) = labels;
        for word in ["ready", "drain", "maint", "unreadable"] {
            let series = format!("tidegate_desired_{what}_state{{{labels},state=\"{word}\"}}");
            let expected = f64::from(u8::from(word == state));
            assert_eq!(shown.series[&series], expected, "{series}");
        }
        let series = format!("tidegate_desired_{what}_weight_percent{{{labels}}}");
        assert_eq!(shown.series.get(&series).copied(), percent, "{series}");
    }
    let all = shown.series.keys();
    assert!(
        all.into_iter()
            .all(|series| !series.contains(r#"server="c""#))
    );
    assert_eq!(shown.series["tidegate_desired_left_out"], 0.0);
}

#[test]
fn more_directives_than_are_shown_are_counted() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    for number in 0..DIRECTIVES_SHOWN_MAX + 4 {
        state.put(
            &format!("nodes/lb-1/server-overrides/web/{number}"),
            "drain",
        );
    }
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let shown = Exposition::read(&tidegate.get("/metrics").text());
    let out = r#"state="drain"}"#;
    let shown_now = shown.series.keys().filter(|s| s.ends_with(out)).count();
    assert_eq!(shown_now, DIRECTIVES_SHOWN_MAX);
    assert_eq!(shown.series["tidegate_desired_left_out"], 5.0);
    // Those of the whole fleet come first.
    let canary = r#"tidegate_desired_group_state{group="canary",zone="",node="",state="drain"}"#;
    assert_eq!(shown.series[canary], 1.0);
}

#[test]
fn counters_move_with_the_polls() {
    let (_state, tidegate) = Tidegate::start_drained();
    let scrape = || Exposition::read(&tidegate.get("/metrics").text());
    let before = eventually("what comes with a later scrape is there", PATIENCE, || {
        let shown = scrape();
        let there = shown.series.contains_key("tidegate_fleet_merged_nodes");
        check(there, String::new).map(|()| shown)
    });
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
    assert_eq!(grown("tidegate_agent_answer_seconds_count"), 15.0);
    let quick = r#"tidegate_agent_answer_seconds_bucket{le="0.5"}"#;
    assert_eq!(grown(quick), 15.0, "each takes less than a second");
    // Names that came over the wire are no labels: any client could make series without end.
    assert!(after.series.keys().all(|series| !series.contains("web")));
    assert_eq!(after.series.len(), before.series.len());
}

#[test]
fn a_ramp_its_step_and_what_holds_are_read_at_each_scrape() {
    let (state, tidegate) = Tidegate::start_drained();
    let scrape = || Exposition::read(&tidegate.get("/metrics").text());
    let before = scrape();
    let value = |shown: &Exposition, series: &str| shown.series.get(series).copied();
    let running = r#"tidegate_ramps{pace="running"}"#;
    assert_eq!(value(&before, running), Some(0.0));
    assert_eq!(
        value(&before, r#"tidegate_ramp_step{group="canary"}"#),
        None
    );
    let since = tidegate::clock::now() - jiff::SignedDuration::from_mins(90);
    let ramp = format!(
        r#"{{"state":"ready","since":"{since}","ramp":{{"by":"nodes","steps":[5,25,50],"every":"1h"}}}}"#
    );
    state.put("canary-state", ramp);
    let shown = eventually("the ramp is shown", PATIENCE, || {
        let shown = scrape();
        check(value(&shown, running) == Some(1.0), || format!("{shown:?}")).map(|()| shown)
    });
    for (name, expected) in [("step", 2.0), ("steps", 3.0), ("step_percent", 25.0)] {
        let series = format!("tidegate_ramp_{name}{{group=\"canary\"}}");
        assert_eq!(value(&shown, &series), Some(expected), "{series}");
    }
    let next = value(
        &shown,
        r#"tidegate_ramp_next_step_timestamp_seconds{group="canary"}"#,
    );
    let next = next.expect("it goes on") - since.as_duration().as_secs_f64();
    assert!((next - 7_200.0).abs() < 1.0, "{next}");
    let digest = "tidegate_listing_digest";
    assert_ne!(shown.series[digest], before.series[digest]);

    state.remove("_meta");
    eventually("what holds is named", PATIENCE, || {
        let held = scrape().series[r#"tidegate_held{reason="sentinel"}"#];
        check(held == 1.0, || held.to_string())
    });
}

#[test]
fn a_polling_row_that_lacks_a_change_is_as_old_as_its_last_answer() {
    let (state, tidegate) = Tidegate::start_drained();
    let oldest = || tidegate.metric("tidegate_fleet_oldest_unapplied_seconds");
    tidegate.ask("web/cny canary node=lb-1\n");
    assert_eq!(oldest(), 0.0);
    state.put("canary-state", "maint");
    eventually("it lacks the change", PATIENCE, || {
        let oldest = oldest();
        check((0.5..5.0).contains(&oldest), || oldest.to_string())
    });
    tidegate.await_answer("web/cny canary node=lb-1", "up maint", PATIENCE);
    eventually("it has it", PATIENCE, || {
        check(oldest() == 0.0, || oldest().to_string())
    });
}

#[test]
fn a_scrape_of_four_thousand_rows_is_quick() {
    let (_state, tidegate) = Tidegate::start_drained();
    let rows = (0..100).flat_map(|node| (0..40).map(move |server| (node, server)));
    for (node, server) in rows {
        tidegate.ask(format!("web_{server}/cny canary node=lb-{node}\n"));
    }
    eventually("all are known", PATIENCE, || {
        let rows = tidegate.count("tidegate_fleet_rows");
        check(rows == 4_000, || rows.to_string())
    });
    let quickest = (0..10).map(|_| {
        let begun = std::time::Instant::now();
        assert_eq!(tidegate.get("/metrics").status, 200);
        begun.elapsed()
    });
    let quickest = quickest.min().expect("ten of them");
    assert!(
        quickest < std::time::Duration::from_millis(50),
        "{quickest:?}"
    );
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
        exposition.check_histograms();
        exposition
    }

    fn sample(&mut self, family: &str, series: &str, value: &str) {
        let name = series.split('{').next().unwrap_or_default();
        let suffixes: &[&str] = match self.families[family].as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{family}: a type that nobody expects here: {other}"),
        };
        let own = |suffix: &&str| name == format!("{family}{suffix}");
        assert!(suffixes.iter().any(own), "outside {family}: {name}");
        let value: f64 = value
            .parse()
            .unwrap_or_else(|_| panic!("{series}: {value:?}"));
        assert!(value >= 0.0, "{series} {value}");
        let known = self.series.insert(series.to_owned(), value);
        assert_eq!(known, None, "{series} is there twice");
    }

    /// The bucket `+Inf` holds all that were counted: a must of OpenMetrics, and without it
    /// `histogram_quantile` gives no number.
    fn check_histograms(&self) {
        let histograms = self
            .families
            .iter()
            .filter(|(_, kind)| *kind == "histogram");
        for (name, _) in histograms {
            let value = |series: String| self.series.get(&series).copied();
            let last = value(format!("{name}_bucket{{le=\"+Inf\"}}"));
            assert!(last.is_some(), "{name} has no bucket +Inf");
            assert_eq!(last, value(format!("{name}_count")), "{name}");
        }
    }

    fn sum(&self, begins: &str) -> f64 {
        let matching = self
            .series
            .iter()
            .filter(|(series, _)| series.starts_with(begins));
        matching.map(|(_, value)| value).sum()
    }
}
