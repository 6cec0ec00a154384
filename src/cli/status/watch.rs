//! Looking again and again.

use std::io::{self, Write as _};
use std::pin::pin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tokio::signal::unix::SignalKind;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::picture::Picture;
use super::{Output, something};
use crate::cli::context::receive;
use crate::cli::look::Look;
use crate::cli::output::json_line;
use crate::cli::selector;
use crate::cli::terminal::{Screen, is_screen};
use crate::cli::{Exit, Failure, LAYOUT};
use crate::clock;
use crate::domain::board::text::Line;
use crate::domain::plain::printable;
use crate::domain::selector::Selector;
use crate::domain::view::{View, changes};

/// How often a picture is drawn anew between two looks: what lies ahead is counted in seconds.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows the fleet each `every` until the reader has gone, or a signal ends it.
pub(super) fn watch(
    look: &Look,
    selector: Option<&Selector>,
    output: Output,
    every: Duration,
) -> Result<(), Failure> {
    let drawn = match output {
        Output::Table | Output::Chatops => is_screen(),
        Output::Json => false,
    };
    let outcome = if drawn {
        look.context.end_on_signals()?;
        look.context.block_on(draw(look, selector, output, every))
    } else {
        follow(look, selector, output, every)
    };
    match outcome {
        Err(Ended::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Ended::Output(error)) => {
            let text = format!("standard output: {error}");
            Err(Failure::new(Exit::Failed, text))
        }
        Err(Ended::Failure(failure)) => Err(failure),
        Ok(()) => Ok(()),
    }
}

/// Why it ends.
enum Ended {
    Output(io::Error),
    Failure(Failure),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// At a terminal: a picture, drawn over the one before.
async fn draw(
    look: &Look,
    selector: Option<&Selector>,
    output: Output,
    every: Duration,
) -> Result<(), Ended> {
    let prefix = &look.context.prefix;
    let seen = look.seen().await;
    let mut picture = Picture::first(prefix, selector, seen)?;
    something(&picture.view)?;
    let mut resized = receive(SignalKind::window_change())?;
    let mut suspended = receive(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut tick = interval(DRAW_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let screen = Screen::take()?;
    loop {
        let mut next = pin!(async {
            sleep(every).await;
            look.seen().await
        });
        let seen = loop {
            let size = Screen::size();
            let lines = match output {
                Output::Table | Output::Json => picture.lines(prefix, clock::now(), size),
                Output::Chatops => {
                    let text = output.of(&picture.view);
                    text.lines().take(size.rows).map(Line::said).collect()
                }
            };
            screen.draw(&lines)?;
            tokio::select! {
                biased;
                seen = &mut next => break seen,
                _ = suspended.recv() => Screen::suspend()?,
                _ = resized.recv() => {}
                _ = tick.tick() => {}
            }
        };
        picture = picture.next(prefix, selector, seen);
    }
}

/// Elsewhere: the first look whole, then what became other.
fn follow(
    look: &Look,
    selector: Option<&Selector>,
    output: Output,
    every: Duration,
) -> Result<(), Ended> {
    let mut before = None;
    while !is_reader_gone() {
        let mut view = look.view();
        let selected = selector::select(&mut view, selector);
        // What was there may go, and come back.
        if before.is_none() {
            selected?;
            something(&view)?;
        }
        let text = appended(output, before.as_ref(), &view);
        let mut stdout = io::stdout().lock();
        stdout.write_all(printable(&text, &LAYOUT).as_bytes())?;
        stdout.flush()?;
        before = Some(view);
        look.wait(every);
    }
    Ok(())
}

/// As JSON, and for chat, a look is written whole when it differs from the one before.
fn appended(output: Output, before: Option<&View>, view: &View) -> String {
    let lines = before.map(|before| changes(before, view));
    match (output, lines) {
        (Output::Json, Some(lines)) if lines.is_empty() => String::new(),
        (Output::Json, _) => json_line(view),
        (Output::Table, Some(lines)) => lines.into_iter().map(|line| line + "\n").collect(),
        (Output::Chatops, Some(_)) if before.map(|it| output.of(it)) == Some(output.of(view)) => {
            String::new()
        }
        (Output::Table | Output::Chatops, _) => output.of(view),
    }
}

/// Whether the other end of a pipe is closed: without a change nothing is written that would fail.
fn is_reader_gone() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec::default();
    // What cannot be asked is noticed at the next write.
    poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().contains(PollFlags::ERR)
}
