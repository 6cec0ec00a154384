//! One file that is written whole or not at all.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

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
        fs::create_dir_all(folder)?;
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
    /// When it is there and cannot be read.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path("")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
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

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
