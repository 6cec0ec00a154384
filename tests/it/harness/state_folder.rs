//! A folder whose files are the keys of the environment `gprd`.

use std::fs;
use std::path::{Path, PathBuf};

use super::folder::Folder;

/// The environment of all tests.
pub(crate) const ENVIRONMENT: &str = "gprd";

/// The sentinel of a fresh environment.
pub(crate) const META: &str = r#"{"schema":1,"epoch":1,"gen":1}"#;

/// Desired state as files, written the way the service demands: whole, then renamed.
pub(crate) struct StateFolder {
    folder: Folder,
}

impl StateFolder {
    /// An environment with its sentinel and nothing else: every server is ready.
    pub(crate) fn new() -> Self {
        let state = Self {
            folder: Folder::new("state"),
        };
        state.put("_meta", META);
        state
    }

    /// What `--kv` takes.
    pub(crate) fn kv(&self) -> String {
        format!("dir:{}", self.path().display())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a key, named from below the environment: `canary-state`.
    pub(crate) fn put(&self, key: &str, value: impl AsRef<[u8]>) {
        let path = self.file(key);
        let parent = path.parent().expect("a key lies in a folder");
        let name = path
            .file_name()
            .expect("a key has a name")
            .to_string_lossy();
        fs::create_dir_all(parent)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", parent.display()));
        // A name that begins with a dot is no key.
        let unfinished = parent.join(format!(".{name}.unfinished"));
        fs::write(&unfinished, value)
            .and_then(|()| fs::rename(&unfinished, &path))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }

    /// Deletes a key.
    pub(crate) fn remove(&self, key: &str) {
        let path = self.file(key);
        fs::remove_file(&path)
            .unwrap_or_else(|error| panic!("cannot delete {}: {error}", path.display()));
    }

    /// Deletes everything below a key's path; `""` is the whole environment.
    pub(crate) fn remove_all(&self, key: &str) {
        let path = self.file(key);
        fs::remove_dir_all(&path)
            .unwrap_or_else(|error| panic!("cannot delete {}: {error}", path.display()));
    }

    /// The file that is this key.
    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.path().join("frontend").join(ENVIRONMENT).join(key)
    }
}
