//! `show servers state`: what a server was set to, its weights, whom it asks, and whether its agent
//! check runs.
//!
//! A line of version, a head with the columns' names, a line for each server, an empty line
//! (measured on 2.6 and 2.8, where the columns are the same).

use std::collections::BTreeMap;

use thiserror::Error;

use super::stats::ROWS_MAX;
use crate::domain::haproxy::lint::{Running, RunningServer};
use crate::domain::migration::{Mode, ServerState, SocketState};
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::WEIGHT_MAX;

/// The version of the form that is read.
const VERSION: &str = "1\n";
/// What stands before the names of the columns.
const HEAD: &str = "# ";
/// How every answer of a stats socket ends.
const END: &str = "\n\n";
/// Bits of `srv_admin_state`: maintenance and drain that were set by hand, by the configuration or
/// by an agent. Those that are inherited or come from a name that does not resolve are others.
const FORCED_MAINT: u32 = 1;
const FORCED_DRAIN: u32 = 8;
/// Bits of `srv_agent_state`: there is an agent check, it runs, and it pauses.
const CONFIGURED: u32 = 2;
const ENABLED: u32 = 4;
const PAUSED: u32 = 8;

/// The columns of numbers that are read.
const NUMBERS: [&str; 5] = [
    "srv_admin_state",
    "srv_uweight",
    "srv_iweight",
    "srv_agent_state",
    "srv_agent_port",
];

/// Why bytes are no `show servers state`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServersError {
    /// Another text: what it begins with.
    #[error("this is no `show servers state` of HAProxy: it begins with {0:?}")]
    Head(String),
    /// A column that is read is not there.
    #[error("`show servers state` has no column {0}")]
    Column(&'static str),
    /// Its end is missing, or a line has another length than the head.
    #[error("`show servers state` is torn")]
    Torn,
    /// Not a number where one should be.
    #[error("`show servers state`: {column} of {server} is no number: {text:?}")]
    Number {
        /// The column.
        column: &'static str,
        /// The server.
        server: String,
        /// What stands there.
        text: String,
    },
    /// More than [`ROWS_MAX`] lines.
    #[error("`show servers state` has more than {ROWS_MAX} lines")]
    TooLarge,
}

/// A line.
struct Line<'a> {
    id: String,
    /// The server's name.
    name: &'a str,
    /// In the order of [`NUMBERS`].
    numbers: [u32; 5],
    agent_address: &'a str,
}

/// Reads what the servers of a whole answer are set to. Servers whose names are none of ours are
/// left out: nobody can name them.
///
/// # Errors
/// See [`ServersError`].
pub fn read(bytes: &[u8]) -> Result<BTreeMap<ServerId, ServerState>, ServersError> {
    let mut servers = BTreeMap::new();
    each(bytes, |line| {
        let is_ours = Name::parse(line.name).and_then(|_| ServerId::parse(&line.id));
        if let Ok(id) = is_ours {
            servers.insert(id, state(line.numbers));
        }
    })?;
    Ok(servers)
}

/// Reads whom the servers of a whole answer ask.
///
/// # Errors
/// See [`ServersError`].
pub fn read_running(bytes: &[u8]) -> Result<Running, ServersError> {
    let mut running = Running::new();
    each(bytes, |line| {
        let [.., initial, agent, port] = line.numbers;
        let server = RunningServer {
            weight: weight(initial),
            agent_address: (line.agent_address != "-").then(|| line.agent_address.to_owned()),
            // HAProxy keeps a port that cannot be as it was written.
            agent_port: u16::try_from(port).unwrap_or(0),
            has_agent: agent & CONFIGURED != 0,
            agent_is_on: agent & ENABLED != 0,
        };
        running.insert(line.id, server);
    })?;
    Ok(running)
}

fn each(bytes: &[u8], mut take: impl FnMut(Line<'_>)) -> Result<(), ServersError> {
    let text = String::from_utf8_lossy(bytes);
    let wrong = || ServersError::Head(text.chars().take(60).collect());
    let body = text
        .strip_prefix(VERSION)
        .and_then(|text| text.strip_prefix(HEAD));
    let body = body.ok_or_else(wrong)?;
    let body = body.strip_suffix(END).ok_or(ServersError::Torn)?;
    let mut lines = body.lines();
    let head: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let column = |name: &'static str| {
        let place = head.iter().position(|column| *column == name);
        place.ok_or(ServersError::Column(name))
    };
    let [backend, server, address] = [
        column("be_name")?,
        column("srv_name")?,
        column("srv_agent_addr")?,
    ];
    let places = NUMBERS.map(column);
    for (at, line) in lines.enumerate() {
        if at >= ROWS_MAX {
            return Err(ServersError::TooLarge);
        }
        let fields: Vec<_> = line.split(' ').collect();
        if fields.len() != head.len() {
            return Err(ServersError::Torn);
        }
        let id = format!("{}/{}", fields[backend], fields[server]);
        let mut numbers = [0; NUMBERS.len()];
        for ((value, name), place) in numbers.iter_mut().zip(NUMBERS).zip(&places) {
            let text = fields[place.clone()?];
            *value = text.parse().map_err(|_| ServersError::Number {
                column: name,
                server: id.clone(),
                text: text.to_owned(),
            })?;
        }
        take(Line {
            id,
            name: fields[server],
            numbers,
            agent_address: fields[address],
        });
    }
    Ok(())
}

fn state([admin, now, initial, agent, _]: [u32; 5]) -> ServerState {
    let state = if admin & FORCED_MAINT != 0 {
        Mode::Maint
    } else if admin & FORCED_DRAIN != 0 {
        Mode::Drain
    } else {
        Mode::Ready
    };
    ServerState {
        now: SocketState {
            state,
            weight: weight(now),
        },
        initial: weight(initial).min(WEIGHT_MAX),
        agent: agent & (ENABLED | PAUSED) == ENABLED,
    }
}

/// HAProxy's weights are 256 at most.
fn weight(weight: u32) -> u16 {
    u16::try_from(weight).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD_LINE: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state \
        srv_admin_state srv_uweight srv_iweight srv_agent_state \
        srv_agent_addr srv_agent_port\n";

    fn read_lines(lines: &str) -> Result<BTreeMap<ServerId, ServerState>, ServersError> {
        read(format!("{HEAD_LINE}{lines}\n").as_bytes())
    }

    #[test]
    fn what_was_set_is_read_from_the_bits() {
        let lines = "2 web 1 a 127.0.0.1 2 0 40 100 0 - 0\n\
                     2 web 2 b 127.0.0.1 0 5 1 1 22 - 8790\n\
                     2 web 3 c 127.0.0.1 2 8 5 5 18 10.0.0.1 70000\n\
                     2 web 4 d 127.0.0.1 2 32 5 5 30 - 0\n\
                     2 web 5 a/b 127.0.0.1 2 0 5 5 0 - 0\n";
        let servers = read_lines(lines).unwrap();
        let shown: Vec<_> = servers
            .iter()
            .map(|(id, s)| format!("{id} {} of {} {}", s.now, s.initial, s.agent))
            .collect();
        assert_eq!(
            shown,
            [
                "web/a ready at weight 40 of 100 false",
                "web/b maint of 1 true",
                "web/c drain of 5 false",
                "web/d ready at weight 5 of 5 false",
            ]
        );
        let text = format!("{HEAD_LINE}{lines}\n");
        let running = read_running(text.as_bytes()).unwrap();
        assert_eq!(running.len(), 5);
        let [a, b, c] = ["web/a", "web/b", "web/c"].map(|id| &running[id]);
        assert_eq!((b.weight, b.agent_port), (1, 8_790));
        assert_eq!(b.agent_address, None);
        assert!(b.has_agent && b.agent_is_on && !a.has_agent);
        assert_eq!(c.agent_address.as_deref(), Some("10.0.0.1"));
        assert!(c.has_agent && !c.agent_is_on && c.agent_port == 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for bytes in [bytes.clone(), [HEAD_LINE.as_bytes(), &bytes].concat()] {
                let _ = (read(&bytes), read_running(&bytes));
            }
        }
    }

    #[test]
    fn what_is_torn_or_another_text_is_refused() {
        let torn = format!("{HEAD_LINE}2 web 1 a 127.0.0.1 2 0 40 100 0 - 0\n");
        assert_eq!(read(torn.as_bytes()), Err(ServersError::Torn));
        assert_eq!(read_lines("2 web 1 a\n"), Err(ServersError::Torn));
        let denied = read(b"Permission denied\n\n").unwrap_err();
        assert!(denied.to_string().contains("Permission denied"), "{denied}");
        let number = read_lines("2 web 1 a 127.0.0.1 2 x 40 100 0 - 0\n").unwrap_err();
        assert!(
            number.to_string().contains("srv_admin_state of web/a"),
            "{number}"
        );
        let column = read(b"1\n# be_name srv_name\nweb a\n\n").unwrap_err();
        assert_eq!(column, ServersError::Column("srv_agent_addr"));
    }
}
