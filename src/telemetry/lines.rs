//! Where log lines go: an event is one line, whatever texts are in it.
//!
//! What is logged quotes keys, values and answers of others. A line end in one would forge a line,
//! and an escape sequence would steer the terminal of who reads it.

use std::borrow::Cow;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::domain::plain::printable;

/// Standard error, with control characters written as `\n`, `\u{1b}`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines;

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

impl Write for Lines {
    /// Takes one event: the subscriber writes each with one call, its line end last.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut to = io::stderr().lock();
        let body = event.strip_suffix(b"\n").unwrap_or(event);
        match printable(&String::from_utf8_lossy(body), &[]) {
            Cow::Borrowed(_) => to.write_all(event)?,
            Cow::Owned(line) => to.write_all((line + "\n").as_bytes())?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
