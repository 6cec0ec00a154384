//! Where clicks lead.

use serde::Deserialize;

use super::*;
use crate::dashboards::shape::{Datasource, Link, Range, Variable};

/// How a link to Explore begins; its panes follow, as JSON.
const EXPLORE: &str = "/explore?schemaVersion=1&panes=";
/// How one to another dashboard begins; its uid follows.
const DASHBOARD: &str = "/d/";
/// How one to the runbook begins; the section follows.
const RUNBOOK: &str = "${runbook}";

/// What Explore is opened with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panes {
    a: Pane,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pane {
    datasource: String,
    queries: [ExploreQuery; 1],
    range: Range,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExploreQuery {
    ref_id: String,
    datasource: Datasource,
    query_type: String,
    table_type: String,
    limit: u32,
    query: String,
}

#[test]
fn each_link_leads_to_a_dashboard_with_its_variables_to_traces_or_to_the_runbook() {
    let boards = boards();
    let sections = sections();
    for board in &boards {
        for top in &board.dashboard.links {
            assert!(["", RUNBOOK].contains(&top.url.as_str()), "{top:?}");
        }
        for (panel, link) in links(board) {
            let place = format!("{}: {}: {}", board.file, panel.title, link.title);
            if let Some(rest) = link.url.strip_prefix(DASHBOARD) {
                let (uid, query) = rest.split_once('?').expect("it keeps the variables");
                let target = boards.iter().find(|board| board.dashboard.uid == uid);
                let target = target.unwrap_or_else(|| panic!("{place}: no dashboard {uid}"));
                check_handed_over(&place, query, target);
            } else if let Some(section) = link.url.strip_prefix(RUNBOOK) {
                let section = section.strip_prefix('#').unwrap_or_default();
                let known = section.is_empty() || sections.contains(section);
                assert!(known, "{place}: the runbook has no {section:?}");
            } else {
                trace_query(link).unwrap_or_else(|| panic!("{place}: {}", link.url));
            }
        }
    }
}

#[test]
fn each_panel_of_one_change_leads_to_its_traces() {
    let boards = boards();
    let change = boards
        .iter()
        .find(|board| board.dashboard.uid == "tidegate-change");
    let change = change.expect("it is there");
    for panel in change.panels().filter(|panel| !panel.targets.is_empty()) {
        let traces = panel.all_links().filter_map(trace_query);
        assert!(traces.count() > 0, "{}", panel.title);
    }
}

/// A variable that is handed over is one of the dashboard that it is handed to.
fn check_handed_over(place: &str, query: &str, target: &Board) {
    let known: Vec<_> = target
        .dashboard
        .templating
        .list
        .iter()
        .map(Variable::name)
        .collect();
    for part in query
        .split('&')
        .filter(|part| *part != "${__url_time_range}")
    {
        let whole = part
            .strip_prefix("${")
            .and_then(|part| part.strip_suffix(":queryparam}"));
        let one = part
            .strip_prefix("var-")
            .and_then(|part| part.split('=').next());
        let name = whole.or(one).unwrap_or_else(|| panic!("{place}: {part}"));
        assert!(
            known.contains(&name),
            "{place}: {} has no {name}",
            target.file
        );
    }
}

pub(super) fn links(board: &Board) -> impl Iterator<Item = (&Panel, &Link)> {
    board
        .panels()
        .flat_map(|panel| panel.all_links().map(move |link| (panel, link)))
}

/// The query of a link to Explore.
pub(super) fn trace_query(link: &Link) -> Option<String> {
    let panes = link.url.strip_prefix(EXPLORE)?;
    // Else the browser would take them for the end of the panes, or for a space.
    assert!(!panes.contains(['&', '+', '#']), "{panes}");
    let panes = panes.replace("%26", "&").replace("%2B", "+");
    assert!(!panes.contains('%'), "{panes}");
    let panes: Panes =
        serde_json::from_str(&panes).unwrap_or_else(|error| panic!("{error}: {panes}"));
    let Pane {
        datasource,
        queries: [query],
        range,
    } = panes.a;
    assert_eq!(
        (datasource.as_str(), &query.datasource.uid),
        ("${tempo}", &datasource)
    );
    assert_eq!(
        (range.from.as_str(), range.to.as_str()),
        ("${__from}", "${__to}")
    );
    let kinds = [
        &query.datasource.r#type,
        &query.query_type,
        &query.table_type,
    ];
    assert_eq!(kinds, ["tempo", "traceql", "spans"]);
    assert!(query.ref_id == "A" && query.limit > 0);
    Some(query.query)
}

/// The headings of the runbook, as links name them.
fn sections() -> BTreeSet<String> {
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md");
    let text = fs::read_to_string(runbook).expect("the runbook is there");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}
