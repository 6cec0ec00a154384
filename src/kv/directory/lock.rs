//! The lock that makes several files one step for everybody who runs this program.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::fault::{naming, unreachable_by};
use crate::kv::KvError;

/// How long to wait for somebody else's transaction. One takes milliseconds; a process that is
/// stopped while it holds the lock must not stop all others for ever.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// The lock, held until dropped (or until the process ends, however it ends).
#[derive(Debug)]
pub(super) struct Guard {
    _file: File,
}

/// How the lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// Takes the lock of a folder that can be written; the lock file is made if need be.
pub(super) fn take(path: &Path, mode: Mode) -> Result<Guard, KvError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    wait(path, mode, &options)?.ok_or_else(|| {
        KvError::Unreachable(format!("{}: the lock file does not stay", path.display()))
    })
}

/// Takes the lock of a folder that can only be read. `None` when nobody ever wrote there through
/// this program, so that there is nothing to wait for.
pub(super) fn take_to_read(path: &Path) -> Result<Option<Guard>, KvError> {
    wait(path, Mode::Shared, OpenOptions::new().read(true))
}

fn wait(path: &Path, mode: Mode, options: &OpenOptions) -> Result<Option<Guard>, KvError> {
    let end = Instant::now() + WAIT_MAX;
    let _turn = turn(path, mode, end);
    loop {
        match attempt(path, mode, options).map_err(unreachable_by(path))? {
            Attempt::Held(guard) => return Ok(Some(guard)),
            Attempt::NoFile => return Ok(None),
            Attempt::Busy if Instant::now() < end => std::thread::sleep(PAUSE),
            Attempt::Busy => {
                return Err(KvError::Unreachable(naming(
                    path,
                    &format!("another process has held the lock for {WAIT_MAX:?}"),
                )));
            }
        }
    }
}

/// The turn to wait for the lock: a lock on its folder. Whoever wants to be alone takes it from
/// the readers that come later; without it they would relieve each other for ever. `None` where it
/// cannot be had: that costs patience only.
fn turn(path: &Path, mode: Mode, end: Instant) -> Option<Guard> {
    let folder = path.parent()?;
    loop {
        match attempt(folder, mode, OpenOptions::new().read(true)) {
            Ok(Attempt::Held(guard)) => return Some(guard),
            Ok(Attempt::Busy) if Instant::now() < end => std::thread::sleep(PAUSE),
            Ok(Attempt::Busy | Attempt::NoFile) | Err(_) => return None,
        }
    }
}

enum Attempt {
    Held(Guard),
    NoFile,
    Busy,
}

fn attempt(path: &Path, mode: Mode, options: &OpenOptions) -> io::Result<Attempt> {
    // A lock file that another user made can be locked without the right to write it.
    let opened = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    };
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::NoFile),
        Err(error) => return Err(error),
    };
    let locked = match mode {
        Mode::Shared => file.try_lock_shared(),
        Mode::Exclusive => file.try_lock(),
    };
    match locked {
        // Whoever removed the file made the next one take another lock than ours.
        Ok(()) if still_there(path, &file)? => Ok(Attempt::Held(Guard { _file: file })),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(Attempt::Busy),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn still_there(path: &Path, file: &File) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
