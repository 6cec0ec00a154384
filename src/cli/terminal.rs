//! The whole screen of a terminal, taken for a while and given back.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::tcgetwinsize;

use crate::domain::board::text::{Line, Size, Tone};

/// The other screen, no cursor, and what is too long cut instead of broken: characters may be wider
/// than they are counted. (xterm, "Control Sequences": DEC private modes 1049, 25 and 7.)
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// All of it back.
const GIVE_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the top left corner.
const HOME: &str = "\x1b[H";
/// Erase the rest of the line, and the rest of the screen.
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
/// As usual again.
const USUAL: &str = "\x1b[0m";
/// What terminals had before they told their size.
const USUAL_SIZE: Size = Size {
    columns: 80,
    rows: 24,
};

/// Whether the screen is taken. A signal may end the process while a picture is drawn.
static TAKEN: Mutex<bool> = Mutex::new(false);

/// The screen, until it is dropped or [`give_back`] is called.
#[derive(Debug)]
pub(super) struct Screen {
    colours: bool,
}

/// Whether standard output is a terminal that can be drawn on.
pub(super) fn is_screen() -> bool {
    io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Gives the screen back if it is taken: from then on nothing is drawn. False while something is
/// being drawn: try again.
pub(super) fn give_back() -> bool {
    match TAKEN.try_lock() {
        Ok(mut taken) => given_back(&mut taken),
        Err(TryLockError::Poisoned(error)) => given_back(&mut error.into_inner()),
        Err(TryLockError::WouldBlock) => return false,
    }
    true
}

fn given_back(taken: &mut bool) {
    if *taken {
        // A terminal that has gone needs nothing back.
        let _ = write(GIVE_BACK);
        *taken = false;
    }
}

impl Screen {
    /// Takes it.
    pub(super) fn take() -> io::Result<Self> {
        let mut taken = lock();
        write(TAKE)?;
        *taken = true;
        // https://no-color.org: set, and not empty.
        let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { colours })
    }

    /// How large it is now.
    pub(super) fn size() -> Size {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(USUAL_SIZE, |size| Size {
            columns: size.ws_col.into(),
            rows: size.ws_row.into(),
        })
    }

    /// Draws over what was there, without a blank screen in between.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let lines: Vec<_> = lines.iter().map(|line| self.painted(line)).collect();
        // Without a line end behind the last one: it would scroll.
        let text = lines.join("\r\n");
        let taken = lock();
        if *taken {
            write(&format!("{HOME}{text}{REST_OF_SCREEN}"))?;
        }
        Ok(())
    }

    /// Stops this process, as Ctrl-Z does, with the screen given back meanwhile.
    pub(super) fn suspend() -> io::Result<()> {
        given_back(&mut lock());
        kill_process(getpid(), Signal::STOP)?;
        let mut taken = lock();
        write(TAKE)?;
        *taken = true;
        Ok(())
    }

    fn painted(&self, line: &Line) -> String {
        let mut text = String::new();
        for span in line.spans() {
            let code = match span.tone {
                Tone::Plain => "",
                Tone::Strong => "\x1b[1m",
                Tone::Quiet => "\x1b[2m",
                Tone::Good => "\x1b[32m",
                Tone::Held => "\x1b[33m",
                Tone::Bad => "\x1b[1;31m",
            };
            if code.is_empty() || !self.colours {
                text += &span.text;
            } else {
                text += &format!("{code}{}{USUAL}", span.text);
            }
        }
        text + REST_OF_LINE
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        given_back(&mut lock());
    }
}

fn lock() -> MutexGuard<'static, bool> {
    // Nothing is done under the lock that could leave half of it.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
