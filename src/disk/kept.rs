//! One file that is written whole or not at all.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// What is kept holds everybody's reasons and names: it is the service's own.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A file that is written whole beside the old one and renamed over it: after a crash there is the
/// old one or the new one.
#[derive(Debug, Clone)]
pub struct KeptFile {
    folder: PathBuf,
    name: &'static str,
    bytes_max: u64,
}

impl KeptFile {
    /// A file of this name in a folder, which is made if need be.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(folder: &Path, name: &'static str, bytes_max: u64) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)?;
        let folder = folder.to_owned();
        Ok(Self {
            folder,
            name,
            bytes_max,
        })
    }

    /// What it holds; `None` when it is not there. Of a file that is larger than it may be, only
    /// the part that shows it.
    ///
    /// # Errors
    /// When it is there and cannot be read, or is no regular file: a link leads to what another
    /// program wrote, and a pipe would be waited for.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let path = self.path("");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(not_regular(&path)),
            file => File::from(file?),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular(&path));
        }
        let length = metadata.len().min(self.bytes_max);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
        file.take(self.bytes_max + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts it out of the way, as `<name>.refused`; gives a text for a person that says so.
    pub fn set_aside(&self, why: &impl fmt::Display) -> String {
        let (path, aside) = (self.path(""), self.path(".refused"));
        let moved = match fs::rename(&path, &aside) {
            Ok(()) => format!("set aside as {}", aside.display()),
            Err(error) => format!("it stays there ({error})"),
        };
        format!("{}: {why}; {moved}", path.display())
    }

    /// Writes it, durably.
    ///
    /// # Errors
    /// When that fails; what it held before is untouched then.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let written = self.path(".new");
        let put = write_whole(&written, bytes).and_then(|()| fs::rename(&written, self.path("")));
        if let Err(error) = put {
            // On a full disk, half a file takes the room of what still fits.
            let _ = fs::remove_file(&written);
            return Err(error);
        }
        File::open(&self.folder)?.sync_all()
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", self.name))
    }
}

fn not_regular(path: &Path) -> io::Error {
    let text = format!("{}: no regular file; take it away", path.display());
    io::Error::other(text)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a crash left, or what somebody put there: a link would be written through.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
