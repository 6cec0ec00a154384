//! A command signs in for its own time: what it may is the role's, and nothing stays behind.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::{READER, RELEASE, Scene, run};
use crate::harness::process::Process;
use crate::harness::wait::{PATIENCE, check, eventually};

const READY: [&str; 4] = ["canary", "--ready", "--reason", "checked"];

#[test]
fn a_canary_write_signs_in_with_a_file_and_leaves_no_token_behind() {
    let scene = Scene::new();
    let output = scene.run(&READY);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(scene.canary(), "ready");
    assert_eq!(output.stderr, "");
    scene.expect_signed_out();
}

/// CI systems give the identity token of a job in a variable that the job names.
#[test]
fn a_job_shows_the_token_of_its_variable() {
    let scene = Scene::new();
    let bearer = scene.issuer.token(RELEASE);
    let variables = scene.variables_and(&[("TIDEGATE_CONSUL_BEARER_TOKEN", &bearer)]);
    let output = run(&READY, &variables);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(scene.canary(), "ready");
    scene.expect_signed_out();
}

#[test]
fn flags_say_the_same_as_variables() {
    let scene = Scene::new();
    let file = scene.folder.join("bearer").display().to_string();
    let flags = [
        "canary",
        "--ready",
        "--login-method",
        super::METHOD,
        "--bearer-token-file",
        &file,
    ];
    let address = [("CONSUL_HTTP_ADDR".to_owned(), scene.consul.url())];
    let output = run(&flags, &address);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(scene.canary(), "ready");
    scene.expect_signed_out();
}

#[test]
fn a_role_that_may_only_read_reads_and_is_refused_a_write_by_name() {
    let scene = Scene::new();
    scene.show(&scene.issuer.token(READER));
    let explained = scene.run(&["explain", "web/a canary"]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let refused = scene.run(&READY);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    for text in [
        "access denied: writing",
        "login with \"ci\"",
        "lacks the right",
    ] {
        assert!(refused.stderr.contains(text), "no {text:?}: {refused:?}");
    }
    assert_eq!(scene.canary(), "drain");
    scene.expect_signed_out();
}

#[test]
fn a_command_that_is_interrupted_signs_out_as_well() {
    let scene = Scene::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["status", "--env", "gprd", "--watch"])
            .envs(scene.variables());
        let mut status = Process::start("status", scene.folder.path(), &command);
        eventually("it has signed in", PATIENCE, || {
            status.assert_running();
            let tokens = scene.consul.login_tokens().len();
            check(tokens == 1, || format!("{tokens} tokens"))
        });
        status.signal(signal);
        let ended = status.await_end(Duration::from_secs(10));
        assert_eq!(ended.and_then(|status| status.code()), Some(code));
        scene.expect_signed_out();
    }
}

/// Its own outcome counts; the token is named by what is no secret.
#[test]
fn a_token_that_cannot_be_given_back_is_a_warning() {
    let mut scene = Scene::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["status", "--env", "gprd", "--watch"])
        .envs(scene.variables());
    let mut status = Process::start("status", scene.folder.path(), &command);
    let secret = eventually("it has signed in", PATIENCE, || {
        scene
            .consul
            .login_tokens()
            .pop()
            .ok_or_else(|| "no token".to_owned())
    });
    // The command has it as well when it shows what it read with it.
    status.await_log("index ", PATIENCE);
    scene.consul.kill();
    status.signal(Signal::INT);
    let ended = status.await_end(Duration::from_secs(10));
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    let said = status.log_text();
    assert!(said.contains("consul acl token delete -id "), "{said}");
    assert!(!said.contains(&secret), "the secret was shown: {said}");
}
