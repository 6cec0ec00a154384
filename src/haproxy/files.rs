//! `HAProxy`'s files, in the order in which `haproxy -f` reads them: of a folder its `*.cfg` by
//! their names' bytes, none that begins with a dot, and no folder within it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thiserror::Error;

use crate::domain::haproxy::reading::{FILE_BYTES_MAX, File};

/// The most files: what has more is no configuration of one process.
pub const FILES_MAX: usize = 1_024;

/// Why files cannot be read.
#[derive(Debug, Error)]
pub enum FilesError {
    /// One of them.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: String,
        /// What happened.
        error: io::Error,
    },
    /// Larger than [`FILE_BYTES_MAX`].
    #[error("{0}: larger than {FILE_BYTES_MAX} bytes")]
    TooLarge(String),
    /// More than [`FILES_MAX`].
    #[error("more than {FILES_MAX} files")]
    TooMany,
    /// Nothing to read.
    #[error("{0}: no file in it ends with .cfg")]
    Empty(String),
}

/// Reads files and folders.
///
/// # Errors
/// See [`FilesError`].
pub fn read(paths: &[PathBuf]) -> Result<Vec<File>, FilesError> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| failed(path, error))?;
        let below = if metadata.is_dir() {
            folder(path)?
        } else {
            vec![path.clone()]
        };
        for path in below {
            if files.len() == FILES_MAX {
                return Err(FilesError::TooMany);
            }
            files.push(file(&path)?);
        }
    }
    Ok(files)
}

/// When the file was changed that has stood unchanged for longest; `None` where that cannot be
/// known.
#[must_use]
pub fn changed(files: &[File]) -> Option<Timestamp> {
    let changed = files.iter().map(|file| {
        let modified = fs::metadata(&file.name).and_then(|metadata| metadata.modified());
        Timestamp::try_from(modified.ok()?).ok()
    });
    changed.min().flatten()
}

fn folder(path: &Path) -> Result<Vec<PathBuf>, FilesError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| failed(path, error))? {
        let name = entry.map_err(|error| failed(path, error))?.file_name();
        let below = path.join(&name);
        if is_read(&name) && fs::metadata(&below).is_ok_and(|metadata| metadata.is_file()) {
            names.push(name);
        }
        if names.len() > FILES_MAX {
            return Err(FilesError::TooMany);
        }
    }
    if names.is_empty() {
        return Err(FilesError::Empty(path.display().to_string()));
    }
    names.sort();
    Ok(names.into_iter().map(|name| path.join(name)).collect())
}

fn is_read(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.len() > ".cfg".len() && name.ends_with(b".cfg") && !name.starts_with(b".")
}

fn file(path: &Path) -> Result<File, FilesError> {
    let open = fs::File::open(path).map_err(|error| failed(path, error))?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    open.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(path, error))?;
    let name = path.display().to_string();
    if bytes.len() > FILE_BYTES_MAX {
        return Err(FilesError::TooLarge(name));
    }
    Ok(File { name, bytes })
}

fn failed(path: &Path, error: io::Error) -> FilesError {
    FilesError::Io {
        path: path.display().to_string(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_as_haproxy_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "b.cfg", "B.cfg", "a.cfg", ".c.cfg", "d.cfg~", ".cfg", "e.conf",
        ] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("f.cfg")).unwrap();
        let last = folder.path().join("e.conf");
        let files = read(&[folder.path().to_owned(), last]).unwrap();
        let bytes: Vec<_> = files.iter().map(|file| &file.bytes[..]).collect();
        assert_eq!(bytes, [&b"B.cfg"[..], b"a.cfg", b"b.cfg", b"e.conf"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("ends with .cfg"), "{error}");
        let error = read(&[folder.path().join("gone")]).unwrap_err().to_string();
        assert!(error.contains("gone: No such file"), "{error}");
    }
}
