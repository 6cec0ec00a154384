//! `show servers state`: what a server was set to, its weights, and whether its agent check runs.
//!
//! A line of version, a head with the columns' names, a line for each server, an empty line
//! (measured on 2.6 and 2.8, where the columns are the same).

use std::collections::BTreeMap;

use thiserror::Error;

use super::stats::ROWS_MAX;
use crate::domain::migration::{Mode, ServerState, SocketState};
use crate::domain::name::{Name, ServerId};

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
/// Bits of `srv_agent_state`: the agent check runs, and does not pause.
const ENABLED: u32 = 4;
const PAUSED: u32 = 8;

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

/// Reads a whole answer. Servers whose names are none of ours are left out: nobody can name them.
///
/// # Errors
/// See [`ServersError`].
pub fn read(bytes: &[u8]) -> Result<BTreeMap<ServerId, ServerState>, ServersError> {
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
    let [backend, server] = [column("be_name")?, column("srv_name")?];
    let numbers = [
        "srv_admin_state",
        "srv_uweight",
        "srv_iweight",
        "srv_agent_state",
    ];
    let places = numbers.map(column);
    let mut servers = BTreeMap::new();
    for (at, line) in lines.enumerate() {
        if at >= ROWS_MAX {
            return Err(ServersError::TooLarge);
        }
        let fields: Vec<_> = line.split(' ').collect();
        if fields.len() != head.len() {
            return Err(ServersError::Torn);
        }
        let id = format!("{}/{}", fields[backend], fields[server]);
        let mut values = [0; 4];
        for ((value, name), place) in values.iter_mut().zip(numbers).zip(&places) {
            let text = fields[place.clone()?];
            *value = text.parse().map_err(|_| ServersError::Number {
                column: name,
                server: id.clone(),
                text: text.to_owned(),
            })?;
        }
        let is_ours = Name::parse(fields[server]).and_then(|_| ServerId::parse(&id));
        if let Ok(id) = is_ours {
            servers.insert(id, state(values));
        }
    }
    Ok(servers)
}

fn state([admin, weight, initial, agent]: [u32; 4]) -> ServerState {
    let state = if admin & FORCED_MAINT != 0 {
        Mode::Maint
    } else if admin & FORCED_DRAIN != 0 {
        Mode::Drain
    } else {
        Mode::Ready
    };
    // HAProxy's weights are 256 at most.
    let weight_of = |weight: u32| u16::try_from(weight).unwrap_or(u16::MAX);
    ServerState {
        now: SocketState {
            state,
            weight: weight_of(weight),
        },
        initial: weight_of(initial).min(crate::domain::settings::WEIGHT_MAX),
        agent: agent & (ENABLED | PAUSED) == ENABLED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_LINE: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state \
        srv_admin_state srv_uweight srv_iweight srv_agent_state\n";

    fn read_lines(lines: &str) -> Result<BTreeMap<ServerId, ServerState>, ServersError> {
        read(format!("{HEAD_LINE}{lines}\n").as_bytes())
    }

    #[test]
    fn what_was_set_is_read_from_the_bits() {
        let lines = "2 web 1 a 127.0.0.1 2 0 40 100 0\n\
                     2 web 2 b 127.0.0.1 0 5 1 1 22\n\
                     2 web 3 c 127.0.0.1 2 8 5 5 18\n\
                     2 web 4 d 127.0.0.1 2 32 5 5 30\n\
                     2 web 5 a/b 127.0.0.1 2 0 5 5 0\n";
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
    }

    #[test]
    fn what_is_torn_or_another_text_is_refused() {
        let torn = format!("{HEAD_LINE}2 web 1 a 127.0.0.1 2 0 40 100 0\n");
        assert_eq!(read(torn.as_bytes()), Err(ServersError::Torn));
        assert_eq!(read_lines("2 web 1 a\n"), Err(ServersError::Torn));
        let denied = read(b"Permission denied\n\n").unwrap_err();
        assert!(denied.to_string().contains("Permission denied"), "{denied}");
        let number = read_lines("2 web 1 a 127.0.0.1 2 x 40 100 0\n").unwrap_err();
        assert!(
            number.to_string().contains("srv_admin_state of web/a"),
            "{number}"
        );
        let column = read(b"1\n# be_name srv_name\nweb a\n\n").unwrap_err();
        assert_eq!(column, ServersError::Column("srv_admin_state"));
    }
}
