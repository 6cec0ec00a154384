//! Commands as a person runs them: at a terminal.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use regex::Regex;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use super::process::{Output, Process, run};
use super::wait::{PATIENCE, check, eventually};

/// With what a picture begins and ends.
const HOME: &str = "\x1b[H";
const REST_OF_SCREEN: &str = "\x1b[J";

/// Words of a shell: the line `COMMAND` at a terminal of its own, which ends with that shell.
pub(crate) const TERMINAL: &str =
    r#"setpriv --pdeathsig KILL script --quiet --return --command "$COMMAND" /dev/null"#;

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
    let typing = format!(r#"echo "$TYPED" | {TERMINAL}"#);
    command
        .args(["-c", &typing])
        .env("TYPED", typed)
        .env("COMMAND", line)
        .envs(environment.iter().cloned());
    run("at-a-terminal", &command, Duration::from_mins(1))
}

/// A terminal of its own, at which a command goes on.
pub(crate) struct Terminal {
    process: Process,
    keyboard: File,
    folder: Folder,
}

impl Terminal {
    /// Starts `tidegate <arguments>` at a terminal of so many columns and lines.
    pub(crate) fn start(
        arguments: &[&str],
        environment: &[(&str, &str)],
        (columns, rows): (usize, usize),
    ) -> Self {
        let folder = Folder::new("terminal");
        let (pid, tty) = (folder.join("pid"), folder.join("tty"));
        let line = format!(
            "stty rows {rows} cols {columns}; tty > {}; echo $$ > {}; exec {} {}",
            tty.display(),
            pid.display(),
            env!("CARGO_BIN_EXE_tidegate"),
            arguments.join(" ")
        );
        let keyboard = folder.join("keyboard");
        mkfifoat(CWD, &keyboard, Mode::RUSR | Mode::WUSR).expect("the folder takes files");
        let mut command = Command::new("sh");
        let typing = r#"exec script --quiet --return --command "$COMMAND" /dev/null <"$KEYBOARD""#;
        command
            .args(["-c", typing])
            .env("COMMAND", line)
            .env("KEYBOARD", &keyboard)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied());
        // Open for both, it waits for nobody, and never ends.
        let keyboard = File::options().read(true).write(true).open(&keyboard);
        Self {
            keyboard: keyboard.expect("it was made"),
            process: Process::start("terminal", folder.path(), &command),
            folder,
        }
    }

    /// Types this.
    pub(crate) fn type_keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).expect("it is open");
    }

    /// Sends a signal to the command itself.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.folder.join("pid")).expect("the command has begun");
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(pid.expect("the shell writes its id"), signal).expect("it runs");
    }

    /// Waits until the command has stopped, as a job that is set aside.
    pub(crate) fn await_stopped(&self) {
        let pid = fs::read_to_string(self.folder.join("pid")).expect("the command has begun");
        eventually("the command has stopped", PATIENCE, || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            let stat = stat.map_err(|error| error.to_string())?;
            check(stat.contains(") T "), || stat)
        });
    }

    /// Lets it go on: `script` has stopped with it.
    pub(crate) fn go_on(&mut self) {
        self.process.resume();
        self.signal(Signal::CONT);
    }

    /// Makes the terminal another size, as somebody does with a mouse.
    pub(crate) fn resize(&self, columns: usize, rows: usize) {
        let tty = fs::read_to_string(self.folder.join("tty")).expect("the command has begun");
        let mut stty = Command::new("stty");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        stty.args(["-F", tty.trim(), "rows", &rows, "cols", &columns]);
        let output = run("stty", &stty, Duration::from_secs(10));
        assert_eq!(output.code, Some(0), "{output:?}");
    }

    /// Everything that was written to it so far, as it was written.
    pub(crate) fn written(&self) -> String {
        self.process.log_text()
    }

    /// What the last whole picture shows, without tones.
    pub(crate) fn picture(&self) -> String {
        let written = self.written();
        let whole = written.rfind(REST_OF_SCREEN).unwrap_or(0);
        let begin = written[..whole].rfind(HOME).unwrap_or(whole);
        let controls = Regex::new("\x1b\\[[0-9;]*[A-Za-z]").expect("a constant pattern");
        controls
            .replace_all(&written[begin..whole], "")
            .replace("\r\n", "\n")
    }

    /// Waits until the picture fits; gives it.
    pub(crate) fn await_picture(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        eventually(what, PATIENCE, || {
            let picture = self.picture();
            check(fits(&picture), || self.process.log_text())?;
            Ok(picture)
        })
    }

    /// How the command ended.
    pub(crate) fn await_end(&mut self) -> Option<i32> {
        let ended = self.process.await_end(Duration::from_secs(10));
        ended.and_then(|status| status.code())
    }
}
