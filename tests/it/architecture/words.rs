//! What tests must not do, and what the documentation must say.

use super::sources;
use crate::harness::kept::expect_kept;
use crate::harness::tidegate::tidegate;

/// Files of the tests that pause for a span, and why that is not waiting for an effect.
const PAUSES: [(&str, &str); 7] = [
    ("tests/it/peers_http/bad_peers.rs", "a peer that drips"),
    ("tests/it/sim/checks.rs", "simulated time"),
    ("tests/it/sim/replica.rs", "simulated time"),
    ("tests/it/sim/story.rs", "simulated time"),
    (
        "tests/it/harness/wait.rs",
        "the one place that waits by polling",
    ),
    (
        "tests/it/folder/events.rs",
        "writes at a pace, as an editor does",
    ),
    (
        "tests/it/folder/writers.rs",
        "kills a writer at many moments of its work",
    ),
];

#[test]
fn tests_await_events_and_do_not_sleep() {
    let words = ["sleep("];
    for folder in ["tests", "benches"] {
        let others = sources(folder)
            .filter(|source| source.path != "tests/it/architecture/words.rs")
            .filter(|source| PAUSES.iter().all(|(path, _)| *path != source.path));
        let wrong: Vec<_> = others.flat_map(|source| source.places_of(&words)).collect();
        assert!(
            wrong.is_empty(),
            "wait::eventually waits, wait::let_pass paces: {wrong:#?}"
        );
    }
    for (path, _) in PAUSES {
        let stale = sources("tests")
            .all(|source| source.path != path || source.places_of(&words).is_empty());
        assert!(!stale, "{path} no longer sleeps: take it off the list");
    }
}

/// The page is what the program says of itself. After a change of the command line, run this test
/// with `TIDEGATE_WRITE_DOCS=1`.
#[test]
fn the_page_of_the_command_line_is_what_the_program_says() {
    expect_kept("docs/command-line.md", &page());
}

fn page() -> String {
    let mut page = format!(
        "# Command line\n\nAs `--help` prints it.\n\n```text\n{}```\n",
        help(&[])
    );
    add_commands_of(&[], &mut page);
    page
}

/// A section for each command below one, and for those below it.
fn add_commands_of(above: &[&str], page: &mut String) {
    let all = help(above);
    let Some((_, commands)) = all.split_once("Commands:\n") else {
        return;
    };
    let names = commands
        .lines()
        .map_while(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .filter(|command| *command != "help");
    for command in names {
        let path = [above, &[command]].concat();
        let text = help(&path);
        *page += &format!("\n## tidegate {}\n\n```text\n{text}```\n", path.join(" "));
        add_commands_of(&path, page);
    }
}

fn help(command: &[&str]) -> String {
    let arguments = [command, &["--help"]].concat();
    let output = tidegate(&arguments, &[]);
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output.stdout
}
