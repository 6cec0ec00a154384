use super::*;

fn changed(path: &str, before: Option<&'static str>, after: Option<&'static str>) -> Changed {
    let value = |text: &'static str| Value(text.into());
    Changed {
        path: path.to_owned(),
        before: before.map(value),
        after: after.map(value),
    }
}

fn made(outcome: Outcome) -> Made<'static> {
    Made {
        at: "2026-11-30T10:00:00Z".parse().unwrap(),
        by: "ana",
        reason: Some("bad <!channel> & worse\nsecond line"),
        environment: "gprd",
        command: "tidegate canary --drain",
        change: Some("01K"),
        trace: None,
        outcome,
    }
}

#[track_caller]
fn check(all: &[(&str, Option<&'static str>)], text: &str) {
    let all: Vec<_> = all
        .iter()
        .map(|(path, after)| changed(path, None, *after))
        .collect();
    let announcement = Announcement::new(&made(Outcome::Written), &all, &[], None);
    assert_eq!(announcement.text, text);
}

#[test]
fn a_change_is_said_in_one_line() {
    for (state, text) in [
        ("drain", "Canary set to drain"),
        ("ready", "Canary set to ready"),
        ("40%", "Canary set to ready at 40%"),
        (
            r#"{"state":"drain","since":"2026-11-30T10:00:00Z","then":{"state":"maint","after":"60s"}}"#,
            "Canary set to drain, maint after 1m",
        ),
        (
            r#"{"state":"ready","since":"2026-11-30T10:00:00Z","ramp":{"by":"nodes","steps":[5,50],"every":"2m"}}"#,
            "Canary set to ready by nodes (5, 50%, every 2m)",
        ),
        (
            r#"{"state":"ready","ramp":{"by":"weight","steps":[5]}}"#,
            "Canary set to ready by weight (held at 5%)",
        ),
        ("rubbish", "Canary set to what cannot be read"),
    ] {
        check(&[("canary-state", Some(state))], text);
    }
    check(
        &[("zones/z-b/canary-state", None)],
        "Canary cleared on the nodes of zone z-b",
    );
    check(
        &[("deploys/cny", Some(r#"{"active":true}"#))],
        "Deploy of cny started",
    );
    check(
        &[("deploys/cny", Some(r#"{"active":false}"#))],
        "Deploy of cny finished",
    );
    check(
        &[
            ("server-overrides/web/a", Some("drain")),
            ("server-overrides/web/b", Some("drain")),
            ("nodes/lb-1/server-overrides/web/b", Some("drain")),
            ("server-overrides/web/c", None),
        ],
        "web/c cleared; web/a, web/b set to drain; web/b set to drain on node lb-1",
    );
}

#[test]
fn a_change_of_many_keys_with_long_values_stays_small() {
    let long: &'static str = Box::leak("x".repeat(10_000).into_boxed_str());
    let all: Vec<_> = (0..1_000)
        .map(|n| {
            changed(
                &format!("server-overrides/web/{n}"),
                Some(long),
                Some("drain"),
            )
        })
        .collect();
    let announcement = Announcement::new(&made(Outcome::Written), &all, &[], None);
    assert_eq!(announcement.keys.len(), LISTED_MAX);
    assert_eq!(announcement.keys_left_out, 900);
    assert_eq!(
        announcement.text,
        "web/0, web/1, web/2, web/3, web/4 and 995 more set to drain"
    );
    assert!(announcement.to_json().len() < 300_000);
}

#[test]
fn a_chat_gets_one_line_that_calls_nobody() {
    let all = [changed("canary-state", Some("ready"), Some("drain"))];
    let announcement = Announcement::new(&made(Outcome::Written), &all, &[], None);
    assert_eq!(
        announcement.to_chat(),
        r#"{"text":"gprd: Canary set to drain, by ana: bad &lt;!channel&gt; &amp; worse second line (to take it back: tidegate undo 01K --env gprd)"}"#
    );
}

#[test]
fn what_is_not_known_to_be_written_is_not_offered_to_be_undone() {
    let all = [changed("canary-state", None, Some("drain"))];
    let unknown = Announcement::new(&made(Outcome::Unknown), &all, &[], None);
    assert_eq!(
        unknown.text,
        "Not known whether written: Canary set to drain"
    );
    assert_eq!(unknown.undo, None);
    let partly = Announcement::new(&made(Outcome::Partly), &all, &[], None);
    assert_eq!(
        partly.text,
        "Canary set to drain (the rest of the change was not written)"
    );
    assert_eq!(partly.undo.as_deref(), Some("tidegate undo 01K --env gprd"));
}
