use super::*;

const SETTINGS: &str = r#"{"rows":[{"server":"web/a","groups":["main"]}]}"#;

fn main(state: &'static str) -> [(&'static str, &'static str); 2] {
    [("group-states/main", state), ("settings", SETTINGS)]
}

/// Of the one row of a fleet with these entries: what is desired, and why it differs.
fn check_row(
    entries: &[(&str, &str)],
    (server, told, index): (&str, &str, u64),
    status: Option<&str>,
    (desired, groups, differs): (&str, Groups, Option<&str>),
) {
    let fleet = fleet(&[("lb-1", server, told, 1)], index);
    let looks: Vec<_> = status
        .map(|status| ("lb-1", server, status))
        .into_iter()
        .collect();
    let view = view(entries, Some(&fleet), seen(&looks));
    let row = &view.rows[0];
    let found = row.desired.as_ref().unwrap();
    let case = format!("{entries:?} {server} {told} {status:?}");
    assert_eq!(
        (found.answer.as_str(), found.groups),
        (desired, groups),
        "{case}"
    );
    match (differs, row.not_converged.as_deref()) {
        (None, None) => {}
        (Some(text), Some(why)) if why.contains(text) => {}
        (_, found) => panic!("{case}: expected {differs:?}, got {found:?}"),
    }
}

#[test]
fn a_row_differs_when_a_later_look_does_not_show_what_was_told() {
    use Groups::{Name, Settings};
    let canary = [("canary-state", "drain")];
    let cny = "web/gke-cny-web";
    for (status, differs) in [
        (Some("DRAIN (agent)"), None),
        (Some("DOWN"), None),
        (Some("UP"), Some("HAProxy has UP")),
        (Some("MAINT"), Some("HAProxy has MAINT")),
        (None, None),
    ] {
        check_row(
            &main("drain"),
            ("web/a", "drain", 7),
            status,
            ("drain", Settings, differs),
        );
        check_row(&canary, (cny, "drain", 7), status, ("drain", Name, differs));
    }
}

#[test]
fn a_row_differs_when_it_was_told_another_state() {
    use Groups::{Answer, Name, Settings};
    let canary = [("canary-state", "drain")];
    let cny = "web/gke-cny-web";
    check_row(
        &main("ready"),
        ("web/a", "drain", 7),
        None,
        ("ready 100%", Settings, Some("was told drain")),
    );
    check_row(
        &main("ready"),
        ("web/a", "drain", 8),
        None,
        ("ready 100%", Settings, Some("not told the newest")),
    );
    check_row(
        &main("40%"),
        ("web/a", "ready 50%", 7),
        Some("UP"),
        ("ready 40%", Settings, None),
    );
    check_row(
        &main("maint"),
        ("web/a", "maint", 7),
        Some("DRAIN"),
        ("maint", Settings, Some("HAProxy has DRAIN")),
    );
    check_row(
        &main("maint"),
        ("web/a", "shadow-maint", 7),
        Some("UP"),
        ("maint", Settings, None),
    );
    check_row(
        &main("dran"),
        ("web/a", "unknown-directive", 7),
        Some("UP"),
        ("unknown-directive", Settings, None),
    );
    // Its groups are not known, and the replica saw them.
    check_row(
        &canary,
        ("web/b", "drain", 7),
        Some("DRAIN"),
        ("drain", Answer, None),
    );
    check_row(
        &canary,
        ("web/b", "ready 100%", 7),
        Some("UP"),
        ("ready 100%", Name, None),
    );
    check_row(
        &[],
        (cny, "unknown-group", 7),
        Some("UP"),
        ("unknown-group", Answer, None),
    );
}

#[test]
fn nothing_is_desired_of_a_server_that_nobody_speaks_of() {
    let view = view(&[], None, seen(&[("lb-1", "web/a", "UP")]));
    assert_eq!(view.rows[0].desired, None);
}

#[test]
fn a_plan_that_came_due_after_the_last_poll_is_still_of_its_key() {
    let plan = r#"{"state":"drain","then":{"state":"maint","after":"60s"},"since":"2026-11-30T09:59:00.500Z"}"#;
    let cny = "web/gke-cny-web";
    check_row(
        &[("canary-state", plan)],
        (cny, "drain", 7),
        None,
        ("drain", Groups::Name, None),
    );
    let due = plan.replace("00.500Z", "00Z");
    check_row(
        &[("canary-state", &due)],
        (cny, "drain", 7),
        None,
        ("maint", Groups::Name, Some("was told drain")),
    );
}

/// The command reads the store itself: before or after the replicas do.
#[test]
fn a_store_that_is_at_another_listing_than_the_answers_explains_none_of_them() {
    let polls = fleet(&[("lb-1", "web/gke-cny-web", "drain", 1)], 7);
    let entries = [("canary-state", "ready")];
    let at = |index| {
        let view = view_at(index, &entries, Some(&polls), Observation::default());
        let row = view.rows.into_iter().next().unwrap();
        let behind = row.served.is_some_and(|served| served.behind);
        let desired = row
            .desired
            .map(|desired| (desired.answer.clone(), desired.groups));
        (desired, behind, row.not_converged)
    };
    let ready = Some(("ready 100%".to_owned(), Groups::Name));
    let waits = "not told the newest listing, was told drain".to_owned();
    assert_eq!(at(8), (ready.clone(), true, Some(waits)));
    assert_eq!(at(6), (ready, false, None));
}
