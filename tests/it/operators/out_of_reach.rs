//! A store that is away, slow, or refuses: each command says so, and nothing is half written.

use std::thread;
use std::time::Duration;

use super::*;
use crate::harness::consul::Consul;
use crate::harness::delay::Delay;
use crate::harness::tidegate::{consul_environment, consul_environment_as, tidegate};

/// Stands for the id of a change in the history.
const CHANGE: &str = "CHANGE";
/// Nobody listens there.
const NOBODY: &str = "--replica=http://127.0.0.1:1";

const DENIED: &str = "access denied";

const WRITING: [&[&str]; 11] = [
    &["canary", "--drain", NOBODY],
    &["canary", "--disable", NOBODY],
    &["canary", "--ready", NOBODY, "--slowly"],
    &["canary", "--hold", NOBODY],
    &["canary", "--resume", NOBODY],
    &["set", "ready", "web/a", "--yes", NOBODY],
    &["clear", "web/b", "--yes", NOBODY],
    &["undo", CHANGE, "--yes", NOBODY],
    &["deploy", "start", "cny", NOBODY],
    &["deploy", "finish", "main", NOBODY],
    &["accept", "--yes", "--force", NOBODY],
];

/// What reads, and its exit code without a store: the two that decide say no.
const READING: [(&[&str], i32); 8] = [
    (&["canary", NOBODY], 6),
    (&["status", NOBODY], 6),
    (&["status", "--output", "json", NOBODY], 6),
    (&["get", NOBODY], 6),
    (&["history"], 6),
    (&["explain", "web/a main"], 6),
    (&["precheck", "--stage", "cny", NOBODY], 4),
    (&["gate", NOBODY], 4),
];

struct Scene {
    consul: Consul,
    change: String,
}

impl Scene {
    /// An environment in which each writing command would change something.
    fn on(consul: Consul) -> Self {
        let root = consul_environment(&consul);
        let done = |command: &[&str]| {
            let output = tidegate(&[command, &["--env", "gprd"]].concat(), &root);
            expect(&output, 0, &[])
        };
        done(&["init"]);
        consul.kv_put("frontend/gprd/settings", SETTINGS);
        consul.kv_put("frontend/gprd/group-states/main", "ready");
        let change = id(&done(&["set", "drain", "web/b", "--yes"]));
        done(&["deploy", "start", "main"]);
        Self { consul, change }
    }

    /// Everything that is stored.
    fn contents(&self) -> String {
        let keys = self
            .consul
            .call("GET", "/v1/kv/frontend?recurse&consistent", b"");
        assert_eq!(keys.status, 200, "{}", keys.text());
        keys.text()
    }

    /// Runs these commands, all at once.
    fn run(&self, commands: &[&[&str]], environment: &[(String, String)]) -> Vec<(String, Output)> {
        let words = |command: &&[&str]| {
            let words = command.iter().chain(&["--env", "gprd"]);
            let words = words.map(|word| if *word == CHANGE { &self.change } else { *word });
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        thread::scope(|scope| {
            let run = |words: Vec<String>| {
                scope.spawn(move || {
                    let arguments: Vec<_> = words.iter().map(String::as_str).collect();
                    (words.join(" "), tidegate(&arguments, environment))
                })
            };
            let running: Vec<_> = commands.iter().map(words).map(run).collect();
            let ended = running
                .into_iter()
                .map(|run| run.join().expect("it does not panic"));
            ended.collect()
        })
    }

    /// Every command ends with its code, and says why in these words.
    fn expect_nothing(&self, environment: &[(String, String)], texts: &[&str]) {
        let reading = READING.map(|(command, _)| command);
        let commands = [&WRITING[..], &reading].concat();
        let codes = [6; WRITING.len()]
            .into_iter()
            .chain(READING.map(|(_, code)| code));
        for ((command, output), code) in self.run(&commands, environment).iter().zip(codes) {
            // It asks first whether the token sees everything.
            let refuses = command.starts_with("accept") && texts.contains(&DENIED);
            let shown = expect(output, if refuses { 3 } else { code }, &[]);
            let says = texts.iter().any(|text| shown.contains(text));
            assert!(says, "{command}: none of {texts:?} in {shown}");
            assert!(!shown.contains("written to"), "{command}: {shown}");
        }
    }
}

#[test]
fn a_consul_that_is_gone_is_named_by_every_command() {
    let mut scene = Scene::on(Consul::dev());
    let environment = consul_environment(&scene.consul);
    let gone = format!("{}: Connection refused", scene.consul.http());
    scene.consul.kill();
    scene.expect_nothing(&environment, &[&gone]);
}

/// Side by side: each command waits for its answer.
#[test]
fn a_consul_that_hangs_or_is_too_slow_is_named_and_one_that_is_slow_is_waited_for() {
    thread::scope(|scope| {
        scope.spawn(hangs);
        scope.spawn(is_slow);
    });
}

fn hangs() {
    let mut scene = Scene::on(Consul::dev());
    let before = scene.contents();
    let environment = consul_environment(&scene.consul);
    let hangs = format!("{}: no whole answer within 2s", scene.consul.http());
    scene.consul.process().pause();
    scene.expect_nothing(&environment, &[&hangs]);
    scene.consul.process().resume();
    assert_eq!(scene.contents(), before);
}

fn is_slow() {
    let scene = Scene::on(Consul::dev());
    let before = scene.contents();
    let delay = Delay::before(scene.consul.http());
    let environment = [("CONSUL_HTTP_ADDR".to_owned(), delay.url())];
    delay.set(Duration::from_secs(3));
    scene.expect_nothing(&environment, &["no whole answer within 2s"]);
    assert_eq!(scene.contents(), before);
    delay.set(Duration::from_millis(300));
    for (command, output) in scene.run(&[WRITING[0], &["history"]], &environment) {
        assert_eq!(output.code, Some(0), "{command}: {output:?}");
    }
    assert_ne!(scene.contents(), before);
}

/// With both of Consul's rules for listings.
fn on_both_rules(story: fn(&Scene)) {
    thread::scope(|scope| {
        scope.spawn(|| story(&Scene::on(Consul::dev_with_acl())));
        scope.spawn(|| story(&Scene::on(Consul::dev_with_filtering_acl())));
    });
}

/// Of one of the rules, a token without rights sees a store without keys.
#[test]
fn a_token_that_is_unknown_or_may_see_nothing_is_named_and_not_taken_for_an_empty_store() {
    on_both_rules(|scene| {
        let (before, consul) = (scene.contents(), &scene.consul);
        consul.policy("elsewhere", r#"key_prefix "other/" { policy = "write" }"#);
        let elsewhere = consul.token_for(&["elsewhere"]);
        for (token, text) in [
            (
                "aaaaaaaa-2222-3333-4444-555555555555",
                "does not know the token",
            ),
            (&elsewhere, "lacks the right"),
        ] {
            let environment = consul_environment_as(consul, token);
            scene.expect_nothing(&environment, &[text, DENIED]);
        }
        let nobody = [("CONSUL_HTTP_ADDR".to_owned(), consul.url())];
        scene.expect_nothing(&nobody, &["no token was sent", DENIED]);
        assert_eq!(scene.contents(), before);
    });
}

#[test]
fn a_token_that_may_only_read_reads_all_and_writes_nothing() {
    on_both_rules(|scene| {
        let (before, consul) = (scene.contents(), &scene.consul);
        let rules = r#"key_prefix "frontend/gprd/" { policy = "list" }
                       key_prefix "frontend-history/gprd/" { policy = "list" }"#;
        consul.policy("reader", rules);
        let reader = consul_environment_as(consul, &consul.token_for(&["reader"]));
        let reading = READING.map(|(command, _)| command);
        for ((command, output), (_, code)) in scene.run(&reading, &reader).iter().zip(READING) {
            let code = if code == 6 { 0 } else { code };
            assert_eq!(output.code, Some(code), "{command}: {output:?}");
        }
        // No ramp runs: these three would write nothing whoever called them.
        let idle = ["--slowly", "--hold", "--resume"];
        let writes = |command: &&&[&str]| idle.iter().all(|flag| !command.contains(flag));
        let writing: Vec<_> = WRITING.iter().filter(writes).copied().collect();
        for (_, output) in scene.run(&writing, &reader) {
            expect(&output, 6, &["lacks the right", "ermission denied"]);
        }
        assert_eq!(scene.contents(), before);
    });
}

/// A token may write what the first part of a change needs, and not the second.
#[test]
fn what_is_written_before_a_refusal_is_told_and_can_be_completed() {
    let scene = Scene::on(Consul::dev_with_acl());
    let rows: Vec<_> = (0..100)
        .map(|n| format!(r#"{{"server":"many/s{n:02}"}}"#))
        .collect();
    let settings = format!(
        r#"{{"rails":{{"unattended":true,"many_rows":1000}},"rows":[{}]}}"#,
        rows.join(",")
    );
    scene.consul.kv_put("frontend/gprd/settings", settings);
    let rules = r#"key_prefix "frontend/gprd/" { policy = "write" }
                   key_prefix "frontend-history/gprd/" { policy = "write" }
                   key_prefix "frontend/gprd/server-overrides/many/s9" { policy = "list" }"#;
    scene.consul.policy("most", rules);
    let token = scene.consul.token_for(&["most"]);
    let most = consul_environment_as(&scene.consul, &token);
    let set: &[&str] = &[
        "set",
        "40%",
        "backend=many",
        "--yes",
        "--reason",
        "r",
        NOBODY,
    ];
    let (_, output) = scene.run(&[set], &most).remove(0);
    let told = "1 of 2 parts are written: run it again for the others, or take them back with \
                `tidegate undo ";
    let shown = expect(&output, 6, &["lacks the right", told]);
    let change = shown.rsplit("tidegate undo ").next().unwrap_or_default();
    let change = change.trim().trim_end_matches('`');
    let root = consul_environment(&scene.consul);
    let (_, output) = scene.run(&[&["history", "--limit", "1"]], &root).remove(0);
    let warning = format!("WARNING: change {change} has 1 of 2 parts so far.");
    expect(&output, 0, &[&warning]);
    let (_, output) = scene.run(&[set], &root).remove(0);
    expect(&output, 0, &["written to gprd"]);
    let keys = scene.consul.kv_keys("frontend/gprd/server-overrides/many/");
    assert_eq!(keys.len(), 100);
}
