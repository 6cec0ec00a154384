//! Reading the files. Contents are always read whole: a time stamp proves nothing.
//!
//! A listing is never smaller than what is there. A file that cannot be read, is too large, or
//! has a name that is no text, is an error that names it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::OFlags;

use super::events::Events;
use super::fault::{Fault, naming, unreachable_by};
use super::path::{SEGMENTS_MAX, SWAP_LINK, Scope, counts, file_of};
use crate::kv::{KvError, VALUE_BYTES_MAX};

/// The most keys of one reading.
pub(super) const KEYS_MAX: usize = 200_000;
/// The most bytes of one reading: it is held in memory, more than once.
pub(super) const BYTES_MAX: usize = 256 * 1_024 * 1_024;

/// Full key → contents.
pub(super) type Values = BTreeMap<String, Bytes>;

/// Reads every key of the scope. With `events`, each folder and link is watched before it is
/// read, so that no change falls between.
pub(super) fn scan(
    root: &Path,
    scope: Scope<'_>,
    events: Option<&Events>,
) -> Result<Values, Fault> {
    let mut scanner = Scanner::start(root, events)?;
    match scope {
        Scope::Below(prefix) => scanner.below(prefix)?,
        Scope::Key(key) => scanner.key(key)?,
    }
    scanner.finish()
}

struct Scanner<'a> {
    root: &'a Path,
    events: Option<&'a Events>,
    values: Values,
    bytes: usize,
    /// Which folder the root was. A checkout that is swapped by its link must not be mixed.
    identity: (u64, u64),
    /// Which swap links stood in the folders when they were entered.
    swaps: Vec<(PathBuf, Option<SwapLink>)>,
    /// The folders that we are in, to notice a link into one of them.
    inside: Vec<(u64, u64)>,
}

impl<'a> Scanner<'a> {
    fn start(root: &'a Path, events: Option<&'a Events>) -> Result<Self, Fault> {
        if let Some(events) = events {
            events.around(root);
        }
        Ok(Self {
            root,
            events,
            values: Values::new(),
            bytes: 0,
            identity: identity(&folder_metadata(root)?),
            swaps: Vec::new(),
            inside: Vec::new(),
        })
    }

    fn finish(self) -> Result<Values, Fault> {
        if identity(&folder_metadata(self.root)?) != self.identity {
            return Err(Fault::Moved(naming(
                self.root,
                "the folder keeps being replaced",
            )));
        }
        for (link, before) in &self.swaps {
            if SwapLink::read(link) != *before {
                return Err(Fault::Moved(naming(link, "the link keeps changing")));
            }
        }
        Ok(self.values)
    }

    /// Enters the folders of a prefix one after the other, then reads the last one whole.
    fn below(&mut self, prefix: &str) -> Result<(), Fault> {
        let mut folder = self.root.to_path_buf();
        for segment in prefix.trim_end_matches('/').split('/') {
            self.enter(&folder, folder_metadata_if_there(&folder)?.as_ref());
            folder.push(segment);
            if !counts(segment.as_bytes()) {
                return Err(KvError::BadRequest(format!(
                    "no folder of keys can be called {segment:?}"
                ))
                .into());
            }
            if folder_metadata_if_there(&folder)?.is_none() {
                return Ok(());
            }
        }
        self.folder(&folder, prefix)
    }

    fn key(&mut self, key: &str) -> Result<(), Fault> {
        let path = file_of(self.root, key);
        let mut folder = self.root.to_path_buf();
        for segment in key.split('/') {
            self.enter(&folder, folder_metadata_if_there(&folder)?.as_ref());
            folder.push(segment);
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(metadata) => self.file(&path, key.to_owned(), &metadata),
            Err(error) if is_absent(&error) && fs::symlink_metadata(&path).is_err() => Ok(()),
            Err(error) => Err(fault(&path, &error)),
        }
    }

    fn folder(&mut self, path: &Path, prefix: &str) -> Result<(), Fault> {
        let metadata = fs::metadata(path).map_err(|error| fault(path, &error))?;
        let identity = identity(&metadata);
        if self.inside.contains(&identity) {
            let text = "a symbolic link leads into one of its own parents";
            return Err(KvError::BadAnswer(naming(path, text)).into());
        }
        if prefix.split('/').count() > SEGMENTS_MAX {
            let text = format!("nested deeper than {SEGMENTS_MAX} folders");
            return Err(KvError::BadAnswer(naming(path, &text)).into());
        }
        self.enter(path, Some(&metadata));
        self.inside.push(identity);
        for entry in fs::read_dir(path).map_err(|error| fault(path, &error))? {
            let entry = entry.map_err(|error| fault(path, &error))?;
            if counts(entry.file_name().as_bytes()) {
                self.entry(&entry, prefix)?;
            }
        }
        self.inside.pop();
        Ok(())
    }

    fn entry(&mut self, entry: &fs::DirEntry, prefix: &str) -> Result<(), Fault> {
        let path = entry.path();
        let name = entry.file_name().into_string().map_err(|_| {
            KvError::BadAnswer(naming(
                &path,
                "the name is not UTF-8, so it cannot be a key",
            ))
        })?;
        let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if let (true, Some(events)) = (link, self.events) {
            events.target(&path);
        }
        let metadata = fs::metadata(&path).map_err(|error| fault(&path, &error))?;
        if metadata.is_dir() {
            self.folder(&path, &format!("{prefix}{name}/"))
        } else {
            self.file(&path, format!("{prefix}{name}"), &metadata)
        }
    }

    fn file(&mut self, path: &Path, key: String, metadata: &Metadata) -> Result<(), Fault> {
        if !metadata.is_file() {
            let text = "neither a file nor a folder";
            return Err(KvError::BadAnswer(naming(path, text)).into());
        }
        let value = read_whole(path).map_err(|error| fault(path, &error))?;
        if value.len() > VALUE_BYTES_MAX {
            let text = format!("larger than the {VALUE_BYTES_MAX} bytes that a value may have");
            return Err(KvError::BadAnswer(naming(path, &text)).into());
        }
        self.bytes += value.len();
        self.values.insert(key, value.into());
        if self.values.len() > KEYS_MAX || self.bytes > BYTES_MAX {
            let text = format!("more than {KEYS_MAX} keys or {BYTES_MAX} bytes in one folder");
            return Err(KvError::BadAnswer(naming(self.root, &text)).into());
        }
        Ok(())
    }

    fn enter(&mut self, folder: &Path, metadata: Option<&Metadata>) {
        if metadata.is_none() {
            return;
        }
        if let Some(events) = self.events {
            events.folder(folder);
        }
        let link = folder.join(SWAP_LINK);
        let found = SwapLink::read(&link);
        self.swaps.push((link, found));
    }
}

/// One swap link: where it leads, and which link it is. Going back to an earlier target within one
/// reading is a change too.
#[derive(Debug, PartialEq, Eq)]
struct SwapLink {
    target: PathBuf,
    inode: u64,
    changed: (i64, i64),
}

impl SwapLink {
    fn read(path: &Path) -> Option<Self> {
        let target = fs::read_link(path).ok()?;
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            target,
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// What the root is; an error in plain words when it is no folder.
pub(super) fn folder_metadata(root: &Path) -> Result<Metadata, KvError> {
    let metadata = fs::metadata(root).map_err(unreachable_by(root))?;
    if metadata.is_dir() {
        Ok(metadata)
    } else {
        Err(KvError::Unreachable(naming(root, "not a folder")))
    }
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn folder_metadata_if_there(path: &Path) -> Result<Option<Metadata>, Fault> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata).filter(Metadata::is_dir)),
        Err(error) if is_absent(&error) && fs::symlink_metadata(path).is_err() => Ok(None),
        Err(error) => Err(fault(path, &error)),
    }
}

/// One byte more than allowed is read, so that a larger file is noticed, never cut.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    // Without NONBLOCK, a pipe put in the file's place would hold us for ever.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let mut value = Vec::new();
    file.take(VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut value)?;
    Ok(value)
}

fn fault(path: &Path, error: &io::Error) -> Fault {
    if !is_absent(error) {
        return Fault::Stands(KvError::Unreachable(naming(path, &error.to_string())));
    }
    Fault::Moved(if path.is_symlink() {
        naming(path, "a symbolic link that leads nowhere")
    } else {
        naming(path, "keeps appearing and vanishing")
    })
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
