//! The token of a login expires. Consul lets none live for less than a minute.

use std::time::Duration;

use crate::harness::wait::{check, throughout};
use crate::login::{Scene, service::serve};

const LINE: &str = "web/a canary";

#[test]
fn a_token_that_expires_while_serving_is_replaced_and_no_poll_notices() {
    let scene = Scene::with_ttl("1m");
    let mut tidegate = serve(&scene, &[]);
    let first = scene.consul.login_tokens();
    throughout("every poll is answered", Duration::from_secs(66), || {
        let answer = tidegate.ask_line(LINE);
        check(answer == "up drain", || answer)
    });
    let second = scene.consul.login_tokens();
    assert!(
        second.iter().any(|token| !first.contains(token)),
        "no new token"
    );
    scene.consul.kv_put("frontend/gprd/canary-state", "maint");
    tidegate.await_answer(LINE, "up maint", Duration::from_secs(5));
    assert_eq!(tidegate.stop(), Some(0));
    let left = scene.consul.login_tokens();
    assert!(
        left.iter().all(|token| first.contains(token)),
        "the second token was left"
    );
}
