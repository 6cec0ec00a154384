//! `tidegate lint` as a command: what it prints, and how it ends.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tidegate::domain::haproxy::lint::ALL;

use crate::harness::folder::Folder;
use crate::harness::process::Output;
use crate::harness::tidegate::tidegate;

fn corpus(rule: &str) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    format!("{folder}/tests/it/lint/corpus/{rule}.cfg")
}

fn lint(arguments: &[&str]) -> Output {
    let mut all = vec!["lint"];
    all.extend(arguments);
    tidegate(&all, &[])
}

#[test]
fn an_error_ends_with_10_and_is_told_with_its_line_why_and_how_to_mend_it() {
    let file = corpus("agent-send-literal");
    let output = lint(&[&file]);
    assert_eq!(output.code, Some(10), "{output:?}");
    for text in [
        &format!("{file}:14: error: a backslash and an n are sent [agent-send-literal]\n"),
        "    server a 127.0.0.1:8001 weight 100",
        "  why:  In single quotes",
        "  mend: Write the request in double quotes",
        "1 errors, 0 warnings, 0 notes, 0 allowed; 2 of 2 servers ask an agent",
    ] {
        assert!(output.stdout.contains(text), "no {text:?} in {output:?}");
    }
}

#[test]
fn a_warning_ends_with_10_only_when_it_shall() {
    let file = corpus("slowstart");
    assert_eq!(lint(&[&file]).code, Some(0));
    assert_eq!(lint(&[&file, "--strict"]).code, Some(10));
    let file = corpus("ramp-alone");
    assert!(!lint(&[&file]).stdout.contains("ramp-alone"));
    let output = lint(&[&file, "--notes", "--strict"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("ramp-alone"), "{output:?}");
}

#[test]
fn a_file_that_is_not_there_ends_with_1() {
    let output = lint(&["/nowhere/haproxy.cfg"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("/nowhere/haproxy.cfg: No such file"),
        "{output:?}"
    );
    assert_eq!(lint(&[]).code, Some(2));
}

#[test]
fn a_variable_that_haproxy_is_started_with_can_be_told() {
    let file = corpus("agent-send-variable");
    assert_eq!(lint(&[&file]).code, Some(10));
    assert_eq!(
        lint(&[&file, "--variable", "LB_ZONE=us-east1-b"]).code,
        Some(0)
    );
    assert_eq!(lint(&[&file, "--variable", "LB_ZONE="]).code, Some(10));
    assert_eq!(lint(&[&file, "--variable", "LB_ZONE"]).code, Some(2));
}

#[test]
fn a_program_reads_the_findings_as_json() {
    let output = lint(&[&corpus("weight-zero"), "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    let finding = &json["findings"][0];
    assert_eq!(finding["rule"], "weight-zero");
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["message"], "web/a has weight 0");
    assert!(
        finding["place"]
            .as_str()
            .is_some_and(|place| place.ends_with("weight-zero.cfg:14"))
    );
    assert!(
        finding["why"].is_string() && finding["mend"].is_string(),
        "{json}"
    );
    assert_eq!(json["servers"]["enrolled"], 2);
}

#[test]
fn each_rule_is_listed_and_explained() {
    let all = lint(&["--rules"]);
    for rule in ALL {
        assert!(
            all.stdout.contains(&format!("\n{} ", rule.id)),
            "{}",
            rule.id
        );
    }
    let one = lint(&["--explain", "slowstart"]);
    assert!(one.stdout.contains("mend:  Take slowstart away"), "{one:?}");
    let unknown = lint(&["--explain", "foo"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}

#[test]
fn several_files_and_folders_are_one_configuration() {
    let folder = Folder::new("lint-files");
    let text = std::fs::read_to_string(corpus("last-server")).expect("it is there");
    let (head, backend) = text.split_once("backend web").expect("one backend");
    std::fs::create_dir(folder.join("conf")).expect("the folder is new");
    let first = folder.write("haproxy.cfg", head);
    folder.write("conf/web.cfg", &format!("backend web{backend}"));
    folder.write("conf/.hidden.cfg", "'");
    let (first, conf) = (
        first.display().to_string(),
        folder.join("conf").display().to_string(),
    );
    let output = lint(&[&first, &conf]);
    assert!(
        output.stdout.contains("conf/web.cfg:2: warning"),
        "{output:?}"
    );
    assert_eq!(output.stdout.matches("  why:").count(), 1, "{output:?}");
}

/// A release takes a part of a second for it; the bound is for a debug build on a busy machine, and
/// what grows with the square of the lines is far beyond it.
#[test]
fn fifty_thousand_lines_are_judged() {
    let mut text = "global\n spread-checks 10\n max-spread-checks 50ms\n\
                    defaults\n option log-health-checks\n"
        .to_owned();
    for backend in 0..500 {
        writeln!(text, "backend b{backend}").expect("a string takes every byte");
        for server in 0..99 {
            writeln!(
                text,
                " server s{server} 127.0.0.1:80 weight 100 check agent-check agent-addr 127.0.0.1 \
                 agent-port 8790 agent-inter 2s agent-send \"b{backend}/s{server} base=100\\n\""
            )
            .expect("a string takes every byte");
        }
    }
    let folder = Folder::new("lint-large");
    let path = folder.write("haproxy.cfg", &text).display().to_string();
    let begin = Instant::now();
    let output = lint(&[&path]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        begin.elapsed() < Duration::from_mins(1),
        "{:?}",
        begin.elapsed()
    );
}
