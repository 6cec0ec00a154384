//! The command line as a person meets it: usage, errors, exit codes.

use std::fs;

use crate::harness::folder::Folder;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::tidegate;

/// Runs a command, and expects its exit code and these texts on the two outputs.
fn check(arguments: &[&str], code: i32, stdout: &[&str], stderr: &[&str]) {
    let output = tidegate(arguments, &[]);
    let shown = format!("{arguments:?}\n{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(code), "{shown}");
    for text in stdout {
        assert!(output.stdout.contains(text), "no {text:?} in {shown}");
    }
    for text in stderr {
        assert!(output.stderr.contains(text), "no {text:?} in {shown}");
    }
    assert_eq!(stdout.is_empty(), output.stdout.is_empty(), "{shown}");
    assert_eq!(stderr.is_empty(), output.stderr.is_empty(), "{shown}");
}

#[test]
fn help_and_version_are_no_errors() {
    let commands = [
        "serve",
        "init",
        "explain",
        "canary",
        "set",
        "clear",
        "check-config",
    ];
    check(&["--help"], 0, &commands, &[]);
    check(
        &["--version"],
        0,
        &[concat!("tidegate ", env!("CARGO_PKG_VERSION"))],
        &[],
    );
    check(
        &["serve", "--help"],
        0,
        &["--kv <consul|dir:PATH>", "TIDEGATE_KV"],
        &[],
    );
    check(
        &["canary", "--help"],
        0,
        &["--disable", "--zone <ZONE>", "--env <NAME>"],
        &[],
    );
}

#[test]
fn wrong_usage_is_said_and_ends_with_2() {
    check(
        &[],
        2,
        &[],
        &[
            "error: 'tidegate' requires a subcommand",
            "Usage: tidegate <COMMAND>",
        ],
    );
    check(
        &["frobnicate"],
        2,
        &[],
        &["unrecognized subcommand 'frobnicate'"],
    );
    check(
        &["canary", "--gprd", "--drain", "--ready"],
        2,
        &[],
        &["cannot be used with"],
    );
    check(
        &["canary", "--gprd", "--gstg", "--drain"],
        2,
        &[],
        &["cannot be used with"],
    );
    let both = [
        "canary", "--gprd", "--drain", "--zone", "b", "--node", "lb-1",
    ];
    check(&both, 2, &[], &["cannot be used with"]);
    check(
        &["set", "down", "web/a"],
        2,
        &[],
        &["is none of ready, drain, maint"],
    );
    check(&["set", "drain", "web"], 2, &[], &["environment: required"]);
    check(&["explain"], 2, &[], &["REQUEST LINE"]);
    check(
        &["man", "frobnicate"],
        2,
        &[],
        &["no command is called \"frobnicate\""],
    );
}

#[test]
fn every_error_of_a_configuration_is_said_at_once_with_its_place() {
    let folder = Folder::new("config");
    let file = folder.path().join("tidegate.toml");
    fs::write(
        &file,
        "enviroment = \"gprd\"\n\n[agent]\nlisten = \"nowhere\"\nworkers = 0\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let errors = [
        "tidegate.toml:1: enviroment: unknown; did you mean environment?",
        "tidegate.toml:4: agent.listen: ",
        "tidegate.toml:5: agent.workers: ",
        "--poll-interval: ",
    ];
    check(
        &["check-config", file, "--poll-interval", "soon"],
        2,
        &[],
        &errors,
    );
    check(
        &["check-config", "/nowhere.toml"],
        2,
        &[],
        &["/nowhere.toml: No such file"],
    );
    check(&["serve"], 2, &[], &["environment: required"]);
    check(&["serve", "--env", "gprd"], 2, &[], &["standalone"]);
}

#[test]
fn the_example_configuration_is_right_and_says_where_each_value_is_from() {
    let root = env!("CARGO_MANIFEST_DIR");
    let example = format!("{root}/examples/tidegate.toml");
    let lines = [
        "environment = gprd (",
        "tidegate.toml:6)",
        "poll_interval = 1s (--poll-interval)",
        "agent.workers = ",
    ];
    check(
        &["check-config", &example, "--poll-interval", "1s"],
        0,
        &lines,
        &[],
    );
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        check(
            &["completions", shell],
            0,
            &["tidegate", "canary", "check-config"],
            &[],
        );
    }
    check(&["man"], 0, &[".TH tidegate", "Exit codes"], &[]);
    check(
        &["man", "canary"],
        0,
        &[".TH tidegate-canary", "\\fBtidegate canary\\fR", "disable"],
        &[],
    );
}

#[test]
fn a_folder_is_set_up_once() {
    let folder = Folder::new("init");
    let kv = format!("dir:{}/new/state", folder.path().display());
    let init = ["init", "--env", "gprd", "--kv", &kv];
    let shown = ["frontend/gprd/_meta", "canary-state", "nothing was written"];
    let dry = [&init[..], &["--dry-run"]].concat();
    check(&dry, 0, &shown, &[]);
    assert!(!folder.join("new").exists(), "a dry run makes no folder");
    fs::create_dir_all(folder.join("new/state")).unwrap();
    check(&dry, 0, &shown, &[]);
    assert!(!folder.join("new/state/frontend").exists());
    check(
        &init,
        0,
        &[
            "frontend/gprd/_meta",
            "frontend/gprd/canary-state",
            "is set up",
        ],
        &[],
    );
    check(&init, 3, &[], &["is set up already"]);
    let explain = ["explain", "--env", "gprd", "--kv", &kv, "web/cny canary"];
    check(&explain, 0, &["up ready 100% #"], &[]);
    let other = ["explain", "--env", "gstg", "--kv", &kv, "web/cny canary"];
    check(
        &other,
        1,
        &[],
        &[
            "frontend/gstg/: nothing is answered: no key under the prefix",
            "tidegate init",
        ],
    );
    let missing = [
        "explain",
        "--env",
        "gprd",
        "--kv",
        "dir:/nowhere",
        "web/cny canary",
    ];
    check(&missing, 2, &[], &["/nowhere"]);
}

/// One way to name an environment, whatever the command.
#[test]
fn every_command_takes_an_environment_by_any_of_its_names() {
    let state = StateFolder::new();
    let kv = state.kv();
    let run = |words: &[&str], flag: &[&str]| {
        let arguments = [words, flag, &["--kv", &kv]].concat();
        let output = tidegate(&arguments, &[]);
        (output.code, format!("{}{}", output.stdout, output.stderr))
    };
    let flag = |words: &[&str], flag: &[&str]| run(words, flag).1;
    for words in [
        &["init", "--dry-run"][..],
        &["explain", "web/a"],
        &["canary", "--drain", "--dry-run"],
        &["set", "drain", "web/a", "--dry-run"],
        &["clear", "web/a", "--dry-run"],
        &["undo", "01K"],
        &["history"],
        &["deploy", "start", "cny", "--dry-run"],
        &["deploy", "finish", "cny", "--dry-run"],
        &["status"],
        &["get"],
        &["precheck", "--stage", "cny"],
        &["gate"],
        &["accept", "--yes"],
    ] {
        // Only gprd is set up here; what is shown depends on the moment.
        for (name, environment) in [("--production", "gprd"), ("--staging", "gstg")] {
            let (code, shown) = run(words, &[name]);
            let (expected, _) = run(words, &["--env", environment]);
            assert_eq!(code, expected, "{words:?} {name}: {shown}");
        }
        let unknown = flag(words, &["--env", "gprdd"]);
        let known = "--env: gprdd is no environment: known are gprd (production), gstg (staging)";
        assert!(unknown.contains(known), "{words:?}: {unknown}");
        let two = flag(words, &["--gprd", "--env", "gprd"]);
        assert!(two.contains("cannot be used with"), "{words:?}: {two}");
    }
    // The words mean what the configuration says.
    let folder = Folder::new("configuration");
    folder.write("tidegate.toml", "environments = { gprd = 'prod' }\n");
    let path = folder.join("tidegate.toml");
    let config = path.to_str().expect("a path in UTF-8");
    let shown = flag(&["history", "--config", config], &["--production"]);
    assert!(shown.contains("known are gprd (prod)"), "{shown}");
    let shown = flag(&["history", "--config", config], &["--env", "prod"]);
    assert!(shown.contains("no change is known"), "{shown}");
}

#[test]
fn the_guard_is_met_before_anything_is_written() {
    let state = StateFolder::new();
    let rows = r#"[{"server":"web/a","groups":["main"]},{"server":"web/b","groups":["main"]}]"#;
    state.put(
        "settings",
        format!(r#"{{"guard":{{"groups":["main"]}},"rails":{{"unattended":true}},"rows":{rows}}}"#),
    );
    let kv = state.kv();
    let with = |more: &[&'static str]| {
        let mut arguments = vec![
            "set", "--env", "gprd", "--kv", &kv, "drain", "web/a", "web/b",
        ];
        arguments.extend(more);
        arguments.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |more: &[&'static str], code: i32, stdout: &[&str], stderr: &[&str]| {
        let arguments = with(more);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        check(&arguments, code, stdout, stderr);
    };
    let refusals = [
        "server-overrides/web/a: web/a is of the group main",
        "server-overrides/web/b: web/b is of the group main",
        "--force with --reason",
    ];
    run(&[], 3, &[], &refusals);
    run(&["--reason", "move"], 3, &[], &refusals);
    run(&["--force"], 2, &[], &["--reason"]);
    assert!(!state.file("server-overrides/web/a").exists());
    run(
        &["--force", "--reason", "move"],
        3,
        &["web/a"],
        &["floor: ", "--below-floor overrides it", "many-rows: "],
    );
    assert!(!state.file("server-overrides/web/a").exists());
    run(
        &["--force", "--below-floor", "--yes", "--reason", "move"],
        0,
        &["\"force\":true", "written"],
        &[],
    );
    let explain = ["explain", "--env", "gprd", "--kv", &kv, "web/a main"];
    check(&explain, 0, &["up drain #"], &[]);
}

#[test]
fn a_zone_follows_the_fleet_again() {
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let kv = state.kv();
    let canary = |more: &'static [&str]| [&["canary", "--gprd", "--kv", &kv], more].concat();
    check(
        &canary(&["--drain", "--zone", "b"]),
        0,
        &["zones/b/canary-state"],
        &[],
    );
    let explain = [
        "explain",
        "--env",
        "gprd",
        "--kv",
        &kv,
        "web/cny canary zone=b",
    ];
    check(&explain, 0, &["up drain #"], &[]);
    let note = "note: zones/b/canary-state counts before it, by ";
    let value = " s ago: {\"v\":1,\"state\":\"drain\"";
    check(&canary(&["--maint"]), 0, &[note, value, "written"], &[]);
    check(&canary(&["--ready"]), 0, &[note, value, "written"], &[]);
    check(&canary(&["--clear", "--zone", "b"]), 0, &["(deleted)"], &[]);
    check(&explain, 0, &["up ready 100% #"], &[]);
    check(
        &canary(&["--clear", "--zone", "b"]),
        0,
        &["it is already so"],
        &[],
    );
    check(
        &canary(&["--clear"]),
        2,
        &[],
        &["--clear needs --zone or --node"],
    );
}

#[test]
fn a_store_out_of_reach_ends_with_6() {
    let nobody = [("CONSUL_HTTP_ADDR".to_owned(), "127.0.0.1:9".to_owned())];
    for arguments in [
        &["canary", "--gprd", "--drain"][..],
        &["init", "--env", "gprd"],
        &["explain", "--env", "gprd", "web/a"],
    ] {
        let output = tidegate(arguments, &nobody);
        assert_eq!(output.code, Some(6), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains("127.0.0.1:9"), "{}", output.stderr);
    }
    let nonsense = [("CONSUL_HTTP_ADDR".to_owned(), "ftp://x".to_owned())];
    let output = tidegate(&["canary", "--gprd", "--drain"], &nonsense);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert!(
        output.stderr.contains("CONSUL_HTTP_ADDR"),
        "{}",
        output.stderr
    );
}

#[test]
fn what_the_guard_would_freeze_is_not_written() {
    let folder = Folder::new("guard");
    let kv = format!("dir:{}", folder.path().display());
    let store = ["--env", "gprd", "--kv", &kv];
    let with = |command: &[&'static str]| [command, &["--reason", "r", "--yes"]].concat();
    check(&[&["init"], &store[..]].concat(), 0, &["is set up"], &[]);
    folder.write(
        "frontend/gprd/settings",
        r#"{"guard":{"groups":["main"]},"rows":[{"server":"web/m","groups":["main"]}]}"#,
    );
    let drain = [&with(&["set", "drain", "web/m"])[..], &store[..]].concat();
    let refusal = ["server-overrides/web/m: ", "protected by settings.guard"];
    check(&drain, 3, &[], &refusal);
    assert!(!folder.join("frontend/gprd/server-overrides").exists());
    // What stands there already and is frozen is not "already so".
    fs::create_dir_all(folder.join("frontend/gprd/server-overrides/web")).unwrap();
    folder.write("frontend/gprd/server-overrides/web/m", "drain");
    check(&drain, 3, &[], &refusal);
    let other = [&with(&["set", "drain", "web/other"])[..], &store[..]].concat();
    check(&other, 0, &["written to gprd"], &[]);
    for nothing in ["--by=", "--reason="] {
        let nameless = [&["set", "maint", "web/other", nothing], &store[..]].concat();
        check(&nameless, 2, &[], &["it says nothing"]);
    }
}
