//! Asking the person at the terminal. Without a terminal nobody is ever asked.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use super::{Exit, Failure, LAYOUT};
use crate::domain::plain::printable;

/// The longest answer to a question.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// What a command ends with (2) that has to ask, and has nobody to ask.
pub(super) const NO_TERMINAL: &str =
    "there is no terminal to ask at: look at --dry-run, then say --yes; nothing was written";

/// Whether somebody can be asked.
pub(super) fn has_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Writes to standard error; nobody is left to tell when it is gone.
pub(super) fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(printable(text, &LAYOUT).as_bytes())
        .and_then(|()| stderr.flush());
}

/// Writes a line over the one that was written so before.
pub(super) fn tell_over(line: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "\r\x1b[K{}", printable(line, &[])).and_then(|()| stderr.flush());
}

/// Asks, and reads one line.
pub(super) fn ask(question: &str) -> Result<String, Failure> {
    tell(question);
    let mut line = String::new();
    let mut stdin = io::stdin().lock().take(ANSWER_BYTES_MAX);
    let failed = |error| Failure::new(Exit::Failed, format!("standard input: {error}"));
    stdin.read_line(&mut line).map_err(failed)?;
    Ok(line.trim().to_owned())
}

/// Asks for a yes; anything else ends the command.
pub(super) fn confirm(question: &str) -> Result<(), Failure> {
    match ask(&format!("{question} [y/N] "))?.as_str() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Refused, "nothing was written")),
    }
}
