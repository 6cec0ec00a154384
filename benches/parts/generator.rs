//! Polls as HAProxy's agent check makes them, from one thread.
//!
//! HAProxy connects with `TCP_QUICKACK` off, so that its line goes with the last segment of the
//! handshake; reads up to the line end; and then closes with `SO_LINGER` 0, which is a reset, unless
//! it has seen the responder's end already (strace of 2.6 to 3.2).

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};

/// HAProxy gives up later; here it is a loss.
const POLL_TIME_MAX: Duration = Duration::from_secs(2);
const EVENTS_MAX: usize = 256;

/// How polls follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many are under way at once; each end begins another.
    Closed(usize),
    /// So many a second, whatever becomes of them. What one takes counts from when it was due, so
    /// that a responder that stands still is seen.
    Open(u32),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) polls: u64,
    /// Polls without the right answer.
    pub(crate) wrong: u64,
    pub(crate) took: Duration,
    /// Of each poll, ascending.
    spans: Vec<Duration>,
}

/// Polls one responder.
pub(crate) struct Generator {
    target: SocketAddr,
    lines: Vec<Vec<u8>>,
    epoll: OwnedFd,
    polls: Vec<Option<Poll>>,
    free: Vec<usize>,
    next: usize,
    outcome: Outcome,
}

struct Poll {
    socket: OwnedFd,
    line: usize,
    due: Instant,
    sent: bool,
    answer: [u8; 128],
    length: usize,
}

enum Step {
    Waits,
    Answered { end_seen: bool },
    Failed,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        let polls = self.polls as f64;
        polls / self.took.as_secs_f64()
    }

    pub(crate) fn percentile(&self, thousandth: usize) -> Duration {
        let last = self.spans.len().saturating_sub(1);
        self.spans
            .get(last * thousandth / 1_000)
            .copied()
            .unwrap_or_default()
    }
}

impl Generator {
    pub(crate) fn new(target: SocketAddr, lines: Vec<Vec<u8>>) -> Self {
        Self {
            target,
            lines,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll can be made"),
            polls: Vec::new(),
            free: Vec::new(),
            next: 0,
            outcome: Outcome {
                polls: 0,
                wrong: 0,
                took: Duration::ZERO,
                spans: Vec::new(),
            },
        }
    }

    /// Polls for this long.
    pub(crate) fn run(mut self, pace: Pace, span: Duration) -> Outcome {
        let begun = Instant::now();
        let mut due = VecDeque::new();
        let mut scheduled = 0_u32;
        while begun.elapsed() < span {
            match pace {
                Pace::Closed(count) => {
                    while self.under_way() < count {
                        self.begin(Instant::now());
                    }
                }
                Pace::Open(rate) => {
                    while begun + Duration::from_secs(1) * scheduled / rate <= Instant::now() {
                        due.push_back(begun + Duration::from_secs(1) * scheduled / rate);
                        scheduled += 1;
                    }
                    while let Some(due) = due.pop_front() {
                        self.begin(due);
                    }
                }
            }
            self.turn(Duration::from_micros(200));
        }
        self.outcome.took = begun.elapsed();
        // Those under way are no part of it, unless they never end.
        let end = Instant::now() + POLL_TIME_MAX;
        let polls = self.outcome.polls;
        while self.under_way() > 0 && Instant::now() < end {
            self.turn(Duration::from_millis(10));
        }
        self.outcome.wrong += self.under_way() as u64;
        self.outcome.polls = polls;
        self.outcome.spans.sort_unstable();
        self.outcome
    }

    fn under_way(&self) -> usize {
        self.polls.len() - self.free.len()
    }

    fn begin(&mut self, due: Instant) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
            .expect("there are descriptors");
        sockopt::set_tcp_nodelay(&socket, true).expect("a TCP socket has it");
        sockopt::set_tcp_quickack(&socket, false).expect("a TCP socket has it");
        match connect(&socket, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => panic!("cannot connect to {}: {error}", self.target),
        }
        let at = self.free.pop().unwrap_or(self.polls.len());
        let wanted = epoll::EventFlags::OUT | epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &socket, data, wanted).expect("it can be watched");
        let poll = Poll {
            socket,
            line: self.next,
            due,
            sent: false,
            answer: [0; 128],
            length: 0,
        };
        self.next = (self.next + 1) % self.lines.len();
        if at == self.polls.len() {
            self.polls.push(Some(poll));
        } else {
            self.polls[at] = Some(poll);
        }
    }

    fn turn(&mut self, wait: Duration) {
        let wait = Timespec::try_from(wait).expect("it is short");
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let (events, _) =
            epoll::wait(&self.epoll, &mut events[..], Some(&wait)).expect("nobody sends signals");
        for event in events {
            let at = usize::try_from(event.data.u64()).expect("it was one");
            let Some(poll) = &mut self.polls[at] else {
                continue;
            };
            let step = poll.step(&self.lines[poll.line], &self.epoll, event.data);
            let end_seen = match step {
                Step::Waits => continue,
                Step::Answered { end_seen } => end_seen,
                Step::Failed => {
                    self.outcome.wrong += 1;
                    true
                }
            };
            let poll = self.polls[at].take().expect("it was there");
            self.free.push(at);
            self.outcome.polls += 1;
            self.outcome.spans.push(poll.due.elapsed());
            if !end_seen {
                sockopt::set_socket_linger(&poll.socket, Some(Duration::ZERO))
                    .expect("a TCP socket can linger");
            }
        }
    }
}

impl Poll {
    fn step(&mut self, line: &[u8], epoll: &OwnedFd, data: epoll::EventData) -> Step {
        let asks = !self.sent;
        if asks {
            if send(&self.socket, line, SendFlags::NOSIGNAL) != Ok(line.len()) {
                return Step::Failed;
            }
            self.sent = true;
        }
        loop {
            match recv(
                &self.socket,
                &mut self.answer[self.length..],
                RecvFlags::empty(),
            ) {
                Err(Errno::AGAIN) if asks => {
                    let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
                    epoll::modify(epoll, &self.socket, data, wanted).expect("it is watched");
                    return Step::Waits;
                }
                Err(Errno::AGAIN) => return Step::Waits,
                Ok((0, _)) | Err(_) => return Step::Failed,
                Ok((read, _)) => self.length += read,
            }
            let answer = &self.answer[..self.length];
            if answer.ends_with(b"\n") {
                let end_seen = recv(&self.socket, &mut [0; 1][..], RecvFlags::PEEK)
                    .is_ok_and(|(read, _)| read == 0);
                return if answer.starts_with(b"up ready 100% # i=") {
                    Step::Answered { end_seen }
                } else {
                    Step::Failed
                };
            }
        }
    }
}

/// The lines of a fleet: nodes of `servers` each.
pub(crate) fn lines(nodes: usize, servers: usize) -> Vec<Vec<u8>> {
    let of_node = |node| {
        (0..servers).map(move |server| {
            format!("be_{server:02}/srv_{server:04} node=lb-{node:03} base=100\n").into_bytes()
        })
    };
    (0..nodes).flat_map(of_node).collect()
}
