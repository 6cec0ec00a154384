//! `show servers state`: fields between blanks, whose columns are found by their names.

use thiserror::Error;

use crate::domain::haproxy::lint::{Running, RunningServer};

/// Bits of `srv_agent_state`: it has an agent check, and that is switched on.
const CONFIGURED: u8 = 2;
const ENABLED: u8 = 4;

/// Why bytes are no `show servers state`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServersStateError {
    /// Another text.
    #[error("this is no `show servers state` of HAProxy: no line begins with `# be_id`")]
    Head,
    /// A column that is read is not there.
    #[error("`show servers state` has no column {0}")]
    Column(&'static str),
    /// A row that cannot be read.
    #[error("`show servers state` is torn: row {0} cannot be read")]
    Row(usize),
}

/// Reads the answer of a stats socket.
///
/// # Errors
/// See [`ServersStateError`].
pub fn read(answer: &[u8]) -> Result<Running, ServersStateError> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("# be_id"));
    let head = lines.next().ok_or(ServersStateError::Head)?;
    let columns: Vec<_> = head.trim_start_matches("# ").split_whitespace().collect();
    let column = |name| {
        let at = columns.iter().position(|column| *column == name);
        at.ok_or(ServersStateError::Column(name))
    };
    let at = [
        column("be_name")?,
        column("srv_name")?,
        column("srv_iweight")?,
        column("srv_agent_state")?,
        column("srv_agent_addr")?,
        column("srv_agent_port")?,
    ];
    let mut running = Running::new();
    for (number, line) in lines.filter(|line| !line.is_empty()).enumerate() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (id, server) = row(&fields, at).ok_or(ServersStateError::Row(number + 1))?;
        running.insert(id, server);
    }
    Ok(running)
}

fn row(fields: &[&str], at: [usize; 6]) -> Option<(String, RunningServer)> {
    let [backend, server, weight, state, address, port] = at.map(|at| fields.get(at).copied());
    let state: u8 = state?.parse().ok()?;
    let running = RunningServer {
        weight: weight?.parse().ok()?,
        agent_address: address.filter(|address| *address != "-").map(str::to_owned),
        // HAProxy keeps a port that cannot be as it was written.
        agent_port: port?
            .parse::<u32>()
            .ok()
            .map(|port| u16::try_from(port).unwrap_or(0))?,
        has_agent: state & CONFIGURED != 0,
        agent_is_on: state & ENABLED != 0,
    };
    Some((format!("{}/{}", backend?, server?), running))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_says_whom_it_asks_and_whether() {
        let text = "1\n# be_id be_name srv_id srv_name srv_iweight srv_agent_state srv_agent_addr srv_agent_port\n\
                    2 web 1 a 100 22 - 7000\n2 web 2 b 50 18 10.0.0.1 70000\n2 web 3 c 1 0 - 0\n\n";
        let running = read(text.as_bytes()).unwrap();
        let a = &running["web/a"];
        assert_eq!(
            (a.weight, a.agent_port, a.has_agent, a.agent_is_on),
            (100, 7_000, true, true)
        );
        assert_eq!(a.agent_address, None);
        let b = &running["web/b"];
        assert_eq!(
            (b.agent_address.as_deref(), b.agent_port),
            (Some("10.0.0.1"), 0)
        );
        assert!(b.has_agent && !b.agent_is_on && !running["web/c"].has_agent);
    }

    #[test]
    fn another_text_is_refused() {
        assert_eq!(read(b"Unknown command\n"), Err(ServersStateError::Head));
        assert_eq!(
            read(b"# be_id x\n"),
            Err(ServersStateError::Column("be_name"))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = b"# be_id be_name srv_name srv_iweight srv_agent_state srv_agent_addr srv_agent_port\n";
            let _ = read(&[&head[..], &bytes].concat());
        }
    }
}
