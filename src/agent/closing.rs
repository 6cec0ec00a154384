//! Connections that have their answer, and whose end is HAProxy's to make.
//!
//! HAProxy resets a connection as soon as it has its line, and nobody keeps a `TIME_WAIT`. So an
//! answered connection is neither closed nor registered anywhere: it is held in a queue, and looked
//! at a little later, many at once in one system call. By then HAProxy has reset it, and closing it
//! costs no packet. Whoever does not close by himself is looked at again until his time is over.

use std::array;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CLOSE_TIME_MAX;
use super::socket::{Rest, discard};
use crate::domain::authority::Moment;

/// How long after its answer a connection is looked at. HAProxy needs a millisecond, and a round
/// trip.
const FIRST_LOOK: Duration = Duration::from_millis(2);
/// How long a connection waits besides until enough others are due to fill a system call. So a busy
/// worker holds few: with more, each close finds a socket that the processor's cache has lost.
const GATHER: Duration = Duration::from_millis(18);
/// The time between further looks.
const NEXT_LOOK: Duration = Duration::from_millis(20);
/// How many are looked at in one system call.
const LOOKED_AT_ONCE: usize = 64;

/// Answered connections of one worker.
#[derive(Debug)]
pub(super) struct Closing {
    /// Not looked at yet, the oldest first.
    fresh: VecDeque<Answered>,
    /// Whose peers did not close by themselves, in the order of their next look.
    slow: VecDeque<Answered>,
    /// The most of both together.
    capacity: usize,
}

#[derive(Debug)]
struct Answered {
    socket: OwnedFd,
    next_look: Moment,
    end: Moment,
    /// Bytes that came behind the request.
    excess: usize,
}

impl Closing {
    /// Room for so many connections; at least one.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            fresh: VecDeque::with_capacity(capacity),
            slow: VecDeque::new(),
            capacity,
        }
    }

    /// How many are held.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.slow.len()
    }

    /// Holds a connection that was answered at `now`. When there is no room the oldest one is
    /// closed.
    pub(super) fn push(&mut self, socket: OwnedFd, now: Moment) {
        if self.len() >= self.capacity {
            self.close_oldest();
        }
        self.fresh.push_back(Answered {
            socket,
            next_look: Moment(now.0 + FIRST_LOOK),
            end: Moment(now.0 + CLOSE_TIME_MAX),
            excess: 0,
        });
    }

    /// Closes the one that was held the longest; false when there is none. It has its answer: it
    /// loses nothing but the peer's own close.
    pub(super) fn close_oldest(&mut self) -> bool {
        let oldest = self.slow.pop_front().or_else(|| self.fresh.pop_front());
        let Some(mut oldest) = oldest else {
            return false;
        };
        discard(&oldest.socket, &mut oldest.excess);
        true
    }

    /// Looks at those whose time has come, and closes whom nobody needs any more.
    pub(super) fn look(&mut self, now: Moment) {
        for look in [Look::First, Look::Further] {
            // Whoever stays is due later.
            while let count @ 1.. = self.due(look, now) {
                self.look_at(look, count, now);
            }
        }
    }

    /// How many at the front are to be looked at, up to as many as are in one call.
    fn due(&mut self, look: Look, now: Moment) -> usize {
        let queue = self.queue(look);
        let Some(oldest) = queue.front() else {
            return 0;
        };
        let gathers = match look {
            Look::First => now < Moment(oldest.next_look.0 + GATHER),
            Look::Further => false,
        };
        let first = queue.iter().take(LOOKED_AT_ONCE);
        let due = first.take_while(|answered| answered.next_look <= now);
        let due = due.count();
        if gathers && due < LOOKED_AT_ONCE {
            0
        } else {
            due
        }
    }

    fn look_at(&mut self, look: Look, count: usize, now: Moment) {
        let ends = ends(self.queue(look), count);
        for end in &ends[..count] {
            let answered = self.queue(look).pop_front();
            let mut answered = answered.expect("as many are due");
            let rest = match end {
                End::Reset => Rest::Over,
                End::Perhaps => discard(&answered.socket, &mut answered.excess),
                End::NotYet => Rest::Open,
            };
            if rest == Rest::Open && now < answered.end {
                answered.next_look = Moment((now.0 + NEXT_LOOK).min(answered.end.0));
                self.slow.push_back(answered);
            }
        }
    }

    const fn queue(&mut self, look: Look) -> &mut VecDeque<Answered> {
        match look {
            Look::First => &mut self.fresh,
            Look::Further => &mut self.slow,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Look {
    First,
    Further,
}

/// What the kernel says of a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    /// The peer reset it: the rule.
    Reset,
    /// There is something to read: more bytes, or the peer's end.
    Perhaps,
    NotYet,
}

/// Asks the kernel about the first `count` of a queue, which is 1 to [`LOOKED_AT_ONCE`].
fn ends(queue: &VecDeque<Answered>, count: usize) -> [End; LOOKED_AT_ONCE] {
    let asked = PollFlags::IN | PollFlags::RDHUP;
    let mut polled: [_; LOOKED_AT_ONCE] = array::from_fn(|at| {
        // Beyond the count the last one stands in: nobody looks there.
        PollFd::new(&queue[at.min(count - 1)].socket, asked)
    });
    if poll(&mut polled[..count], Some(&Timespec::default())).is_err() {
        return [End::Perhaps; LOOKED_AT_ONCE];
    }
    polled.map(|polled| {
        let seen = polled.revents();
        if seen.intersects(PollFlags::HUP | PollFlags::ERR) {
            End::Reset
        } else if seen.is_empty() {
            End::NotYet
        } else {
            End::Perhaps
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use rustix::net::sockopt;

    use super::*;

    /// The peer's end, and the service's.
    fn pair() -> (TcpStream, OwnedFd) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        (peer, ours.into())
    }

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn reset(peer: TcpStream) {
        sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        drop(peer);
    }

    /// Whether the service's end is closed, as the peer sees it.
    fn is_closed(peer: &mut TcpStream) -> bool {
        matches!(peer.read(&mut [0; 8]), Ok(0))
    }

    #[test]
    fn who_resets_or_closes_is_let_go_at_the_first_look_and_who_stays_at_his_end() {
        let mut closing = Closing::new(10);
        let (resets, closes, mut stays) = (pair(), pair(), pair());
        for socket in [resets.1, closes.1, stays.1] {
            closing.push(socket, at(1_000));
        }
        reset(resets.0);
        drop(closes.0);
        closing.look(at(1_019));
        assert_eq!(closing.len(), 3);
        closing.look(at(1_020));
        assert_eq!(closing.len(), 1);
        closing.look(at(1_499));
        assert!(!is_closed(&mut stays.0));
        closing.look(at(1_500));
        assert_eq!(closing.len(), 0);
        assert!(is_closed(&mut stays.0));
    }

    #[test]
    fn more_than_a_call_looks_at_are_looked_at_and_each_by_itself() {
        let mut closing = Closing::new(1_000);
        let mut stays = Vec::new();
        for number in 0..=3 * LOOKED_AT_ONCE {
            let (peer, socket) = pair();
            closing.push(socket, at(0));
            if number % 2 == 0 {
                reset(peer);
            } else {
                stays.push(peer);
            }
        }
        closing.look(at(20));
        assert_eq!(closing.len(), stays.len());
        assert!(!stays.iter_mut().any(is_closed));
        closing.look(at(500));
        assert_eq!(closing.len(), 0);
        assert!(stays.iter_mut().all(is_closed));
    }

    #[test]
    fn the_oldest_makes_room_and_is_not_reset_for_what_it_sent_behind_its_line() {
        let mut closing = Closing::new(2);
        let mut peers = Vec::new();
        for _ in 0..3 {
            let (mut peer, socket) = pair();
            peer.write_all(b"more").unwrap();
            closing.push(socket, at(0));
            peers.push(peer);
        }
        assert_eq!(closing.len(), 2);
        let closed: Vec<_> = peers.iter_mut().map(is_closed).collect();
        assert_eq!(closed, [true, false, false]);
    }

    #[test]
    fn who_sends_without_end_is_let_go() {
        let mut closing = Closing::new(2);
        let (mut peer, socket) = pair();
        closing.push(socket, at(0));
        let mut now = 20;
        while closing.len() > 0 {
            // An error when the kernel takes no more, or the service has let go.
            while peer.write(&[0; 4096]).is_ok() {}
            closing.look(at(now));
            now += 100;
            assert!(now <= 520, "it is held up to its end");
        }
        assert!(now < 420, "{now}");
    }
}
