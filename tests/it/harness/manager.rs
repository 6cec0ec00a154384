//! A service manager as far as a service sees one: it is told things, and keeps sockets over
//! restarts, as systemd does for a unit with `FileDescriptorStoreMax=`.

use std::fmt::Write as _;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::folder::Folder;
use super::wait::PATIENCE;

/// Away from the numbers at which a service finds what was kept, 3 and up, and from those that
/// shells use.
const NUMBERS_FROM: i32 = 300;

/// Hears one service, and keeps its sockets.
pub(crate) struct Manager {
    folder: Folder,
    socket: UnixDatagram,
    kept: Vec<OwnedFd>,
}

impl Manager {
    pub(crate) fn new() -> Self {
        let folder = Folder::new("manager");
        let socket = UnixDatagram::bind(folder.join("notify.sock")).expect("the folder is empty");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("the limit is not zero");
        Self {
            folder,
            socket,
            kept: Vec::new(),
        }
    }

    /// By this a service finds it.
    pub(crate) fn environment(&self) -> (String, String) {
        let socket = self.folder.join("notify.sock");
        ("NOTIFY_SOCKET".to_owned(), socket.display().to_string())
    }

    /// The next thing that the service says. Sockets that come with it are kept, and it is not
    /// told of them.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let (text, sockets) = self.receive();
            if sockets.is_empty() {
                return text;
            }
            assert_eq!(text, "FDSTORE=1\nFDNAME=agent\n");
            self.kept.extend(sockets);
        }
    }

    /// Waits until the service is ready.
    pub(crate) fn await_ready(&mut self) {
        while self.hear() != "READY=1\n" {}
        self.set_flags(FdFlags::CLOEXEC);
    }

    /// The words before a program that give it what is kept; they end in exec. Until that one is
    /// ready no other program may be started: it would hold the sockets too.
    pub(crate) fn launcher(&mut self) -> Vec<String> {
        self.kept.retain(|socket| !hung_up(socket));
        self.set_flags(FdFlags::empty());
        let mut script = String::from("exec");
        for (at, socket) in self.kept.iter().enumerate() {
            let number = socket.as_raw_fd();
            write!(script, " {}<&{number} {number}<&-", at + 3).expect("a string takes every byte");
        }
        let count = self.kept.len();
        write!(
            script,
            "; export LISTEN_FDS={count} LISTEN_PID=$$; exec \"$@\""
        )
        .expect("a string takes every byte");
        ["bash", "-c", &script, "bash"].map(str::to_owned).into()
    }

    /// How many sockets are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Lets go of them, as of a unit that is stopped or of one that may keep none.
    pub(crate) fn forget(&mut self) {
        self.kept.clear();
    }

    fn set_flags(&self, flags: FdFlags) {
        for socket in &self.kept {
            fcntl_setfd(socket, flags).expect("the descriptor is open");
        }
    }

    fn receive(&self) -> (String, Vec<OwnedFd>) {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(
            &self.socket,
            &mut parts,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let length = received.expect("the service says something").bytes;
        let mut sockets = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                sockets.extend(received.map(|socket| moved(&socket)));
            }
        }
        (
            String::from_utf8_lossy(&bytes[..length]).into_owned(),
            sockets,
        )
    }
}

/// The same socket under another number.
fn moved(socket: &OwnedFd) -> OwnedFd {
    fcntl_dupfd_cloexec(socket, NUMBERS_FROM).expect("a descriptor is left")
}

fn hung_up(socket: &OwnedFd) -> bool {
    let mut looked_at = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut looked_at, Some(&Timespec::default())).expect("the descriptor is open");
    looked_at[0].revents().contains(PollFlags::HUP)
}
