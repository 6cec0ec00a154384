//! File events: what wakes a blocking read.
//!
//! Straight on inotify. The common wrapper subscribes to `IN_OPEN` too, so that our own reading of
//! ten thousand files fills the kernel's queue, whose overflow asks for another reading. It also
//! watches a new folder only after it has told of it. Here the scan itself registers each folder
//! just before it reads it, and nothing falls between.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Room for events of one read. One event needs at most 16 bytes and a name of 256.
const BUFFER_BYTES: usize = 4_096;

/// The file events of one blocking read.
#[derive(Debug)]
pub(super) struct Events {
    inotify: AsyncFd<OwnedFd>,
    /// The watch on the folder that the root stands in, and the root's name there.
    parent: OnceLock<(i32, OsString)>,
    /// Whether a watch could not be set, so that events alone cannot be relied on.
    incomplete: AtomicBool,
}

impl Events {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// When the user has no inotify instance left (`fs.inotify.max_user_instances`).
    pub(super) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[allow(
            deprecated,
            reason = "its replacement is unsafe because a type may lie about its descriptor; \
                      an OwnedFd does not"
        )]
        let inotify = AsyncFd::new(inotify)?;
        Ok(Self {
            inotify,
            parent: OnceLock::new(),
            incomplete: AtomicBool::new(false),
        })
    }

    /// Whether every watch that was asked for is there.
    pub(super) fn complete(&self) -> bool {
        !self.incomplete.load(Ordering::Relaxed)
    }

    /// Watches the place where the root stands, for the root being replaced.
    pub(super) fn around(&self, root: &Path) {
        let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else {
            return;
        };
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        // A parent that may not be read costs only speed, once the root is replaced.
        if let Ok(watch) = inotify::add_watch(self.inotify.get_ref(), parent, flags) {
            let _first_one_stays = self.parent.set((watch, name.to_owned()));
        }
    }

    /// Watches a folder and the files in it.
    pub(super) fn folder(&self, path: &Path) {
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        self.add(path, flags | CONTENTS | WatchFlags::ONLYDIR);
    }

    /// Watches what a link leads to: it may stand in a folder that nobody watches.
    pub(super) fn target(&self, path: &Path) {
        self.add(path, CONTENTS);
    }

    /// Waits until something changed. Events of other things beside the root are passed over.
    ///
    /// # Errors
    /// When inotify itself fails.
    pub(super) async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            if self.drain()? {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Takes all waiting events; whether one of them is about the root.
    fn drain(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
        let mut ours = false;
        loop {
            match reader.next() {
                Ok(event) => ours |= self.is_ours(&event),
                Err(rustix::io::Errno::AGAIN) => return Ok(ours),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn is_ours(&self, event: &inotify::Event<'_>) -> bool {
        // The kernel's own word that it dropped a watch; what led to it had an event of its own.
        if event.events() == ReadFlags::IGNORED {
            return false;
        }
        match self.parent.get() {
            Some((watch, name)) if *watch == event.wd() => event
                .file_name()
                .is_none_or(|other| other.to_bytes() == name.as_bytes()),
            Some(_) | None => true,
        }
    }

    fn add(&self, path: &Path, flags: WatchFlags) -> Option<i32> {
        match inotify::add_watch(self.inotify.get_ref(), path, flags) {
            Ok(watch) => Some(watch),
            Err(error) => {
                // What vanished meanwhile had an event in its folder.
                if !matches!(error, rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) {
                    self.incomplete.store(true, Ordering::Relaxed);
                }
                None
            }
        }
    }
}

/// Changed contents, changed rights, and the end of the watched thing itself.
const CONTENTS: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);
