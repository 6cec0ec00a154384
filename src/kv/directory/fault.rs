//! Why a reading of the folder did not succeed, and when to try once more.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::kv::KvError;

/// The pauses before a reading is tried again because something moved under it. Together half a
/// second: a kubelet needs a moment from its swap to the removal of the links that lead nowhere.
const PAUSES: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(40),
    Duration::from_millis(80),
    Duration::from_millis(160),
    Duration::from_millis(200),
];

/// What stopped one reading.
#[derive(Debug)]
pub(super) enum Fault {
    /// Something changed while it was read: another reading may well succeed.
    Moved(String),
    /// It will not get better by itself within milliseconds.
    Stands(KvError),
}

impl From<KvError> for Fault {
    fn from(error: KvError) -> Self {
        Self::Stands(error)
    }
}

/// Reads until nothing moved meanwhile.
pub(super) fn settled<T>(mut read: impl FnMut() -> Result<T, Fault>) -> Result<T, KvError> {
    let mut last = String::new();
    for pause in PAUSES {
        std::thread::sleep(pause);
        match read() {
            Ok(value) => return Ok(value),
            Err(Fault::Stands(error)) => return Err(error),
            Err(Fault::Moved(text)) => last = text,
        }
    }
    Err(KvError::BadAnswer(last))
}

/// A text that begins with the file that it is about.
pub(super) fn naming(path: &Path, text: &str) -> String {
    format!("{}: {text}", path.display())
}

/// For `map_err`: an I/O error as "unreachable", naming the file.
pub(super) fn unreachable_by(path: &Path) -> impl Fn(io::Error) -> KvError + '_ {
    |error| KvError::Unreachable(naming(path, &error.to_string()))
}
