//! The file that keeps the fleet over a restart, so that a node that has fallen silent is still
//! known.

use std::io;
use std::path::Path;

use tracing::warn;

use crate::disk::KeptFile;
use crate::domain::fleet::Report;
use crate::domain::key::Prefix;

const FILE: &str = "fleet";
/// A larger file is not ours: each of the rows takes some 50 bytes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Keeps the fleet of one environment.
#[derive(Debug, Clone)]
pub struct FleetFile {
    file: KeptFile,
    prefix: Prefix,
}

/// A report as it is kept.
#[derive(Debug)]
pub struct Kept(Vec<u8>);

impl FleetFile {
    /// The file in this folder, which is made if need be.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(folder: &Path, prefix: Prefix) -> io::Result<Self> {
        let file = KeptFile::open(folder, FILE, BYTES_MAX)?;
        Ok(Self { file, prefix })
    }

    /// Reads what was kept. A file that is torn, of another environment or not understood is set
    /// aside: the second value names it.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn load(&self) -> io::Result<(Option<Report>, Option<String>)> {
        let Some(bytes) = self.file.read()? else {
            return Ok((None, None));
        };
        Ok(match Report::from_bytes(&bytes, &self.prefix) {
            Ok(report) => (Some(report), None),
            Err(error) => {
                let aside = self.file.set_aside(&error);
                (
                    None,
                    Some(format!("{aside}; nodes are known once they poll")),
                )
            }
        })
    }

    /// The same for the service's start: what is wrong is logged, and stops nobody.
    #[must_use]
    pub fn load_or_tell(&self) -> Option<Report> {
        match self.load() {
            Ok((report, notice)) => {
                if let Some(notice) = notice {
                    warn!("{notice}");
                }
                report
            }
            Err(error) => {
                warn!(%error, "the fleet that was kept cannot be read");
                None
            }
        }
    }

    /// A report as it is kept.
    #[must_use]
    pub fn kept(&self, report: &Report) -> Kept {
        Kept(report.to_bytes(&self.prefix))
    }

    /// Keeps a report, durably.
    ///
    /// # Errors
    /// When it cannot be written; what was kept before is untouched then.
    pub fn save(&self, kept: &Kept) -> io::Result<()> {
        self.file.write(&kept.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::name::Name;

    fn report(replica: &str) -> Report {
        Report {
            replica: Name::parse(replica).unwrap(),
            at: Timestamp::UNIX_EPOCH,
            since: Timestamp::UNIX_EPOCH,
            poll_interval: Duration::from_secs(2),
            newest: None,
            dropped: 0,
            nodes: BTreeMap::new(),
        }
    }

    fn file(folder: &Path, environment: &str) -> FleetFile {
        FleetFile::open(folder, Prefix::new("frontend", environment).unwrap()).unwrap()
    }

    #[test]
    fn what_was_kept_last_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(&folder.path().join("new"), "gprd");
        assert_eq!(file.load().unwrap(), (None, None));
        for replica in ["a", "b"] {
            file.save(&file.kept(&report(replica))).unwrap();
            assert_eq!(file.load().unwrap(), (Some(report(replica)), None));
        }
    }

    #[test]
    fn a_torn_or_foreign_file_is_set_aside_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let gprd = file(folder.path(), "gprd");
        gprd.save(&gprd.kept(&report("a"))).unwrap();
        let bytes = fs::read(folder.path().join(FILE)).unwrap();
        for (bytes, environment, text) in [
            (&bytes[..bytes.len() / 2], "gprd", "torn"),
            (b"hello", "gprd", "another program"),
            (&bytes, "gstg", "frontend/gprd/"),
        ] {
            fs::write(folder.path().join(FILE), bytes).unwrap();
            let file = file(folder.path(), environment);
            let (found, notice) = file.load().unwrap();
            assert_eq!(found, None);
            let notice = notice.unwrap();
            assert!(
                notice.contains(text) && notice.contains("fleet.refused"),
                "{notice}"
            );
            assert_eq!(
                fs::read(folder.path().join("fleet.refused")).unwrap(),
                bytes
            );
            assert_eq!(file.load().unwrap(), (None, None));
        }
    }
}
