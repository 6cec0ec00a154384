//! Who is asked, and who never is; and readers that go before the end.

use std::process::Command;
use std::thread;

use super::*;
use crate::harness::process::run;
use crate::harness::terminal::{at_a_terminal, shell_at_a_terminal};

/// Each command that asks.
const ASKING: [&[&str]; 3] = [
    &["set", "drain", "web/b"],
    &["clear", "web/a"],
    &["undo", "CHANGE"],
];

/// An environment in which each of them would change something, and the id to undo.
fn place() -> (Place, String) {
    let place = Place::folder();
    set_up(&place);
    let change = id(&place.done(&["set", "40%", "web/a"]));
    (place, change)
}

fn of<'a>(command: &[&'a str], change: &'a str) -> Vec<&'a str> {
    let word = |word: &&'a str| if *word == "CHANGE" { change } else { *word };
    command.iter().map(word).collect()
}

#[test]
fn without_a_terminal_nobody_is_asked_and_nothing_is_written() {
    let (place, change) = place();
    let generation = place.generation();
    for command in ASKING {
        let command = of(command, &change);
        let output = place.run_as_it_is(&command);
        let text = "error: there is no terminal to ask at: look at --dry-run, then say --yes; \
                    nothing was written";
        // What it would have done is shown.
        expect(&output, 2, &[text, "frontend/gprd/server-overrides/web/"]);
        assert!(!output.stderr.contains("[y/N]"), "{output:?}");
        // A pipe with an answer in it is no person either.
        let piped = format!(
            "yes | {} {} --env gprd --kv {}",
            env!("CARGO_BIN_EXE_tidegate"),
            command.join(" "),
            place.kv()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &piped]);
        expect(&run("piped", &shell, PATIENCE), 2, &[text]);
        let dry = place.run_as_it_is(&[&command[..], &["--dry-run"]].concat());
        expect(&dry, 0, &["dry run: nothing was written"]);
    }
    // Neither is the sentence of many rows.
    let many = ["set", "drain", "group=main"];
    expect(
        &place.run_as_it_is(&many),
        3,
        &["many-rows: ", "nothing was written"],
    );
    assert_eq!(place.generation(), generation);
    for command in ASKING {
        let command = [&of(command, &change)[..], &["--yes"]].concat();
        let output = place.run_as_it_is(&command);
        // The undo meets what the clear has put back already.
        expect(&output, 0, &[]);
    }
}

#[test]
fn at_a_terminal_a_no_writes_nothing_and_a_yes_writes() {
    let (place, change) = place();
    let kv = place.kv();
    let run = |command: &[&str], typed: &str| {
        let store = ["--env", "gprd", "--kv", &kv];
        at_a_terminal(&[command, &store].concat(), &[], typed)
    };
    let generation = place.generation();
    // Side by side: a terminal takes its time to close.
    thread::scope(|scope| {
        for command in ASKING {
            for typed in ["n", "", "yess"] {
                let (run, change) = (&run, &change);
                scope.spawn(move || {
                    let output = run(&of(command, change), typed);
                    expect(
                        &output,
                        3,
                        &["Write this? [y/N]", "error: nothing was written"],
                    );
                });
            }
        }
    });
    assert_eq!(place.generation(), generation);
    expect(
        &run(ASKING[0], "y"),
        0,
        &["Write this? [y/N]", "written to gprd"],
    );
    assert_eq!(place.json("server-overrides/web/b")["state"], "drain");
    place.done(&["clear", "web/a", "web/b"]);

    let many = [
        "set",
        "drain",
        "group=main",
        "--below-floor",
        "--canary-alone",
        "--reason",
        "r",
    ];
    let sentence = "take traffic from 3 of 3 servers";
    let generation = place.generation();
    let asked = format!("To do it all the same, type: {sentence}");
    expect(
        &run(&many, "take traffic from 2 of 3 servers"),
        3,
        &[&asked],
    );
    assert_eq!(place.generation(), generation);
    let output = run(&many, &format!("{sentence}\ny"));
    expect(&output, 0, &["Write this? [y/N]", "written to gprd"]);
    assert_eq!(place.generation(), generation + 1);
}

/// Everything that prints: the same end as with a reader, and no word of it.
#[test]
fn a_reader_that_has_gone_is_no_error() {
    let (place, change) = place();
    let store = format!("--env gprd --kv {}", place.kv());
    let nobody = "--replica http://127.0.0.1:1";
    for (command, code) in [
        (format!("status {store} {nobody}"), 0),
        (format!("status --output json {store} {nobody}"), 0),
        (format!("status --output chatops {store} {nobody}"), 0),
        (format!("status --watch=1s {store} {nobody}"), 0),
        (format!("get {store} {nobody}"), 0),
        (format!("precheck --stage cny {store} {nobody}"), 4),
        (format!("gate {store} {nobody}"), 4),
        (format!("history {store}"), 0),
        (format!("history --output json {store}"), 0),
        (format!("explain {store} 'web/a main'"), 0),
        (format!("canary {store} {nobody}"), 0),
        (format!("canary --drain --dry-run {store} {nobody}"), 0),
        (format!("canary --drain {store} {nobody}"), 0),
        (format!("set drain web/b --yes {store} {nobody}"), 0),
        (format!("set drain group=main --yes {store} {nobody}"), 3),
        (format!("clear web/b --yes {store} {nobody}"), 0),
        (format!("undo {change} --yes {store} {nobody}"), 0),
        (format!("deploy start cny {store} {nobody}"), 0),
        (format!("accept --dry-run --force {store} {nobody}"), 0),
        (format!("init --dry-run --env other --kv {}", place.kv()), 0),
        ("check-config examples/tidegate.toml".to_owned(), 0),
        ("completions bash".to_owned(), 0),
        ("man".to_owned(), 0),
        ("man canary".to_owned(), 0),
        ("--help".to_owned(), 0),
        ("set --help".to_owned(), 0),
        ("--version".to_owned(), 0),
    ] {
        // The reader is gone before the command starts.
        let line = format!(
            "exec 3> >(:); wait $!; exec {} {command} >&3",
            env!("CARGO_BIN_EXE_tidegate")
        );
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &line])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = run("no-reader", &shell, PATIENCE);
        assert_eq!(output.code, Some(code), "{command}: {output:?}");
        let said = ["Broken pipe", "standard output", "panicked"];
        assert!(
            said.iter().all(|text| !output.stderr.contains(text)),
            "{command}: {output:?}"
        );
    }
    // What wrote has written.
    assert_eq!(place.json("canary-state")["state"], "drain");
    assert_eq!(place.json("deploys/cny")["active"], true);
}

/// There are none to begin with, so that nothing has to be switched off.
#[test]
fn there_are_no_colours_at_a_terminal_or_elsewhere() {
    let (place, _) = place();
    let store = format!("--env gprd --kv {}", place.kv());
    let commands = [
        "status --replica http://127.0.0.1:1",
        "history",
        "set drain web/b --yes",
        "set drain group=main --yes",
        "set --help",
        "set drain --frobnicate",
    ];
    let program = env!("CARGO_BIN_EXE_tidegate");
    let lines = commands.map(|command| format!("{program} {command} {store}"));
    // The second round undoes what the first has written: both show all of it.
    let lines = [
        &lines[..],
        &[format!("{program} clear web/b --yes {store}")],
    ]
    .concat();
    let line = lines.join("; ");
    let shown = shell_at_a_terminal(
        &format!("{line}; NO_COLOR=1; export NO_COLOR; {line}"),
        &[],
        "",
    )
    .stdout;
    for text in ["written to gprd", "many-rows", "Usage:", "--frobnicate"] {
        assert!(shown.matches(text).count() > 1, "{text}: {shown}");
    }
    assert!(!shown.contains('\x1b'), "{shown:?}");
}
