//! A view of what a selector selects.

use super::*;
use crate::domain::selector::Selector;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let mut view = whole();
    view.select(&Selector::parse(text).unwrap()).unwrap();
    let row = |row: &Row| format!("{} {}", row.node, row.server);
    let rows: Vec<_> = view.rows.iter().map(row).collect();
    assert_eq!(rows, expected, "{text}");
    assert_eq!(
        view.splits.len(),
        usize::from(text.contains("cny")),
        "{text}"
    );
}

#[test]
fn rows_are_selected_by_every_tag() {
    let cny = ["lb-1", "lb-2", "lb-3"].map(|node| format!("{node} canary_web/gke-cny-web"));
    let cny = cny.each_ref().map(String::as_str);
    let main = ["lb-1 web/gke-b", "lb-2 web/gke-b"];
    check("cny", &cny);
    check("backend=canary_.* server=gke-cny-web", &cny);
    check("group=main", &main);
    check("web/gke-b", &main);
    check("role=main server=gke-b", &main);
    check("node=lb-1 group=main", &main[..1]);
    check("zone=b node=lb-2 server=gke-b", &main[1..]);
}

#[test]
fn nothing_selected_is_an_error_that_names_what_is_known() {
    for (text, expected) in [
        (
            "nobody",
            "no server matches \"nobody\"; known are 2 servers of the backends canary_web, web",
        ),
        (
            "node=lb-9",
            "no LB node that has one of the servers matches \"node=lb-9\"; zones: known are b",
        ),
    ] {
        let mut view = whole();
        let error = view.select(&Selector::parse(text).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(view.rows.is_empty() && view.splits.is_empty());
    }
}

#[test]
fn the_rows_that_differ_are_told_with_who_asked_for_what() {
    let view = whole();
    let found = view.differences();
    assert_eq!((found.rows.len(), found.compared), (1, 5));
    assert_eq!(
        found.to_string(),
        "1 of 5 rows differ from what is desired\n\
         SERVER                  DESIRED  SERVED  HAPROXY  NODES  WHY\n\
         canary_web/gke-cny-web  drain    drain   UP w100  lb-2   was told drain, and HAProxy has \
         UP; canary-state is drain by alice since 2026-11-30T09:00:00Z: bad release\n"
    );
}
