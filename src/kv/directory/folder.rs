//! The folder as a store: the lock, the state, the journal and the files, put together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::Access;

use super::events::Events;
use super::fault::{naming, settled, unreachable_by};
use super::files;
use super::journal::Journal;
use super::lock::{self, Mode};
use super::path::{OWN, SWAP_LINK, Scope};
use super::scan::{Values, folder_metadata, scan};
use super::state::State;
use crate::kv::KvError;

const STATE_FILE: &str = "state.json";
const STATE_ASIDE: &str = "state.json.unreadable";
const LOCK_FILE: &str = "lock";
/// How long a key must be gone before its deletion is believed. Together with the reading it stays
/// within the time in which a change is seen.
const GONE_PAUSE: Duration = Duration::from_millis(50);
/// The most readings until two in a row miss the same keys.
const GONE_READINGS_MAX: usize = 8;
/// The most notices kept for whoever asks.
const NOTICES_MAX: usize = 16;

/// One folder. Every method blocks.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) root: PathBuf,
    pub(super) own: PathBuf,
    never_write: bool,
    now: fn() -> Timestamp,
    /// What is remembered while it cannot be written down.
    memory: Mutex<Option<Memory>>,
    notices: Mutex<Vec<String>>,
}

/// A state that stands in the memory of this process alone.
#[derive(Debug, Clone)]
struct Memory {
    /// The index of the file that it continues; 0 without a file.
    continues: u64,
    state: State,
}

/// What one look at the folder showed.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) values: Values,
    pub(super) state: State,
}

impl Folder {
    pub(super) fn new(root: PathBuf, never_write: bool, now: fn() -> Timestamp) -> Self {
        Self {
            own: root.join(OWN),
            root,
            never_write,
            now,
            memory: Mutex::new(None),
            notices: Mutex::new(Vec::new()),
        }
    }

    /// Whether it can be written; the text says why not.
    pub(super) fn writable(&self) -> Result<(), String> {
        if self.never_write {
            return Err(naming(&self.root, "opened to be read only"));
        }
        if self.root.join(SWAP_LINK).is_symlink() {
            let text = "a ConfigMap or Secret volume; change the object instead";
            return Err(naming(&self.root, text));
        }
        match fs::create_dir(&self.own) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(naming(&self.own, &error.to_string())),
        }
        may_write(&self.own)
    }

    /// Reads the keys of the scope, each with its index.
    pub(super) fn read(
        &self,
        scope: Scope<'_>,
        events: Option<&Events>,
    ) -> Result<Reading, KvError> {
        folder_metadata(&self.root)?;
        if self.writable().is_err() {
            let _guard = lock::take_to_read(&self.lock_file())?;
            return self.read_unrecorded(scope, events);
        }
        let seen = match self.look(scope, events)? {
            Look::Unchanged(reading) => return Ok(reading),
            Look::Changed(seen) => Some(seen),
            Look::Unfinished => None,
        };
        let _guard = lock::take(&self.lock_file(), Mode::Exclusive)?;
        match self.read_recording(scope, events, seen) {
            // A full disk must not stop a reader.
            Err(Unrecorded::Write(why)) => {
                self.notice(why);
                self.read_unrecorded(scope, events)
            }
            Err(Unrecorded::Read(error)) => Err(error),
            Ok(reading) => Ok(reading),
        }
    }

    /// The usual case, beside other readers: everything is as it was written down.
    fn look(&self, scope: Scope<'_>, events: Option<&Events>) -> Result<Look, KvError> {
        let _guard = lock::take(&self.lock_file(), Mode::Shared)?;
        if Journal::is_there(&self.own) || self.remembered().is_some() {
            return Ok(Look::Unfinished);
        }
        let Some(recorded) = self.recorded()? else {
            return Ok(Look::Unfinished);
        };
        let values = self.scan(scope, events, &recorded)?;
        let mut state = recorded.clone();
        Ok(if state.reconcile(scope, &values) {
            let state = recorded;
            Look::Changed(Reading { values, state })
        } else {
            Look::Unchanged(Reading { values, state })
        })
    }

    /// Alone: completes what was interrupted, and writes down what was changed by hand.
    fn read_recording(
        &self,
        scope: Scope<'_>,
        events: Option<&Events>,
        seen: Option<Reading>,
    ) -> Result<Reading, Unrecorded> {
        let journal = Journal::read(&self.own).map_err(Unrecorded::Read)?;
        if let Some(journal) = journal {
            let state = self.current().map_err(Unrecorded::Read)?;
            self.complete(&journal, state).map_err(Unrecorded::Write)?;
        }
        let mut state = self.current().map_err(Unrecorded::Read)?;
        // With the state as it was, no transaction came between the two locks.
        let seen = seen.filter(|seen| seen.state == state);
        let values = match seen {
            Some(seen) => seen.values,
            None => self.scan(scope, events, &state).map_err(Unrecorded::Read)?,
        };
        state.reconcile(scope, &values);
        self.save(&state).map_err(Unrecorded::Write)?;
        Ok(Reading { values, state })
    }

    /// Where nothing can be written the indexes live in this process.
    fn read_unrecorded(
        &self,
        scope: Scope<'_>,
        events: Option<&Events>,
    ) -> Result<Reading, KvError> {
        let journal = Journal::read(&self.own)?;
        let continues = self.recorded()?.map_or(0, |state| state.index);
        let mut state = self.current()?;
        let mut values = self.scan(scope, events, &state)?;
        if let Some(journal) = journal {
            journal.record(&mut state);
            journal.overlay(&self.own, scope, &mut values)?;
        }
        state.reconcile(scope, &values);
        self.remember(Some(Memory {
            continues,
            state: state.clone(),
        }));
        Ok(Reading { values, state })
    }

    /// Reads the files. A key that is gone must stay so: editors and `git checkout` take a file
    /// away for a moment before they write it anew, and a reading in between would undo the
    /// override.
    pub(super) fn scan(
        &self,
        scope: Scope<'_>,
        events: Option<&Events>,
        before: &State,
    ) -> Result<Values, KvError> {
        let mut gone_before = Vec::new();
        for _ in 0..GONE_READINGS_MAX {
            let values = settled(|| scan(&self.root, scope, events))?;
            let gone = before.gone(scope, &values);
            if gone == gone_before {
                return Ok(values);
            }
            gone_before = gone;
            std::thread::sleep(GONE_PAUSE);
        }
        let text = "keys keep appearing and vanishing";
        Err(KvError::BadAnswer(naming(&self.root, text)))
    }

    /// Completes a transaction that counts. The exclusive lock is held.
    pub(super) fn complete(&self, journal: &Journal, mut state: State) -> Result<(), String> {
        let mut run = || {
            journal.apply(&self.root, &self.own)?;
            journal.record(&mut state);
            self.save(&state).map_err(KvError::Unreachable)?;
            Journal::close(&self.own)
        };
        run().map_err(|error: KvError| format!("a transaction is not complete yet: {error}"))
    }

    /// The state to go on from.
    pub(super) fn current(&self) -> Result<State, KvError> {
        let recorded = self.recorded()?;
        Ok(match (recorded, self.remembered()) {
            (None, None) => State::starting_at(self.clock_index()),
            (None, Some(memory)) if memory.continues == 0 => memory.state,
            (None, Some(memory)) => {
                State::starting_at(self.clock_index().max(memory.state.index + 1))
            }
            (Some(file), Some(memory)) if memory.continues == file.index => memory.state,
            (Some(mut file), Some(memory)) => {
                file.never_below(&memory.state);
                file
            }
            (Some(file), None) => file,
        })
    }

    /// Writes the state down. The exclusive lock is held.
    pub(super) fn save(&self, state: &State) -> Result<(), String> {
        files::write_whole(&self.own, STATE_FILE, &state.to_json())
            .map_err(|error| naming(&self.own.join(STATE_FILE), &error.to_string()))?;
        self.remember(None);
        Ok(())
    }

    /// What somebody should know who runs this, each once.
    pub(super) fn notices(&self) -> Vec<String> {
        self.notices
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn notice(&self, text: String) {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() < NOTICES_MAX && !notices.contains(&text) {
            notices.push(text);
        }
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.own.join(LOCK_FILE)
    }

    /// The state as it is written down. One that cannot be understood is set aside.
    fn recorded(&self) -> Result<Option<State>, KvError> {
        let path = self.own.join(STATE_FILE);
        let read = files::read_if_there(&path);
        let Some(bytes) = read.map_err(unreachable_by(&path))? else {
            return Ok(None);
        };
        match State::parse(&bytes) {
            Ok(state) => Ok(Some(state)),
            Err(why) => {
                let text = format!(
                    "set aside as {STATE_ASIDE}, because it cannot be understood ({why}); the \
                     indexes start anew at the clock"
                );
                self.notice(naming(&path, &text));
                let _stays_unread_if_not_moved = fs::rename(&path, self.own.join(STATE_ASIDE));
                Ok(None)
            }
        }
    }

    /// Unix milliseconds: far above one per change since any earlier start.
    fn clock_index(&self) -> u64 {
        u64::try_from((self.now)().as_millisecond()).unwrap_or(0)
    }

    fn remembered(&self) -> Option<Memory> {
        self.memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn remember(&self, memory: Option<Memory>) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }
}

/// What a look without writing showed.
enum Look {
    /// All is as it was written down.
    Unchanged(Reading),
    /// Something was changed by hand. The state is that from before.
    Changed(Reading),
    /// There is something to complete or to write down first.
    Unfinished,
}

/// Why a reading could not be written down.
enum Unrecorded {
    /// The keys themselves cannot be read.
    Read(KvError),
    /// They can, but nothing can be written beside them.
    Write(String),
}

/// Whether files can be made in a folder; the text says why not.
pub(super) fn may_write(folder: &Path) -> Result<(), String> {
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| naming(folder, &io::Error::from(error).to_string()))
}
