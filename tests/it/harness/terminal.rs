//! Commands as a person runs them: at a terminal.

use std::process::Command;
use std::time::Duration;

use super::process::{Output, run};

/// Runs `tidegate <arguments>` at a terminal at which this is typed: `script` gives it one. Both
/// outputs come on standard output, with the line ends of a terminal.
pub(crate) fn at_a_terminal(
    arguments: &[&str],
    environment: &[(String, String)],
    typed: &str,
) -> Output {
    let words = [&[env!("CARGO_BIN_EXE_tidegate")], arguments].concat();
    let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    shell_at_a_terminal(&words.join(" "), environment, typed)
}

/// The same with any line of a shell.
pub(crate) fn shell_at_a_terminal(
    line: &str,
    environment: &[(String, String)],
    typed: &str,
) -> Output {
    let mut command = Command::new("sh");
    let typing = r#"echo "$TYPED" | script --quiet --return --command "$COMMAND" /dev/null"#;
    command
        .args(["-c", typing])
        .env("TYPED", typed)
        .env("COMMAND", line)
        .envs(environment.iter().cloned());
    run("at-a-terminal", &command, Duration::from_mins(1))
}
