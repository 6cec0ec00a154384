//! A started program that cannot outlive its test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::wait::{check, eventually};

/// Consul needs up to 2.5 s to leave in order; after this the program is killed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Enough of a log to see why, little enough to read.
const LOG_LINES_SHOWN: usize = 60;

/// One running program: its output in a file, its end in `Drop`.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with standard output and error appended to `<folder>/<name>.log`.
    pub(crate) fn start(name: &str, folder: &Path, command: &Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = append_to(&log);
        let errors = output.try_clone().expect("a file descriptor is left");
        let mut command = bound_to_this_process(command);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = spawn(command).unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// The program's own process id: launchers on the way to it end in exec.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many file descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.id());
        fs::read_dir(folder).expect("the process runs").count()
    }

    /// How the program ended, or `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("the child is ours to wait for")
    }

    /// Sends a signal and does not wait for its effect. A program that has ended gets none.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // Not yet waited for, so the id cannot belong to another process by now.
            kill_process(Pid::from_child(&self.child), signal)
                .unwrap_or_else(|error| panic!("cannot signal {}: {error}", self.name));
        }
    }

    /// Holds the program as a hung one: it keeps its sockets and does nothing.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        // Its threads stop one after the other, and one that runs may still answer.
        let tasks = format!("/proc/{}/task", self.id());
        eventually(&format!("{} stands still", self.name), STOP_MAX, || {
            let threads = fs::read_dir(&tasks).map_err(|error| error.to_string())?;
            for thread in threads.flatten() {
                // One that ends meanwhile answers nobody.
                let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                let state = stat.rsplit(") ").next().unwrap_or_default();
                check(state.is_empty() || state.starts_with('T'), || stat.clone())?;
            }
            Ok(())
        });
    }

    /// Lets a paused program go on.
    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, and SIGKILL when that was not enough. Gives how the program ended.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.stop_within(STOP_MAX)
    }

    /// The same with a limit of its own between the two signals.
    pub(crate) fn stop_within(&mut self, limit: Duration) -> ExitStatus {
        self.signal(Signal::TERM);
        // A paused program cannot obey before it goes on.
        self.signal(Signal::CONT);
        match self.await_end(limit) {
            Some(status) => status,
            None => self.kill(),
        }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.child.wait().expect("the child is ours to wait for")
    }

    /// How the program ended, waiting for at most `limit`.
    pub(crate) fn await_end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        // `eventually` panics at its limit; here the limit is an answer.
        eventually(
            "the end of a process, or the limit",
            limit * 2,
            || match self.ended() {
                Some(status) => Ok(Some(status)),
                None if begin.elapsed() >= limit => Ok(None),
                None => Err("still running".to_owned()),
            },
        )
    }

    /// Fails with the log when the program has ended: to be asked while waiting for its readiness.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!(
                "{} ended: {}\n{}",
                self.name,
                describe(status),
                self.log_tail()
            );
        }
    }

    /// Everything the program has printed so far.
    pub(crate) fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until the program has printed `text`.
    pub(crate) fn await_log(&self, text: &str, limit: Duration) {
        eventually(&format!("{} prints {text:?}", self.name), limit, || {
            check(self.log_text().contains(text), || self.log_tail())
        });
    }

    fn log_tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        format!(
            "--- {}, the last lines of {}\n{}",
            self.name,
            self.log.display(),
            shown.join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
            // No panic may come out of a drop during a panic: the plainest way to end it.
            self.child.kill().ok();
            self.child.wait().ok();
        } else {
            self.stop();
        }
    }
}

/// A command for `program` behind the words that start it somewhere else; those end in exec.
pub(crate) fn behind(launcher: &[String], program: impl AsRef<OsStr>) -> Command {
    match launcher.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// What a finished program left: for commands that run once.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit code, or `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end, for at most `limit`; nothing is read from standard input.
pub(crate) fn run(name: &str, command: &Command, limit: Duration) -> Output {
    let folder = super::folder::Folder::new(name);
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    let mut bound = bound_to_this_process(command);
    bound
        .stdin(Stdio::null())
        .stdout(append_to(&out))
        .stderr(append_to(&err));
    let child = spawn(bound).unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
    let mut process = Process {
        name: name.to_owned(),
        child,
        log: err.clone(),
    };
    let status = process
        .await_end(limit)
        .unwrap_or_else(|| panic!("{name} did not end within {limit:?}: {command:?}"));
    let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    Output {
        code: status.code(),
        stdout: read(out),
        stderr: read(err),
    }
}

/// The same command behind `setpriv`, which asks the kernel to kill it when this process dies, so
/// that a test that is itself killed leaves nothing behind. (The call itself would be unsafe code.)
/// A parent that died before the request was made is noticed by the shell that comes next.
fn bound_to_this_process(command: &Command) -> Command {
    const ONLY_WITH_PARENT: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;
    let mut bound = Command::new("setpriv");
    bound.args([
        "--pdeathsig",
        "KILL",
        "--",
        "sh",
        "-c",
        ONLY_WITH_PARENT,
        "sh",
    ]);
    bound
        .arg(std::process::id().to_string())
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

/// Starts a command from a thread that lives as long as the process: the kernel counts the death
/// of the *thread* that started a child as the parent's death.
fn spawn(command: Command) -> io::Result<Child> {
    type Request = (Command, Sender<io::Result<Child>>);
    static SPAWNER: LazyLock<Sender<Request>> = LazyLock::new(|| {
        let (tx, rx) = mpsc::channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, answer) in rx {
                answer.send(command.spawn()).ok();
            }
        });
        tx
    });
    let (tx, rx) = mpsc::channel();
    SPAWNER
        .send((command, tx))
        .expect("the spawning thread never ends");
    rx.recv().expect("the spawning thread answers each request")
}

fn append_to(path: &Path) -> File {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status}"),
    }
}
