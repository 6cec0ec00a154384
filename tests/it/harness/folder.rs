//! A temporary folder that outlives a failed test.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder of one started thing: configuration, data, logs. Removed at the end, kept on a panic.
pub(crate) struct Folder {
    inner: TempDir,
}

impl Folder {
    /// Makes an empty folder whose name begins with `name`.
    pub(crate) fn new(name: &str) -> Self {
        let inner = tempfile::Builder::new()
            .prefix(&format!("tidegate-{name}-"))
            .tempdir()
            .expect("the machine's temporary folder is writable");
        Self { inner }
    }

    pub(crate) fn path(&self) -> &Path {
        self.inner.path()
    }

    /// Path of `name` in this folder.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, text)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner.disable_cleanup(true);
            eprintln!("kept for you: {}", self.path().display());
        }
    }
}
