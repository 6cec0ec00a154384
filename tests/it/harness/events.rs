//! A reader of server-sent events, as a browser is one.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// More than any section of the page.
const UNREAD_BYTES_MAX: usize = 4 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
}

/// An open stream.
pub(crate) struct Events {
    stream: TcpStream,
    pub(crate) status: u16,
    /// The answer's head, as it came.
    pub(crate) head: String,
    /// What came and is not yet decoded.
    raw: Vec<u8>,
    /// What is decoded and not yet an event.
    text: Vec<u8>,
}

impl Events {
    /// Asks for the events of a path; `known` is the id of the last one that this reader had.
    pub(crate) fn open(address: SocketAddr, path: &str, known: Option<&str>) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let known = known.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{known}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut events = Self {
            stream,
            status: 0,
            head: String::new(),
            raw: Vec::new(),
            text: Vec::new(),
        };
        let end = loop {
            if let Some(end) = find(&events.raw, b"\r\n\r\n") {
                break end + 4;
            }
            if !events.fill()? {
                return Err(broken("it ended within its head"));
            }
        };
        let rest = events.raw.split_off(end);
        events.head = String::from_utf8_lossy(&events.raw).into_owned();
        events.raw = rest;
        let status = events.head.split(' ').nth(1);
        events.status = status.and_then(|s| s.parse().ok()).unwrap_or(0);
        Ok(events)
    }

    /// The next event; `None` at the orderly end of the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            if let Some(end) = find(&self.text, b"\n\n") {
                let rest = self.text.split_off(end + 2);
                let text = String::from_utf8_lossy(&self.text).into_owned();
                self.text = rest;
                let event = Event::read(&text);
                // Otherwise it only says how soon to come again.
                if !event.name.is_empty() {
                    return Ok(Some(event));
                }
                continue;
            }
            if !self.chunk()? {
                return Ok(None);
            }
        }
    }

    /// The next event of that name; panics when the stream ends before it.
    pub(crate) fn await_named(&mut self, name: &str) -> Event {
        loop {
            match self.next() {
                Ok(Some(event)) if event.name == name => return event,
                Ok(Some(_)) => {}
                other => panic!("no event {name:?} any more: {other:?}"),
            }
        }
    }

    /// Decodes one chunk (RFC 9112, section 7.1); false at the last one.
    fn chunk(&mut self) -> io::Result<bool> {
        let head = loop {
            if let Some(end) = find(&self.raw, b"\r\n") {
                break end;
            }
            if !self.fill()? {
                return Err(broken("it ended without its last chunk"));
            }
        };
        let size = String::from_utf8_lossy(&self.raw[..head]).into_owned();
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| broken("no chunk size"))?;
        while self.raw.len() < head + 2 + size + 2 {
            if !self.fill()? {
                return Err(broken("it ended within a chunk"));
            }
        }
        self.text.extend(&self.raw[head + 2..head + 2 + size]);
        self.raw.drain(..head + 2 + size + 2);
        Ok(size > 0)
    }

    fn fill(&mut self) -> io::Result<bool> {
        if self.raw.len() > UNREAD_BYTES_MAX {
            return Err(broken("an event has no end"));
        }
        let mut buffer = [0; 16_384];
        let count = self.stream.read(&mut buffer)?;
        self.raw.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }
}

impl Event {
    fn read(text: &str) -> Self {
        let field = |name: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name));
            let values = lines.map(|value| value.trim_start_matches(' '));
            values.collect::<Vec<_>>().join("\n")
        };
        let id = field("id:");
        Self {
            name: field("event:"),
            data: field("data:"),
            id: (!id.is_empty()).then_some(id),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
