//! The smallest responder that is right: epoll, one thread, one answer for all.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead as _, BufReader};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, listen, recv, send, sockopt};

const ANSWER: &[u8] = b"up ready 100% # i=1790000000000 r=a\n";
const RING: usize = 2_048;
const HELD: Duration = Duration::from_millis(20);
const LISTENER: u64 = u64::MAX;
/// Set for the process that is a yardstick.
const YARDSTICK: &str = "TIDEGATE_BENCH_YARDSTICK";

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Accepted and closed, without a word.
    AcceptAndClose,
    /// The answer, then its end.
    Plain,
    /// The answer; its end is the peer's to make.
    Lazy,
}

/// A yardstick's process, ended with this.
pub(crate) struct Running(Child);

impl Manner {
    pub(crate) const ALL: [Self; 3] = [Self::AcceptAndClose, Self::Plain, Self::Lazy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AcceptAndClose => "accept-and-close",
            Self::Plain => "plain epoll",
            Self::Lazy => "lazy epoll",
        }
    }
}

struct Yardstick {
    manner: Manner,
    epoll: OwnedFd,
    known: HashMap<Box<[u8]>, &'static [u8]>,
    late: HashMap<u64, OwnedFd>,
    held: VecDeque<(OwnedFd, Instant)>,
}

/// Prints its port, and answers until the process is ended.
fn serve(manner: Manner, lines: Vec<Vec<u8>>) -> ! {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listen(&listener, 65_535).expect("it listens");
    listener.set_nonblocking(true).expect("a socket can be");
    if manner == Manner::Lazy {
        sockopt::set_tcp_quickack(&listener, false).expect("a TCP socket has it");
    }
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    println!("{address}");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll can be made");
    let data = epoll::EventData::new_u64(LISTENER);
    epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).expect("it can be watched");
    let known = lines.into_iter().map(|line| (line.into(), ANSWER));
    let mut yardstick = Yardstick {
        manner,
        epoll,
        known: known.collect(),
        late: HashMap::new(),
        held: VecDeque::with_capacity(RING),
    };
    loop {
        yardstick.turn(&listener);
    }
}

impl Yardstick {
    fn turn(&mut self, listener: &TcpListener) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 64];
        let wait = Timespec::try_from(HELD).expect("it is short");
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&wait)) else {
            return;
        };
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept(listener),
                at => {
                    if let Some(socket) = self.late.remove(&at) {
                        self.answer(socket);
                    }
                }
            }
        }
        let now = Instant::now();
        while let Some((_, since)) = self.held.front()
            && now - *since >= HELD
        {
            self.held.pop_front();
        }
    }

    fn accept(&mut self, listener: &TcpListener) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(socket) = accept_with(listener, flags) {
            if self.manner != Manner::AcceptAndClose {
                self.answer(socket);
            }
        }
    }

    fn answer(&mut self, socket: OwnedFd) {
        let mut line = [0; 512];
        let length = match recv(&socket, &mut line[..], RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN) => {
                let at = u64::try_from(socket.as_raw_fd()).expect("descriptors count from 0");
                let data = epoll::EventData::new_u64(at);
                epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)
                    .expect("it can be watched");
                self.late.insert(at, socket);
                return;
            }
            Err(_) => return,
        };
        let Some(answer) = self.known.get(&line[..length]) else {
            return;
        };
        // Whoever does not take it is gone.
        let _ = send(&socket, answer, SendFlags::NOSIGNAL);
        if self.manner == Manner::Lazy {
            if self.held.len() == RING {
                self.held.pop_front();
            }
            self.held.push_back((socket, Instant::now()));
        }
    }
}

/// Answers for ever when this process was started as a yardstick.
pub(crate) fn serve_if_asked(lines: impl FnOnce() -> Vec<Vec<u8>>) {
    if let Ok(name) = std::env::var(YARDSTICK) {
        let manner = Manner::ALL.into_iter().find(|manner| manner.name() == name);
        serve(manner.expect("one of the manners"), lines());
    }
}

impl Running {
    /// Starts this program again as a yardstick; gives its address.
    pub(crate) fn start(manner: Manner) -> (Self, SocketAddr) {
        let program = std::env::current_exe().expect("a program knows itself");
        let mut child = Command::new(program)
            .env(YARDSTICK, manner.name())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started again");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it prints its address");
        let address = line.trim().parse().expect("it is an address");
        (Self(child), address)
    }

    /// Its process id.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
