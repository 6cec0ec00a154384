//! What HAProxy shows of the service's words, and what freezes it.

use std::time::Duration;

use super::{INTER, MARGIN, WRITTEN, Web, describe, rows_stand};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, eventually, throughout};

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn the_last_words_of_the_agent_name_the_listing_and_the_replica() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let web = Web::new(tidegate.agent(), INTER).row("a", "canary base=100", "");
    for node in &web.start() {
        let row = node.await_server("web", "a", ("DRAIN", None), 2 * INTER + MARGIN);
        let answer = String::from_utf8(tidegate.ask("web/a canary\n")).unwrap();
        let comment = answer.trim().split("# ").nth(1).unwrap();
        assert!(
            comment.starts_with("i=") && comment.ends_with(" r=a"),
            "{answer}"
        );
        assert_eq!(
            row.last_agt(),
            format!("via agent : up ({comment})"),
            "{}",
            describe(&row)
        );
        assert_eq!(row.agent_status(), "L7OK");
    }
}

#[test]
fn shadow_mode_shows_its_word_and_changes_nothing() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("shadow", "canary base=100 mode=shadow", "")
        .row("real", "canary base=100", "")
        .start();
    for (directive, word, real) in [
        ("drain", "shadow-drain", ("DRAIN", None)),
        ("maint", "shadow-maint", ("MAINT", None)),
        ("40%", "shadow-ready-40", ("no check", Some(40))),
    ] {
        state.put("canary-state", directive);
        for node in &nodes {
            node.await_server("web", "real", real, WRITTEN);
            eventually("the shadow's word is shown", WRITTEN, || {
                let row = node.server("web", "shadow");
                check(row.last_agt().ends_with(word), || describe(&row))
            });
            let row = node.server("web", "shadow");
            assert_eq!(
                (row.status(), row.weight()),
                ("no check", 100),
                "{}",
                describe(&row)
            );
        }
    }
}

#[test]
fn a_misspelt_group_and_an_unreadable_directive_freeze_the_state_and_are_shown() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    state.put("group-states/old", "40%");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("misspelt", "canry base=100", "disabled")
        .row("unreadable", "canary base=100", "")
        .row("forgotten", "old base=100", "")
        .row("no-request", "canary zone=", "disabled")
        .start();
    for node in &nodes {
        node.await_server("web", "unreadable", ("DRAIN", None), WRITTEN);
        node.await_server("web", "forgotten", ("no check", Some(40)), WRITTEN);
    }
    state.put("canary-state", "draining");
    state.remove("group-states/old");
    let expected = [
        ("misspelt", "MAINT", "unknown-group"),
        ("unreadable", "DRAIN", "unknown-directive"),
        ("forgotten", "no check", "unknown-group"),
        ("no-request", "MAINT", "unknown-request"),
    ];
    for node in &nodes {
        let shown = |(name, status, word): (&str, &str, &str)| {
            let row = node.server("web", name);
            let holds = row.status().starts_with(status) && row.last_agt().ends_with(word);
            check(holds, || describe(&row))
        };
        for row in expected {
            eventually("the reason is shown", WRITTEN, || shown(row));
        }
        throughout("the state is frozen", 3 * SHORT, || {
            // The words are not shown while a poll is under way.
            let frozen = expected.map(|(name, status, _)| (name.to_owned(), (status, None)));
            rows_stand(node, &frozen)
        });
        assert_eq!(node.server("web", "forgotten").weight(), 40);
    }
}

#[test]
fn a_row_of_base_weight_1_never_gets_weight_0() {
    let state = StateFolder::new();
    state.put("canary-state", "drain");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let web = Web::new(tidegate.agent(), SHORT)
        .row("one", "canary base=1", "weight 1")
        .row("ten", "canary base=10", "weight 10")
        .row("unsaid", "canary", "weight 1");
    for node in &web.start() {
        state.put("canary-state", "drain");
        node.await_server("web", "one", ("DRAIN", None), WRITTEN);
        for (directive, ten) in [("1%", 1), ("9%", 1), ("40%", 4), ("ready", 10)] {
            state.put("canary-state", directive);
            node.await_server("web", "ten", ("no check", Some(ten)), WRITTEN);
            node.await_server("web", "one", ("no check", Some(1)), WRITTEN);
        }
        // What base= is there for: HAProxy rounds down.
        state.put("canary-state", "99%");
        node.await_server("web", "unsaid", ("no check", Some(0)), WRITTEN);
    }
}
