//! What HAProxy says about itself on its stats socket.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Some 700 bytes per row: far above the largest configuration of the tests.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// One row of `show stat` or `show servers state`: fields by their column's name.
#[derive(Clone, Debug)]
pub(crate) struct Row(BTreeMap<String, String>);

impl Row {
    /// The field of that column; empty where HAProxy leaves it so.
    pub(crate) fn field(&self, column: &str) -> &str {
        self.0
            .get(column)
            .unwrap_or_else(|| panic!("no column {column} in {:?}", self.0.keys()))
    }

    /// `UP`, `DRAIN (agent)`, `MAINT`, `DOWN`, `no check`: compare the beginning, not the whole.
    pub(crate) fn status(&self) -> &str {
        self.field("status")
    }

    /// The weight in force: the configured one times the agent's percentage.
    pub(crate) fn weight(&self) -> u32 {
        self.number("weight")
    }

    /// `L7OK`, `CHECKED`, `L4CON`, ...; a check in progress puts `* ` before it, left out here.
    pub(crate) fn agent_status(&self) -> &str {
        self.field("agent_status").trim_start_matches("* ")
    }

    /// The agent's last words, 127 characters at most.
    pub(crate) fn last_agt(&self) -> &str {
        self.field("last_agt")
    }

    /// Whether the status begins with `status` and the weight is `weight`.
    pub(crate) fn stands(&self, status: &str, weight: Option<u32>) -> bool {
        self.status().starts_with(status) && weight.is_none_or(|weight| self.weight() == weight)
    }

    /// For a failure's message.
    pub(crate) fn shown(&self) -> String {
        let (status, weight) = (self.status(), self.weight());
        format!("{status} at {weight}, agent {:?}", self.last_agt())
    }

    /// A column that holds a number.
    pub(crate) fn number(&self, column: &str) -> u32 {
        let text = self.field(column);
        text.parse()
            .unwrap_or_else(|_| panic!("{column} is no number: {text:?}"))
    }
}

/// Sends one command and gives the whole answer.
pub(crate) fn command(socket: &Path, command: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    stream.write_all(command.as_bytes())?;
    stream.write_all(b"\n")?;
    // The master's socket waits for more commands until it is told that none come.
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Rows of `show stat`: CSV with `# ` before its head line.
pub(crate) fn parse_csv(text: &str) -> Vec<Row> {
    let mut lines = split_csv(text.trim_start_matches("# ").trim_end()).into_iter();
    let head = lines.next().unwrap_or_default();
    lines.map(|fields| to_row(&head, fields)).collect()
}

/// Rows of `show servers state`: a version, a head line with `# `, then fields between blanks.
pub(crate) fn parse_servers_state(text: &str) -> Vec<Row> {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with('#'));
    let head = words(lines.next().unwrap_or_default().trim_start_matches("# "));
    lines
        .filter(|line| !line.is_empty())
        .map(|line| to_row(&head, words(line)))
        .collect()
}

fn to_row(head: &[String], fields: Vec<String>) -> Row {
    Row(head.iter().cloned().zip(fields).collect())
}

/// Lines of fields. A quoted field may hold commas, line ends, and quotes written twice.
fn split_csv(text: &str) -> Vec<Vec<String>> {
    let mut lines = vec![vec![String::new()]];
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let line = lines.last_mut().expect("starts with one line");
        let field = line.last_mut().expect("starts with one field");
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => line.push(String::new()),
            '\n' if !quoted => lines.push(vec![String::new()]),
            other => field.push(other),
        }
    }
    lines
}

#[test]
fn a_csv_field_may_hold_commas_quotes_and_line_ends() {
    let rows = parse_csv("# pxname,last_agt,weight\nweb,\"a, \"\"b\"\"\nc\",7\nweb,,0\n\n");
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].last_agt(), rows[0].weight()), ("a, \"b\"\nc", 7));
    assert_eq!(rows[1].last_agt(), "");
}
