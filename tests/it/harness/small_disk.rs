//! A disk that is soon full: a file system in memory that only one service sees.
//!
//! It is mounted in a mount namespace that lives as long as the process that holds it, so nothing
//! is left however the test ends.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::Command;

use super::folder::Folder;
use super::process::{Process, run};
use super::wait::{PATIENCE, check, eventually};

/// What fills it.
const BALLAST: &str = "ballast";
const SIZE: &str = "256k";
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1" tidegate-test "$2" && exec sleep infinity"#;

/// A disk of 256 KiB.
pub(crate) struct SmallDisk {
    /// Keeps the namespace: it does nothing else.
    holder: Process,
    /// Where it is mounted.
    folder: Folder,
    _log: Folder,
}

impl SmallDisk {
    pub(crate) fn new() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "mount namespaces need root: run this test as root"
        );
        let (folder, log) = (Folder::new("disk"), Folder::new("disk-holder"));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", MOUNT, "sh", SIZE]);
        command.arg(folder.path());
        let mut holder = Process::start("holder", log.path(), &command);
        let comm = format!("/proc/{}/comm", holder.id());
        eventually("the disk is there", PATIENCE, || {
            holder.assert_running();
            let program = fs::read_to_string(&comm).unwrap_or_default();
            check(program.trim() == "sleep", || program)
        });
        Self {
            holder,
            folder,
            _log: log,
        }
    }

    /// What stands before a program on its command line, so that it sees this disk.
    pub(crate) fn launcher(&self) -> Vec<String> {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        vec!["nsenter".to_owned(), namespace]
    }

    /// A place on it, as who sees the disk names it.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The same, as the test reaches it.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        let inside = self.inside(name);
        let below = inside
            .strip_prefix("/")
            .expect("temporary folders are absolute");
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(below)
    }

    /// Takes all the room that is left.
    pub(crate) fn fill(&self) {
        let mut ballast = File::create(self.outside(BALLAST)).expect("there is room for a name");
        loop {
            match ballast.write(&[0; 4_096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("cannot fill the disk: {error}"),
            }
        }
    }

    /// Gives back what [`SmallDisk::fill`] took.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.outside(BALLAST)).expect("the disk is filled");
    }

    /// Lets nobody write any more.
    pub(crate) fn make_read_only(&self) {
        self.remount("remount,ro");
    }

    /// Lets everybody write again.
    pub(crate) fn make_writable(&self) {
        self.remount("remount,rw");
    }

    fn remount(&self, options: &str) {
        let mut command = super::process::behind(&self.launcher(), "mount");
        command.args(["-o", options]).arg(self.folder.path());
        let output = run("mount", &command, PATIENCE);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}
