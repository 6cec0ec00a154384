//! Connections whose line was not there when they were accepted.
//!
//! HAProxy sends its line with the handshake's last segment, so none of its polls ends up here.
//! What does: probes, strangers, strings without a line end. They wait in a table of small entries,
//! watched by an epoll of their own.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use super::socket::{Buffer, Read, read};
use super::{REQUEST_TIME_MAX, SILENCE};
use crate::domain::authority::Moment;
use crate::domain::request::REQUEST_BYTES_MAX;

/// How many are looked at before something else has its turn.
pub(super) const EVENTS_MAX: usize = 64;
/// A table with more room than this gives it back once it is empty.
const ROOM_KEPT: usize = 1_024;

/// The late connections of one worker.
#[derive(Debug)]
pub(super) struct Late {
    epoll: Rc<OwnedFd>,
    entries: Vec<Option<Waiting>>,
    free: Vec<u32>,
    /// Those that have not said a byte, the oldest first; some of them are over, or have spoken.
    mute: VecDeque<Mute>,
    /// The others, each once, by when its silence ends at the latest word of it that was looked at.
    silences: VecDeque<Silent>,
    len: usize,
}

/// A request that is over, however it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) socket: OwnedFd,
    pub(super) source: IpAddr,
    /// How; a part when no further byte came in time.
    pub(super) read: Read,
    /// How many bytes of the buffer it is.
    pub(super) length: usize,
}

#[derive(Debug)]
struct Waiting {
    socket: OwnedFd,
    source: IpAddr,
    since: Moment,
    heard: Moment,
    part: Option<Box<Part>>,
}

/// What came so far.
#[derive(Debug)]
struct Part {
    bytes: [u8; REQUEST_BYTES_MAX],
    length: usize,
}

#[derive(Debug, Clone, Copy)]
struct Mute {
    at: u32,
    /// Tells it from an earlier connection in the same place.
    since: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Silent {
    at: u32,
    since: Moment,
    end: Moment,
}

impl Late {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Rc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            entries: Vec::new(),
            free: Vec::new(),
            mute: VecDeque::new(),
            silences: VecDeque::new(),
            len: 0,
        })
    }

    /// What becomes readable when one of them does.
    pub(super) fn epoll(&self) -> Rc<OwnedFd> {
        Rc::clone(&self.epoll)
    }

    /// How many wait.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Waits for the rest of a request that began with `part`.
    ///
    /// # Errors
    /// When the kernel cannot watch it.
    pub(super) fn add(
        &mut self,
        socket: OwnedFd,
        source: IpAddr,
        part: &[u8],
        now: Moment,
    ) -> io::Result<()> {
        let at = self.free.last().copied();
        let at = at.unwrap_or_else(|| {
            u32::try_from(self.entries.len()).expect("there are fewer descriptors")
        });
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(at.into());
        epoll::add(&self.epoll, &socket, data, flags)?;
        let waiting = Waiting {
            socket,
            source,
            since: now,
            heard: now,
            part: Part::of(part),
        };
        if self.free.pop().is_some() {
            self.entries[at as usize] = Some(waiting);
        } else {
            self.entries.push(Some(waiting));
        }
        self.len += 1;
        let since = now;
        if part.is_empty() {
            self.mute.push_back(Mute { at, since });
        } else {
            self.await_silence(at, since, now);
        }
        Ok(())
    }

    /// The places of connections with something to read.
    pub(super) fn readable(&self) -> ([u32; EVENTS_MAX], usize) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let none = Timespec::default();
        let mut places = [0; EVENTS_MAX];
        // Interrupted, or out of memory: the next turn asks again, and silences end all the same.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&none)) else {
            return (places, 0);
        };
        for (place, event) in places.iter_mut().zip(&*events) {
            *place = u32::try_from(event.data.u64()).expect("it was one");
        }
        (places, events.len())
    }

    /// Reads what came on one; gives it back when its request is over.
    pub(super) fn read(&mut self, at: u32, buffer: &mut Buffer, now: Moment) -> Option<Ended> {
        let waiting = self.entries.get_mut(at as usize)?.as_mut()?;
        let begin = waiting.length();
        let (how, length) = waiting.read(buffer);
        if how != Read::Part {
            return self.take(at, how, length);
        }
        let since = waiting.since;
        if length > begin {
            waiting.heard = now;
            waiting.part = Part::of(&buffer[..length]);
            if begin == 0 {
                self.await_silence(at, since, now);
            }
        }
        if now.since(since) < REQUEST_TIME_MAX {
            return None;
        }
        // Bytes keep dripping in: nobody knows what is still to come, so nothing is read.
        self.take(at, Read::Part, 0)
    }

    fn await_silence(&mut self, at: u32, since: Moment, now: Moment) {
        let end = Moment(now.0 + SILENCE);
        self.silences.push_back(Silent { at, since, end });
    }

    /// The next whose silence is over at `now`. The first byte is waited for as long as `patience`.
    pub(super) fn silent(
        &mut self,
        buffer: &mut Buffer,
        now: Moment,
        patience: Duration,
    ) -> Option<Ended> {
        while let Some(silent) = self.silences.front().copied()
            && silent.end <= now
        {
            self.silences.pop_front();
            let Some(waiting) = self.entries[silent.at as usize].as_ref() else {
                continue;
            };
            if waiting.since != silent.since {
                continue;
            }
            let end = Moment(waiting.heard.0 + SILENCE);
            if now < end {
                self.silences.push_back(Silent { end, ..silent });
                continue;
            }
            return self.end(silent.at, buffer);
        }
        self.mute(buffer, now, patience)
    }

    /// The one that has not said a byte for longest, and for at least so long.
    pub(super) fn mute(
        &mut self,
        buffer: &mut Buffer,
        now: Moment,
        patience: Duration,
    ) -> Option<Ended> {
        while let Some(mute) = self.mute.front().copied() {
            let waiting = self.entries[mute.at as usize].as_ref();
            let is_mute = waiting
                .is_some_and(|waiting| waiting.since == mute.since && waiting.part.is_none());
            if is_mute && now.since(mute.since) < patience {
                return None;
            }
            self.mute.pop_front();
            if is_mute {
                return self.end(mute.at, buffer);
            }
        }
        None
    }

    /// What came in the last moment is looked at: this thread may have stood still as well.
    fn end(&mut self, at: u32, buffer: &mut Buffer) -> Option<Ended> {
        let waiting = self.entries[at as usize].as_ref()?;
        let (how, length) = waiting.read(buffer);
        self.take(at, how, length)
    }

    fn take(&mut self, at: u32, read: Read, length: usize) -> Option<Ended> {
        let waiting = self.entries[at as usize].take()?;
        // It may be held on to after its answer. What the kernel refuses here was never watched.
        let _ = epoll::delete(&self.epoll, &waiting.socket);
        self.free.push(at);
        self.len -= 1;
        if self.len == 0 && self.entries.capacity() > ROOM_KEPT {
            self.entries = Vec::new();
            self.free = Vec::new();
            self.mute = VecDeque::new();
            self.silences = VecDeque::new();
        }
        Some(Ended {
            socket: waiting.socket,
            source: waiting.source,
            read,
            length,
        })
    }
}

impl Waiting {
    fn length(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.length)
    }

    /// Puts into the buffer what came so far, and what is there to read; gives the length of all.
    fn read(&self, buffer: &mut Buffer) -> (Read, usize) {
        let mut length = Part::put(self.part.as_deref(), buffer);
        // Readiness is told once: up to the last byte that is there.
        loop {
            let (how, all) = read(&self.socket, buffer, length);
            if how != Read::Part || all == length {
                return (how, all);
            }
            length = all;
        }
    }
}

impl Part {
    fn of(part: &[u8]) -> Option<Box<Self>> {
        if part.is_empty() {
            return None;
        }
        let mut bytes = [0; REQUEST_BYTES_MAX];
        // A longer one is whole: it is no part.
        bytes[..part.len()].copy_from_slice(part);
        Some(Box::new(Self {
            bytes,
            length: part.len(),
        }))
    }

    /// Puts it at the begin of `buffer`; gives its length.
    fn put(part: Option<&Self>, buffer: &mut Buffer) -> usize {
        let Some(part) = part else {
            return 0;
        };
        buffer[..part.length].copy_from_slice(&part.bytes[..part.length]);
        part.length
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// The peer's end, and the service's.
    fn pair() -> (TcpStream, OwnedFd) {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ours.into())
    }

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    /// Reads what is readable; gives the requests that are over.
    fn over(late: &mut Late, now: u64) -> Vec<(Read, String)> {
        let mut buffer: Buffer = [0; REQUEST_BYTES_MAX + 1];
        let (places, count) = late.readable();
        let mut over = Vec::new();
        for place in &places[..count] {
            if let Some(ended) = late.read(*place, &mut buffer, at(now)) {
                let text = String::from_utf8_lossy(&buffer[..ended.length]);
                over.push((ended.read, text.into_owned()));
            }
        }
        over
    }

    fn silent(late: &mut Late, now: u64) -> Option<String> {
        let mut buffer: Buffer = [0; REQUEST_BYTES_MAX + 1];
        let ended = late.silent(&mut buffer, at(now), REQUEST_TIME_MAX)?;
        Some(String::from_utf8_lossy(&buffer[..ended.length]).into_owned())
    }

    #[test]
    fn a_request_is_put_together_from_its_parts() {
        let mut late = Late::new().unwrap();
        let (mut peer, socket) = pair();
        late.add(socket, HERE, b"web/", at(0)).unwrap();
        peer.write_all(b"c").unwrap();
        assert_eq!(over(&mut late, 50), []);
        assert_eq!(silent(&mut late, 149), None);
        peer.write_all(b"ny\nmore").unwrap();
        let whole = "web/cny\nmore".to_owned();
        assert_eq!(over(&mut late, 149), [(Read::Whole, whole)]);
        assert_eq!(late.len(), 0);
        assert_eq!(silent(&mut late, 1_000), None);
    }

    #[test]
    fn a_silence_of_100_ms_after_the_last_byte_ends_a_request() {
        let mut late = Late::new().unwrap();
        let (mut peer, socket) = pair();
        late.add(socket, HERE, b"web", at(0)).unwrap();
        assert_eq!(silent(&mut late, 99), None);
        peer.write_all(b"/cny").unwrap();
        assert_eq!(over(&mut late, 99), []);
        assert_eq!(silent(&mut late, 100), None);
        assert_eq!(silent(&mut late, 198), None);
        assert_eq!(silent(&mut late, 199).as_deref(), Some("web/cny"));
        assert_eq!(late.len(), 0);
    }

    #[test]
    fn the_first_byte_is_waited_for_a_second_and_the_rest_as_ever() {
        let mut late = Late::new().unwrap();
        let (mut peer, socket) = pair();
        let (_mute, other) = pair();
        late.add(socket, HERE, b"", at(0)).unwrap();
        late.add(other, HERE, b"", at(30)).unwrap();
        for now in (0..1_000).step_by(10) {
            assert_eq!(silent(&mut late, now), None, "{now}");
        }
        peer.write_all(b"web/cny").unwrap();
        assert_eq!(over(&mut late, 995), []);
        assert_eq!(silent(&mut late, 1_029), None);
        assert_eq!(silent(&mut late, 1_030).as_deref(), Some(""));
        assert_eq!(silent(&mut late, 1_094), None);
        assert_eq!(silent(&mut late, 1_095).as_deref(), Some("web/cny"));
        assert_eq!(late.len(), 0);
    }

    #[test]
    fn who_has_been_mute_for_longest_makes_room_after_100_ms() {
        let mut late = Late::new().unwrap();
        let (mut spoke, socket) = pair();
        late.add(socket, HERE, b"", at(0)).unwrap();
        spoke.write_all(b"web/cny").unwrap();
        assert_eq!(over(&mut late, 1), []);
        let (gone, socket) = pair();
        late.add(socket, HERE, b"", at(2)).unwrap();
        drop(gone);
        assert_eq!(over(&mut late, 3), [(Read::Gone, String::new())]);
        let (_mute, socket) = pair();
        // In the place of the one that is gone.
        late.add(socket, HERE, b"", at(50)).unwrap();
        let mut buffer: Buffer = [0; REQUEST_BYTES_MAX + 1];
        let mut room = |late: &mut Late, now| late.mute(&mut buffer, at(now), SILENCE).is_some();
        assert!(!room(&mut late, 149));
        assert!(room(&mut late, 150));
        assert!(!room(&mut late, 5_000));
        assert_eq!(late.len(), 1);
    }

    #[test]
    fn what_came_in_the_last_moment_is_read() {
        let mut late = Late::new().unwrap();
        for part in ["", "web/"] {
            let (mut peer, socket) = pair();
            late.add(socket, HERE, part.as_bytes(), at(0)).unwrap();
            peer.write_all(b"cny\n").unwrap();
            let mut buffer: Buffer = [0; REQUEST_BYTES_MAX + 1];
            let ended = late.silent(&mut buffer, at(2_000), SILENCE).unwrap();
            let line = format!("{part}cny\n");
            assert_eq!(ended.read, Read::Whole);
            assert_eq!(&buffer[..ended.length], line.as_bytes());
        }
    }

    #[test]
    fn bytes_that_drip_in_for_a_second_are_given_up() {
        let mut late = Late::new().unwrap();
        let (mut peer, socket) = pair();
        late.add(socket, HERE, b"", at(0)).unwrap();
        for now in (50..1_000).step_by(50) {
            peer.write_all(b"w").unwrap();
            assert_eq!(over(&mut late, now), []);
            assert_eq!(silent(&mut late, now), None);
        }
        peer.write_all(b"w").unwrap();
        assert_eq!(over(&mut late, 1_000), [(Read::Part, String::new())]);
    }

    #[test]
    fn a_place_that_is_taken_again_keeps_nothing_of_its_first_connection() {
        let mut late = Late::new().unwrap();
        let (first, socket) = pair();
        late.add(socket, HERE, b"web/old", at(0)).unwrap();
        drop(first);
        assert_eq!(
            over(&mut late, 10),
            [(Read::HalfClosed, "web/old".to_owned())]
        );
        let (_second, socket) = pair();
        late.add(socket, HERE, b"web/new", at(60)).unwrap();
        assert_eq!(late.entries.len(), 1);
        // When the first one's silence would have ended.
        assert_eq!(silent(&mut late, 100), None);
        assert_eq!(silent(&mut late, 160).as_deref(), Some("web/new"));
        assert!(late.silences.is_empty());
    }

    #[test]
    fn an_idle_connection_takes_little_and_room_is_given_back() {
        // A table that grows by doubling has up to twice the room that it needs.
        let each = size_of::<Option<Waiting>>() + size_of::<Mute>() + size_of::<u32>();
        assert!(2 * each <= 256, "{each}");
        let mut late = Late::new().unwrap();
        let mut peers = Vec::new();
        for _ in 0..=ROOM_KEPT {
            let (peer, socket) = pair();
            late.add(socket, HERE, b"", at(0)).unwrap();
            peers.push(peer);
        }
        while silent(&mut late, 1_000).is_some() {}
        assert_eq!((late.len(), late.entries.capacity()), (0, 0));
    }
}
