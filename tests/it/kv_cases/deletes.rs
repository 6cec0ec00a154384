//! Deletions, of one key and of everything. A blocked read is not woken by some of them
//! (measured on Consul 1.8.7): the light read must notice.

use super::{DRAINED, NOTICED_WITHIN, Story, await_problems, key, set_up, values};
use crate::harness::consul::Consul;
use crate::harness::recorder::SILENCE;
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::tidegate::Tidegate;

#[test]
fn a_deleted_override_gives_the_server_back_to_its_group() {
    let story = Story::begin(Consul::dev());
    let consul = &story.consul;
    let path = key("server-overrides/web/drained");
    for (group, answer) in [("40%", "up ready 40%"), ("maint", "up maint")] {
        consul.kv_put(&key("canary-state"), group);
        consul.kv_delete(&path);
        story.recorder.await_answer(answer, NOTICED_WITHIN);
        consul.kv_put(&path, "drain");
        story.recorder.await_answer("up drain", NOTICED_WITHIN);
    }
    let all = ["up drain", "up ready 40%", "up maint"];
    story.recorder.assert_only(&all);
}

#[test]
fn an_override_deleted_and_written_again_at_once_leaves_no_silence() {
    let story = Story::begin(Consul::dev());
    let path = key("server-overrides/web/drained");
    story.consul.kv_put(&key("canary-state"), "maint");
    for _ in 0..30 {
        story.consul.kv_delete(&path);
        story.consul.kv_put(&path, "drain");
    }
    story.await_current("after thirty times");
    story.recorder.assert_only(&["up drain", "up maint"]);
}

/// How the state is deleted, and whether a key inside was deleted before: its tombstone keeps
/// the blocked read asleep when the deletion stands above the prefix.
fn check_deleted(what: &str, prefix: &str, tombstone: bool) {
    let consul = Consul::dev();
    set_up(&consul);
    if tombstone {
        consul.kv_put(&key("server-overrides/web/old"), "drain");
        consul.kv_delete(&key("server-overrides/web/old"));
    }
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story.consul.kv_delete_recurse(prefix);
    let what = format!("{what}, tombstone inside: {tombstone}");
    story.await_held(&what, "no key under the prefix");
    assert_eq!(
        story
            .tidegate
            .count("tidegate_authority{authority=\"held\"}"),
        1
    );
    // The directives first: with the sentinel the listing counts.
    story
        .consul
        .kv_put(&key("server-overrides/web/drained"), "drain");
    story
        .tidegate
        .await_readyz(503, "_meta is missing", NOTICED_WITHIN);
    if tombstone {
        story.consul.kv_put(&key("_meta"), META);
    } else {
        story.init();
    }
    story.await_current(&what);
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
    assert_eq!(story.tidegate.ask_line("api/other"), "up ready 100%");
}

#[test]
fn a_deleted_prefix_holds() {
    check_deleted("the prefix", "frontend/gprd/", false);
}

#[test]
fn a_deleted_prefix_with_a_tombstone_holds() {
    check_deleted("the prefix", "frontend/gprd/", true);
}

#[test]
fn a_deleted_parent_holds() {
    check_deleted("the parent", "frontend/", false);
}

#[test]
fn a_deleted_parent_that_wakes_nobody_holds() {
    check_deleted("the parent", "frontend/", true);
}

#[test]
fn a_prefix_deleted_without_its_slash_holds() {
    check_deleted("without the slash", "frontend/gprd", false);
}

#[test]
fn a_prefix_deleted_without_its_slash_that_wakes_nobody_holds() {
    check_deleted("without the slash", "frontend/gprd", true);
}

#[test]
fn a_subtree_deleted_without_its_slash_is_gone() {
    let consul = Consul::dev();
    set_up(&consul);
    consul.kv_put(&key("server-overrides/web/old"), "drain");
    consul.kv_delete(&key("server-overrides/web/old"));
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    // This one leaves its tombstone inside the prefix: a deletion like any other.
    story.consul.kv_delete_recurse(&key("server-overrides"));
    story.recorder.await_answer("up ready 100%", NOTICED_WITHIN);
    story.recorder.assert_only(&["up drain", "up ready 100%"]);
    story.await_current("the subtree");
}

#[test]
fn a_deleted_key_whose_name_cannot_be_asked_for_stands_in_nobodys_way() {
    let story = Story::begin(Consul::dev());
    for path in ["server-overrides//slashes", "a/../b", "a\nb"] {
        values::put(&story.consul, path, b"drain");
        let shown = [("unknown_key".to_owned(), path.to_owned())];
        await_problems(&story.tidegate, &shown);
        values::delete(&story.consul, path);
        await_problems(&story.tidegate, &[]);
        story.await_current(path);
    }
    story.recorder.assert_only(&["up drain"]);
}

#[test]
fn a_deleted_sentinel_holds() {
    let story = Story::begin(Consul::dev());
    story.consul.kv_delete(&key("_meta"));
    story.await_held("the sentinel", "_meta is missing beside 3 other keys");
    story.consul.kv_put(&key("_meta"), META);
    story.await_current("the sentinel");
    story.assert_never_opened();
}

#[test]
fn an_emptied_folder_holds_until_it_is_filled_again() {
    let state = StateFolder::new();
    let fill = || {
        state.put("server-overrides/web/drained", "drain");
        state.put("canary-state", "ready");
    };
    fill();
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let recorder = crate::harness::recorder::Recorder::start(&tidegate, DRAINED);
    recorder.await_answer("up drain", NOTICED_WITHIN);
    state.remove_all("");
    tidegate.await_readyz(503, "no key under the prefix", NOTICED_WITHIN);
    recorder.await_answer(SILENCE, NOTICED_WITHIN);
    fill();
    state.put("_meta", META);
    tidegate.await_readyz(200, "current", NOTICED_WITHIN);
    recorder.await_answer("up drain", NOTICED_WITHIN);
    recorder.assert_only(&["up drain", SILENCE]);
}

#[test]
fn the_log_warns_when_nothing_is_answered_and_says_each_new_reason() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let mut tidegate = Tidegate::start(&["--kv", &state.kv()]);
    state.remove_all("");
    let process = tidegate.process();
    process.await_log(
        "WARN tidegate::beliefs: nothing is answered: no key under",
        NOTICED_WITHIN,
    );
    state.put("canary-state", "ready");
    process.await_log(
        "WARN tidegate::beliefs: nothing is answered: _meta is missing",
        NOTICED_WITHIN,
    );
}
