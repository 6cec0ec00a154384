//! Tokens without rights, at the start and while serving, with both of Consul's rules for
//! listings. Lost rights look like deleted keys there.

use super::{DRAINED, NOTICED_WITHIN, Story, key, set_up};
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::recorder::SILENCE;
use crate::harness::tidegate::Tidegate;

const UNKNOWN: &str = "aaaaaaaa-2222-3333-4444-555555555555";
/// What the responder needs.
const LIST: &str = r#"key_prefix "frontend/gprd/" { policy = "list" }"#;
const NOTHING: &str = r#"service_prefix "" { policy = "read" }"#;
const SUB_PREFIX: &str = r#"key_prefix "frontend/gprd/server-overrides/api/" { policy = "list" }"#;
const WITHOUT_META: &str = r#"
    key_prefix "frontend/gprd/" { policy = "list" }
    key "frontend/gprd/_meta" { policy = "deny" }"#;
/// What a light read shows stays the same: its names are rolled up.
const HIDDEN_BELOW: &str = r#"
    key_prefix "frontend/gprd/" { policy = "list" }
    key_prefix "frontend/gprd/server-overrides/web/" { policy = "deny" }"#;

type Variable = (&'static str, String);

fn launch(consul: &Consul, token: Option<Variable>) -> Tidegate {
    let mut environment = vec![("CONSUL_HTTP_ADDR".to_owned(), consul.url())];
    environment.extend(token.map(|(name, value)| (name.to_owned(), value)));
    Tidegate::launch(&["--kv", "consul"], &environment)
}

fn by_value(secret: &str) -> Variable {
    ("CONSUL_HTTP_TOKEN", secret.to_owned())
}

/// A service with the right to list, and the record of its answers.
fn story(consul: Consul) -> (Story, String) {
    set_up(&consul);
    consul.policy("responder", LIST);
    let secret = consul.token_for(&["responder"]);
    let mut tidegate = launch(&consul, Some(by_value(&secret)));
    tidegate.await_ready();
    (Story::with(consul, tidegate), secret)
}

/// Nothing is answered, and the reason is the rights and not an empty prefix.
fn check_start(consul: &Consul, reasons: [&str; 4]) {
    set_up(consul);
    let token = |name: &str, rules: &str| {
        consul.policy(name, rules);
        Some(by_value(&consul.token_for(&[name])))
    };
    let tokens = [
        ("none", None),
        ("unknown", Some(by_value(UNKNOWN))),
        ("rightless", token("rightless", NOTHING)),
        ("narrow", token("narrow", SUB_PREFIX)),
    ];
    for ((name, token), reason) in tokens.into_iter().zip(reasons) {
        let tidegate = launch(consul, token);
        let body = tidegate.await_readyz(503, reason, NOTICED_WITHIN);
        println!("{name}: {body}");
        assert!(body.starts_with("held"), "{name}: {body}");
        assert_eq!(tidegate.ask_line(DRAINED), SILENCE, "{name}");
        assert_eq!(tidegate.get("/api/v1/explain?request=web/a").status, 503);
        if name == "rightless" || name == "narrow" {
            consul.policy(name, LIST);
            tidegate.await_readyz(200, "current", NOTICED_WITHIN);
            assert_eq!(tidegate.ask_line(DRAINED), "up drain", "{name}");
        }
    }
}

#[test]
fn without_rights_it_starts_with_the_reason_where_listing_needs_a_right() {
    let lacks = "the token (CONSUL_HTTP_TOKEN) lacks the right";
    let unknown = "does not know the token (CONSUL_HTTP_TOKEN)";
    check_start(
        &Consul::dev_with_acl(),
        ["no token was sent", unknown, lacks, lacks],
    );
}

#[test]
fn without_rights_it_starts_with_the_reason_where_listings_are_filtered() {
    let unknown = "does not know the token (CONSUL_HTTP_TOKEN)";
    let missing = "rights are missing: _meta is not listed and may not be read";
    check_start(
        &Consul::dev_with_filtering_acl(),
        [missing, unknown, missing, missing],
    );
}

/// The policy changes while it serves, and comes back.
fn check_narrowed(consul: Consul, narrowed: [(&str, &str, &str); 3]) {
    let (story, _) = story(consul);
    for (what, rules, reason) in narrowed {
        story.consul.policy("responder", rules);
        story.await_held(what, reason);
        // A write meanwhile changes nothing, whether it can be seen or not.
        story.consul.kv_put(&key("canary-state"), "ready");
        story.tidegate.await_readyz(503, reason, NOTICED_WITHIN);
        story.consul.policy("responder", LIST);
        story.await_current(what);
    }
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
}

#[test]
fn rights_narrowed_while_serving_hold_where_listing_needs_a_right() {
    let lacks = "lacks the right";
    check_narrowed(
        Consul::dev_with_acl(),
        [
            ("no rights at all", NOTHING, lacks),
            ("a sub-prefix alone", SUB_PREFIX, lacks),
            (
                "all but the sentinel",
                WITHOUT_META,
                "rights are missing: _meta",
            ),
        ],
    );
}

#[test]
fn rights_narrowed_while_serving_hold_where_listings_are_filtered() {
    let missing = "rights are missing: _meta";
    check_narrowed(
        Consul::dev_with_filtering_acl(),
        [
            ("no rights at all", NOTHING, missing),
            ("a sub-prefix alone", SUB_PREFIX, missing),
            ("all but the sentinel", WITHOUT_META, missing),
        ],
    );
}

#[test]
fn rights_lost_below_a_rolled_up_name_hold_at_the_next_change() {
    let (story, _) = story(Consul::dev_with_acl());
    story.consul.policy("responder", HIDDEN_BELOW);
    // Nothing that a light read shows has changed, and what is answered is still true.
    story.consul.kv_put(&key("canary-state"), "maint");
    let reason = "rights are missing: server-overrides/web/drained";
    story.await_held("rights below a folder", reason);
    story.consul.policy("responder", LIST);
    story.await_current("rights below a folder");
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
}

#[test]
fn a_token_deleted_while_serving_holds() {
    let (story, secret) = story(Consul::dev_with_acl());
    story.consul.delete_token(&secret);
    story.await_held("a deleted token", "does not know the token");
    story.assert_never_opened();
}

#[test]
fn a_replaced_token_file_is_used_without_a_restart() {
    let consul = Consul::dev_with_filtering_acl();
    set_up(&consul);
    consul.policy("responder", LIST);
    let folder = Folder::new("token");
    let first = consul.token_for(&["responder"]);
    let file = folder.write("token", &first);
    let variable = ("CONSUL_HTTP_TOKEN_FILE", file.display().to_string());
    let mut tidegate = launch(&consul, Some(variable));
    tidegate.await_ready();
    let story = Story::with(consul, tidegate);
    story.consul.delete_token(&first);
    story.await_held("a deleted token", "does not know the token");
    let second = story.consul.token_for(&["responder"]);
    folder.write("token", &second);
    story.await_current("a replaced token file");
    story.recorder.await_answer("up drain", NOTICED_WITHIN);
    story.assert_never_opened();
}
