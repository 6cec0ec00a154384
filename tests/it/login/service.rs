//! The service signs in, goes on when its token is gone, and signs out.

use std::time::Duration;

use rustix::process::Signal;

use super::{READER, RELEASE, Scene};
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, throughout};

const LINE: &str = "web/a canary";
/// The pace of logins, and a read.
const SOON: Duration = Duration::from_secs(5);

pub(crate) fn serve(scene: &Scene, more: &[&str]) -> Tidegate {
    scene.show(&scene.issuer.token(READER));
    let arguments = [&["--kv", "consul", "--poll-interval", "1s"], more].concat();
    let mut tidegate = Tidegate::launch(&arguments, &scene.variables());
    tidegate.await_ready();
    tidegate
}

/// Waits for a login whose token is none of these, while every poll has this answer.
fn await_new_token(scene: &Scene, tidegate: &Tidegate, old: &[String], answer: &str) -> String {
    eventually("the service signs in again", SOON, || {
        assert_eq!(tidegate.ask_line(LINE), answer, "while there is no token");
        let tokens = scene.consul.login_tokens();
        let new = tokens.into_iter().find(|token| !old.contains(token));
        new.ok_or_else(|| "no new token".to_owned())
    })
}

#[test]
fn a_token_destroyed_while_serving_is_replaced_and_no_poll_notices() {
    let scene = Scene::new();
    let mut tidegate = serve(&scene, &["--log-level", "trace"]);
    let mut secrets = scene.consul.login_tokens();
    assert_eq!(secrets.len(), 1, "one login");
    for state in ["maint", "drain", "maint"] {
        let before = tidegate.ask_line(LINE);
        // Longer than the pace: the login may follow at once.
        throughout("polls are answered", Duration::from_millis(1_100), || {
            let answer = tidegate.ask_line(LINE);
            check(answer == before, || answer)
        });
        scene.consul.delete_token(&secrets[secrets.len() - 1]);
        let new = await_new_token(&scene, &tidegate, &secrets, &before);
        secrets.push(new);
        scene.consul.kv_put("frontend/gprd/canary-state", state);
        tidegate.await_answer(LINE, &format!("up {state}"), SOON);
    }
    let log = tidegate.process().log_text();
    let turns: Vec<_> = log
        .lines()
        .filter_map(|line| line.split_once("authority="))
        .map(|(_, name)| name.trim_matches('"'))
        .filter(|name| *name != "starting")
        .collect();
    assert_eq!(turns, ["current"], "it became so once, and stayed so");
    let bearer = std::fs::read_to_string(scene.folder.join("bearer")).expect("it was written");
    for secret in secrets.iter().map(String::as_str).chain([bearer.trim()]) {
        assert!(!log.contains(secret), "a secret stands in the log");
    }
    assert_eq!(tidegate.stop(), Some(0));
    scene.expect_signed_out();
}

#[test]
fn while_no_login_succeeds_the_reason_is_said_and_a_new_bearer_token_ends_it() {
    let scene = Scene::new();
    let tidegate = serve(&scene, &[]);
    scene.show(&scene.issuer.expired(READER));
    scene.consul.delete_token(&scene.consul.login_tokens()[0]);
    let said = tidegate.await_readyz(503, "does not take the bearer token", PATIENCE);
    assert!(said.contains("(consul.bearer_token_file)"), "{said}");
    throughout("it stays silent", Duration::from_secs(3), || {
        let answer = tidegate.ask_line(LINE);
        check(answer.is_empty(), || answer)
    });
    scene.show(&scene.issuer.token(READER));
    tidegate.await_answer(LINE, "up drain", SOON);
    assert_eq!(scene.consul.login_tokens().len(), 1);
}

#[test]
fn sighup_signs_in_anew_and_gives_the_old_token_back() {
    let scene = Scene::new();
    let mut tidegate = serve(&scene, &[]);
    let first = scene.consul.login_tokens();
    scene.show(&scene.issuer.token(RELEASE));
    tidegate.process().signal(Signal::HUP);
    await_new_token(&scene, &tidegate, &first, "up drain");
    eventually("the old token is gone", SOON, || {
        let tokens = scene.consul.login_tokens();
        check(tokens.len() == 1 && tokens != first, || {
            format!("{} tokens", tokens.len())
        })
    });
    let second = scene.consul.login_tokens();
    scene.show("nonsense");
    tidegate.process().signal(Signal::HUP);
    let says = "the old token and certificates stay in use: access denied: the login";
    tidegate.process().await_log(says, SOON);
    assert_eq!(scene.consul.login_tokens(), second);
    tidegate.await_readyz(200, "", SOON);
    assert_eq!(tidegate.ask_line(LINE), "up drain");
}

#[test]
fn a_service_whose_first_login_fails_says_why_and_starts_once_it_succeeds() {
    let scene = Scene::new();
    scene.show(&scene.issuer.token("nobody"));
    let mut tidegate = Tidegate::launch(&["--kv", "consul"], &scene.variables());
    tidegate.await_readyz(503, "no binding rule of the auth method \"ci\"", PATIENCE);
    scene.show(&scene.issuer.token(READER));
    tidegate.await_ready();
    assert_eq!(tidegate.ask_line(LINE), "up drain");
    assert_eq!(tidegate.stop(), Some(0));
    scene.expect_signed_out();
}
