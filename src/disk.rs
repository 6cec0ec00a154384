//! Keeps the last listing, so that a restart while the source is away changes nothing.

mod kept;

use std::io;
use std::path::Path;

pub use self::kept::KeptFile;

use crate::domain::key::Prefix;
use crate::domain::memory::Memory;

const FILE: &str = "memory";
/// A larger file is not ours: the listing that Consul hands out is at most as large.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A folder that holds the memory of one environment.
#[derive(Debug, Clone)]
pub struct Disk {
    file: KeptFile,
    prefix: Prefix,
}

/// What was found at the start.
#[derive(Debug)]
pub struct Found {
    /// The memory, if there is a good one.
    pub memory: Option<Memory>,
    /// What somebody should know: a file that was refused and set aside.
    pub notice: Option<String>,
}

impl Disk {
    /// Opens the folder, and makes it if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(folder: &Path, prefix: Prefix) -> io::Result<Self> {
        let file = KeptFile::open(folder, FILE, BYTES_MAX)?;
        Ok(Self { file, prefix })
    }

    /// Reads what was kept. A file that is torn, of another environment or not understood is set
    /// aside, and the replica starts without memory.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn load(&self) -> io::Result<Found> {
        let nothing = Found {
            memory: None,
            notice: None,
        };
        let Some(bytes) = self.file.read()? else {
            return Ok(nothing);
        };
        Ok(match Memory::parse(&bytes, &self.prefix) {
            Ok(memory) => Found {
                memory: Some(memory),
                ..nothing
            },
            Err(error) => {
                let aside = self.file.set_aside(&error);
                Found {
                    notice: Some(format!("{aside}; starting without memory")),
                    ..nothing
                }
            }
        })
    }

    /// Keeps a memory, durably.
    ///
    /// # Errors
    /// When it cannot be written; the old one is untouched then.
    pub fn save(&self, memory: &Memory) -> io::Result<()> {
        self.file.write(&memory.to_bytes(&self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::*;
    use crate::domain::evidence::Evidence;
    use crate::domain::listing::Listing;
    use crate::domain::sentinel::Generation;

    fn memory(index: u64) -> Memory {
        Memory {
            listing: Some(Arc::new(Listing {
                index,
                ..Listing::default()
            })),
            evidence: Evidence {
                highest: Generation { epoch: 1, r#gen: 2 },
                table_index: index,
                ..Evidence::default()
            },
            broken: None,
            at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn disk(folder: &Path, environment: &str) -> Disk {
        Disk::open(folder, Prefix::new("frontend", environment).unwrap()).unwrap()
    }

    #[test]
    fn what_was_kept_last_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(&folder.path().join("new"), "gprd");
        assert!(disk.load().unwrap().memory.is_none());
        for index in [1, 2] {
            disk.save(&memory(index)).unwrap();
            assert_eq!(disk.load().unwrap().memory, Some(memory(index)));
        }
    }

    #[test]
    fn a_torn_or_foreign_file_is_set_aside_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let gprd = disk(folder.path(), "gprd");
        gprd.save(&memory(1)).unwrap();
        let bytes = fs::read(folder.path().join(FILE)).unwrap();
        let halves = &bytes[..bytes.len() / 2];
        for (bytes, word) in [
            (halves, "torn"),
            (b"hello", "another program"),
            (&bytes, "frontend/gprd/"),
        ] {
            fs::write(folder.path().join(FILE), bytes).unwrap();
            let environment = if word.contains('/') { "gstg" } else { "gprd" };
            let found = disk(folder.path(), environment).load().unwrap();
            assert!(found.memory.is_none());
            assert!(found.notice.unwrap().contains(word));
            assert_eq!(
                fs::read(folder.path().join("memory.refused")).unwrap(),
                bytes
            );
            assert!(
                disk(folder.path(), environment)
                    .load()
                    .unwrap()
                    .notice
                    .is_none()
            );
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_memory() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path(), "gprd");
        disk.save(&memory(1)).unwrap();
        // Something that cannot be written over stands in the way.
        fs::create_dir(folder.path().join("memory.new")).unwrap();
        assert!(disk.save(&memory(2)).is_err());
        assert_eq!(disk.load().unwrap().memory, Some(memory(1)));
    }

    #[test]
    fn a_link_that_somebody_put_there_is_neither_written_through_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path(), "gprd");
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "another program's").unwrap();
        symlink(&elsewhere, folder.path().join("memory.new")).unwrap();
        disk.save(&memory(1)).unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"another program's");
        assert_eq!(disk.load().unwrap().memory, Some(memory(1)));
        fs::remove_file(folder.path().join(FILE)).unwrap();
        symlink(&elsewhere, folder.path().join(FILE)).unwrap();
        let error = disk.load().unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
