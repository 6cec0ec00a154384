//! What can be told of the files alone.

use super::*;
use crate::dashboards::shape::{Kind, Place};

/// Options and drawing of each kind of panel: Grafana ignores a misspelt one, and draws its default.
const OPTIONS: [(Kind, &[&str], &[&str]); 7] = [
    (Kind::Row, &[], &[]),
    (
        Kind::Stat,
        &["colorMode", "graphMode", "textMode", "reduceOptions"],
        &[],
    ),
    (
        Kind::Timeseries,
        &["legend", "tooltip"],
        &[
            "fillOpacity",
            "stacking",
            "lineInterpolation",
            "thresholdsStyle",
        ],
    ),
    (
        Kind::StateTimeline,
        &["mergeValues", "showValue", "rowHeight", "legend", "tooltip"],
        &["fillOpacity", "lineWidth"],
    ),
    (Kind::Table, &["showHeader", "cellHeight"], &[]),
    (
        Kind::Heatmap,
        &[
            "calculate",
            "yAxis",
            "cellGap",
            "color",
            "tooltip",
            "legend",
        ],
        &["scaleDistribution"],
    ),
    (Kind::Text, &["mode", "content"], &[]),
];

#[test]
fn each_dashboard_has_the_shape_that_grafana_reads() {
    let boards = boards();
    for Board {
        file, dashboard, ..
    } in &boards
    {
        assert_eq!(
            format!("tidegate-{file}"),
            format!("{}.json", dashboard.uid)
        );
        assert!(dashboard.title.starts_with("Tidegate: "), "{file}");
        assert!(!dashboard.description.is_empty(), "{file}");
        assert_eq!(dashboard.schema_version, 39, "{file}");
        assert_eq!(
            dashboard.tags,
            ["tidegate"],
            "{file}: the links at the top go by it"
        );
        distinct(
            file,
            dashboard.panels.iter().map(|panel| panel.id.to_string()),
        );
        let shown = || dashboard.panels.iter().filter(|panel| !panel.is_row());
        distinct(file, shown().map(|panel| panel.title.clone()));
        shown().for_each(|panel| check(file, panel));
    }
    distinct(
        "all",
        boards.iter().map(|board| board.dashboard.uid.clone()),
    );
    distinct(
        "all",
        boards.iter().map(|board| board.dashboard.title.clone()),
    );
}

fn check(file: &str, panel: &Panel) {
    let place = format!("{file}: {}", panel.title);
    assert!(
        panel.description.ends_with('.'),
        "{place}: no description in sentences"
    );
    let (_, options, drawing) = OPTIONS
        .iter()
        .find(|(kind, ..)| *kind == panel.r#type)
        .expect("each kind is there");
    for option in panel.options.keys() {
        assert!(
            options.contains(&option.as_str()),
            "{place}: option {option}"
        );
    }
    let field = &panel.field_config.defaults;
    for drawn in field.custom.keys() {
        assert!(drawing.contains(&drawn.as_str()), "{place}: custom {drawn}");
    }
    distinct(
        &place,
        panel
            .targets
            .iter()
            .map(|target| target.ref_id().to_owned()),
    );
    let text = panel.r#type == Kind::Text;
    assert_eq!(panel.targets.is_empty(), text, "{place}: queries");
    let numbers = matches!(panel.r#type, Kind::Stat | Kind::Timeseries);
    assert!(!numbers || field.unit.is_some(), "{place}: no unit");
    let coloured = panel.r#type != Kind::Stat || field.thresholds.is_some();
    assert!(coloured, "{place}: no thresholds");
    if let Some(thresholds) = &field.thresholds {
        let (first, rest) = thresholds.steps.split_first().expect("one at least");
        assert_eq!(
            first.value, None,
            "{place}: the first threshold is for all below"
        );
        assert!(
            rest.is_sorted_by(|one, next| one.value < next.value),
            "{place}: {thresholds:?}"
        );
    }
}

#[test]
fn no_data_source_is_named_but_by_its_variable() {
    for board in boards() {
        let annotations = board.dashboard.annotations.list.iter();
        let of_panels = board.panels().filter_map(|panel| panel.datasource.as_ref());
        for source in of_panels.chain(annotations.map(|annotation| &annotation.datasource)) {
            let named = (source.r#type.as_str(), source.uid.as_str());
            let known = [("prometheus", "${prometheus}"), ("tempo", "${tempo}")];
            assert!(known.contains(&named), "{}: {source:?}", board.file);
        }
        for panel in board.panels() {
            let kind = panel.datasource.as_ref().map(|source| &source.r#type[..]);
            for target in &panel.targets {
                let expected = match target {
                    Target::Prometheus { .. } => "prometheus",
                    Target::Tempo { .. } => "tempo",
                };
                assert_eq!(kind, Some(expected), "{}: {}", board.file, panel.title);
            }
        }
    }
}

#[test]
fn no_panel_lies_over_another_or_beside_the_grid() {
    for Board {
        file, dashboard, ..
    } in boards()
    {
        for (at, panel) in dashboard.panels.iter().enumerate() {
            let place = &panel.grid_pos;
            assert!(
                place.w > 0 && place.h > 0 && place.x + place.w <= 24,
                "{file}: {}",
                panel.title
            );
            for other in &dashboard.panels[..at] {
                let both = (&other.title, &panel.title);
                assert!(!overlap(&other.grid_pos, place), "{file}: {both:?}");
            }
        }
        let rows = |panel: &Panel| (panel.grid_pos.y, panel.grid_pos.x);
        assert!(
            dashboard.panels.is_sorted_by_key(rows),
            "{file}: not in the order of reading"
        );
    }
}

fn overlap(one: &Place, other: &Place) -> bool {
    let apart = |begin: u32, length: u32, other: u32| begin + length <= other;
    !(apart(one.x, one.w, other.x)
        || apart(other.x, other.w, one.x)
        || apart(one.y, one.h, other.y)
        || apart(other.y, other.h, one.y))
}

#[test]
fn each_variable_is_defined_where_it_is_used_and_used_where_it_is_defined() {
    for Board {
        file,
        text,
        dashboard,
    } in boards()
    {
        let variables = &dashboard.templating.list;
        distinct(&file, variables.iter().map(|known| known.name().to_owned()));
        let defined: BTreeSet<_> = variables
            .iter()
            .map(|known| known.name().to_owned())
            .collect();
        assert_eq!(used(&text), defined, "{file}");
    }
}

fn distinct(place: &str, names: impl Iterator<Item = String>) {
    let mut known = BTreeSet::new();
    for name in names {
        assert!(known.insert(name.clone()), "{place}: {name} is there twice");
    }
}
