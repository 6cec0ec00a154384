//! A history that goes back: restored, wiped, or written to by the past.

use super::{NOTICED_WITHIN, Story, await_problems, key, set_up};
use crate::harness::consul::Consul;
use crate::harness::state_folder::META;
use crate::harness::tidegate::Tidegate;

const NEW_EPOCH: &str = r#"{"schema":1,"epoch":2,"gen":1}"#;

#[test]
fn an_older_state_restored_holds_until_a_higher_epoch() {
    let consul = Consul::dev();
    set_up(&consul);
    let path = key("server-overrides/web/drained");
    consul.kv_put(&path, "ready");
    let older = consul.snapshot_save();
    consul.kv_put(&path, "drain");
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story.consul.snapshot_restore(&older);
    story.await_held("a restore", "the store's history went back");
    // What any writer does next does not end it: the state is not what people believe it is.
    story
        .consul
        .kv_put(&key("_meta"), r#"{"schema":1,"epoch":1,"gen":9}"#);
    story.consul.kv_put(&key("canary-state"), "ready");
    story
        .tidegate
        .await_readyz(503, "an epoch above 1", NOTICED_WITHIN);
    // Somebody looks at every directive, and says that it is meant so.
    story.consul.kv_put(&path, "drain");
    story.consul.kv_put(&key("_meta"), NEW_EPOCH);
    story.await_current("a higher epoch");
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
}

#[test]
fn a_restore_that_removes_keys_holds() {
    let consul = Consul::dev();
    consul.kv_put(&key("_meta"), META);
    consul.kv_put(&key("canary-state"), "ready");
    let older = consul.snapshot_save();
    set_up(&consul);
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story.consul.snapshot_restore(&older);
    story.await_held("a restore", "the store's history went back");
    set_up(&story.consul);
    story.consul.kv_put(&key("_meta"), NEW_EPOCH);
    story.await_current("a higher epoch");
    story.assert_never_opened();
}

#[test]
fn a_restore_of_the_same_state_is_no_event() {
    let story = Story::begin(Consul::dev());
    let same = story.consul.snapshot_save();
    story.consul.snapshot_restore(&same);
    // Followed, so it watches the history that it should.
    story.consul.kv_put(&key("canary-state"), "maint");
    story
        .tidegate
        .await_answer("web/any canary", "up maint", NOTICED_WITHIN);
    story.await_current("the same state");
    story.recorder.assert_only(&["up drain"]);
}

#[test]
fn a_wiped_store_is_never_answered_from() {
    let mut story = Story::begin(Consul::dev());
    // Its data is in memory: the one that starts is empty, its index begins anew.
    story.consul.kill();
    story.consul.start();
    story.await_held("a wiped store", "the store's history went back");
    story
        .consul
        .kv_put(&key("server-overrides/web/drained"), "drain");
    story.init();
    story.await_current("init after a wipe");
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    // It goes on from there: also deletions, which ask for the table's index.
    story
        .consul
        .kv_put(&key("server-overrides/web/late"), "maint");
    story
        .tidegate
        .await_answer("web/late", "up maint", NOTICED_WITHIN);
    story.consul.kv_delete(&key("server-overrides/web/late"));
    story
        .tidegate
        .await_answer("web/late", "up ready 100%", NOTICED_WITHIN);
    story.assert_never_opened();
}

#[test]
fn keys_below_the_probe_are_no_evidence() {
    let story = Story::begin(Consul::dev());
    let stray = "_epoch_probe_/stray";
    let follows = |path: &str, request: &str| {
        story.consul.kv_put(&key(path), "drain");
        story
            .tidegate
            .await_answer(request, "up drain", NOTICED_WITHIN);
        story.consul.kv_delete(&key(path));
        story
            .tidegate
            .await_answer(request, "up ready 100%", NOTICED_WITHIN);
    };
    // Each deletion asks for the table's index below the probe: with a key there, and with the
    // tombstone of one, whose index is lower than the table's.
    story.consul.kv_put(&key(stray), "1");
    await_problems(
        &story.tidegate,
        &[("unknown_key".to_owned(), stray.to_owned())],
    );
    follows("server-overrides/web/first", "web/first");
    story.consul.kv_delete(&key(stray));
    await_problems(&story.tidegate, &[]);
    follows("server-overrides/web/second", "web/second");
    story.await_current("stray keys below the probe");
    story.recorder.assert_only(&["up drain"]);
}

#[test]
fn a_sentinel_written_by_the_past_holds() {
    let consul = Consul::dev();
    set_up(&consul);
    consul.kv_put(&key("_meta"), r#"{"schema":1,"epoch":1,"gen":7}"#);
    let tidegate = Tidegate::start_on(&consul);
    let story = Story::with(consul, tidegate);
    story
        .consul
        .kv_put(&key("_meta"), r#"{"schema":1,"epoch":1,"gen":6}"#);
    story.await_held("a zombie write", "generation 1.6, it was 1.7");
    story.consul.kv_put(&key("_meta"), NEW_EPOCH);
    story.await_current("a higher epoch");
    story.assert_never_opened();
}
