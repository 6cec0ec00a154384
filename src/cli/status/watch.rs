//! Looking again and again.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use super::Output;
use crate::cli::look::Look;
use crate::cli::output::json_line;
use crate::cli::selector;
use crate::cli::{Exit, Failure, LAYOUT};
use crate::domain::plain::printable;
use crate::domain::selector::Selector;
use crate::domain::view::{View, changes};

/// To the top left corner.
const HOME: &str = "\x1b[H";
/// Erase the rest of the line, and the rest of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Shows a view each `interval` until the reader has gone.
pub(super) fn watch(
    look: &Look,
    selector: Option<&Selector>,
    output: Output,
    interval: Duration,
) -> Result<(), Failure> {
    let redraws = io::stdout().is_terminal();
    let mut before = None;
    loop {
        let mut view = look.view();
        let selected = selector::select(&mut view, selector);
        // What was there may go, and come back.
        if before.is_none() {
            selected?;
        }
        let text = if redraws {
            redrawn(&output.of(&view))
        } else {
            let text = appended(output, before.as_ref(), &view);
            printable(&text, &LAYOUT).into_owned()
        };
        match write(&text) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                let text = format!("standard output: {error}");
                return Err(Failure::new(Exit::Failed, text));
            }
        }
        before = Some(view);
        look.wait(interval);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Over the last one, without a blank screen in between.
fn redrawn(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.map(|line| format!("{}{REST_OF_LINE}\n", printable(line, &[])));
    let lines: String = lines.collect();
    format!("{HOME}{lines}{REST_OF_SCREEN}")
}

/// The first look whole, then what became other; as JSON each look is a line.
fn appended(output: Output, before: Option<&View>, view: &View) -> String {
    match (output, before) {
        (Output::Json, _) => json_line(view),
        (Output::Table, Some(before)) => {
            let lines = changes(before, view).into_iter();
            lines.map(|line| line + "\n").collect()
        }
        (Output::Chatops, Some(before)) if output.of(before) == output.of(view) => String::new(),
        (Output::Table | Output::Chatops, _) => output.of(view),
    }
}
