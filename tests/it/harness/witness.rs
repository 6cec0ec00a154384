//! Looks at HAProxy nodes and asks replicas, many times a second, and keeps what it saw.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::history::At;
use super::judge::{LastPoll, Poll, Replica, Reply, Seen, Slot};
use super::stats;
use super::wait::let_pass;

/// Several times within one agent-inter of 500 ms: each poll's outcome is seen.
const LOOK_EVERY: Duration = Duration::from_millis(75);
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Long beside an answer (0.2 ms), short beside what is measured. A lost SYN is sent again after 1 s
/// only: waiting longer would see nothing more.
const ASK_MAX: Duration = Duration::from_millis(200);
/// More than any answer.
const ANSWER_BYTES_MAX: usize = 256;

/// Looks at one node until it is finished.
pub(crate) struct NodeWitness {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Vec<Slot>, Duration)>>,
}

/// Asks one replica until it is finished.
pub(crate) struct ReplicaWitness {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Replica>>,
}

/// A server of a node: `web/s01`, and the keys that decide about it, the strongest first.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) server: String,
    pub(crate) keys: Vec<String>,
}

impl NodeWitness {
    /// `socket` is the node's stats socket; it may be another process's after a reload.
    pub(crate) fn start(begin: Instant, node: &str, socket: PathBuf, servers: &[Watched]) -> Self {
        let slot = |watched: &Watched| Slot {
            name: format!("{node} {}", watched.server),
            keys: watched.keys.clone(),
            seen: Vec::new(),
            end: Duration::ZERO,
        };
        let slots: Vec<_> = servers.iter().map(slot).collect();
        let names: Vec<_> = servers
            .iter()
            .map(|watched| watched.server.clone())
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || look(&stop, begin, &socket, &names, slots))
        };
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// What each server was, and the longest time between two looks.
    pub(crate) fn finish(mut self) -> (Vec<Slot>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("finished once");
        thread.join().expect("looking does not panic")
    }
}

impl ReplicaWitness {
    pub(crate) fn start(begin: Instant, name: &str, agent: SocketAddr, watched: &Watched) -> Self {
        let mut replica = Replica {
            name: name.to_owned(),
            keys: watched.keys.clone(),
            polls: Vec::new(),
        };
        let request = format!("{} canary node=witness base=100\n", watched.server);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let sent = begin.elapsed();
                    let reply = ask(agent, &request);
                    let heard = begin.elapsed();
                    replica.polls.push(Poll { sent, heard, reply });
                    let_pass(ASK_EVERY.saturating_sub(heard.saturating_sub(sent)));
                }
                replica
            })
        };
        Self {
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn finish(mut self) -> Replica {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("finished once");
        thread.join().expect("asking does not panic")
    }
}

impl Drop for NodeWitness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for ReplicaWitness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Only what changed is kept: a minute of looks at 50 servers would be 40,000.
fn look(
    stop: &AtomicBool,
    begin: Instant,
    socket: &std::path::Path,
    names: &[String],
    mut slots: Vec<Slot>,
) -> (Vec<Slot>, Duration) {
    let (mut after, mut blind) = (None, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let asked = begin.elapsed();
        // Servers only: type 4 of any proxy.
        let answer = stats::command(socket, "show stat -1 4 -1").unwrap_or_default();
        let at = begin.elapsed();
        let rows = ServerRow::parse(&answer);
        if !rows.is_empty() {
            blind = blind.max(at.saturating_sub(after.unwrap_or(at)));
            for row in rows {
                let place = names.iter().position(|name| *name == row.server);
                let slot = &mut slots[place.expect("only known servers are configured")];
                slot.end = at;
                slot.take(row, after.unwrap_or_default(), at);
            }
            after = Some(asked);
        }
        let_pass(LOOK_EVERY.saturating_sub(begin.elapsed().saturating_sub(asked)));
    }
    (slots, blind)
}

impl Slot {
    fn take(&mut self, row: ServerRow, after: At, at: At) {
        let is_new = self
            .seen
            .last()
            .is_none_or(|last| last.state != row.state || last.last_poll != row.last_poll);
        if is_new {
            self.seen.push(Seen {
                after,
                at,
                state: row.state,
                last_poll: row.last_poll,
            });
        }
    }
}

/// What is needed of a row of `show stat`.
#[derive(Debug, PartialEq, Eq)]
struct ServerRow {
    server: String,
    state: String,
    last_poll: LastPoll,
}

impl ServerRow {
    /// Reads only the columns that count: this runs many times a second.
    fn parse(text: &str) -> Vec<Self> {
        let mut lines = text.trim_start_matches("# ").lines();
        let head: Vec<_> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| head.iter().position(|column| *column == name);
        let columns = [
            "pxname",
            "svname",
            "status",
            "weight",
            "agent_status",
            "last_agt",
        ];
        let [
            Some(backend),
            Some(server),
            Some(status),
            Some(weight),
            Some(agent),
            Some(last),
        ] = columns.map(column)
        else {
            return Vec::new();
        };
        let row = |line: &str| {
            // Answers of the service hold no comma.
            let fields: Vec<_> = line
                .split(',')
                .map(|field| field.trim_matches('"'))
                .collect();
            let field = |at: usize| fields.get(at).copied().unwrap_or_default();
            // A check under way: HAProxy has cleared the words of the one before.
            (!field(agent).starts_with('*')).then(|| Self {
                server: format!("{}/{}", field(backend), field(server)),
                state: state(field(status), field(weight)),
                last_poll: last_poll(field(agent), field(last)),
            })
        };
        lines
            .filter(|line| !line.is_empty())
            .filter_map(row)
            .collect()
    }
}

/// The state as a directive asks for it; configured weights are 100.
fn state(status: &str, weight: &str) -> String {
    match status.split(' ').next().unwrap_or_default() {
        "DRAIN" => "drain".to_owned(),
        "MAINT" => "maint".to_owned(),
        "UP" | "no" => format!("{weight}%"),
        other => other.to_owned(),
    }
}

fn last_poll(agent_status: &str, last_agt: &str) -> LastPoll {
    match agent_status {
        "" | "INI" => LastPoll::None,
        "L7OK" => match comment(last_agt) {
            Some((index, replica)) => LastPoll::Answered {
                index,
                replica: replica.to_owned(),
            },
            None => LastPoll::Unreadable(last_agt.to_owned()),
        },
        "CHECKED" | "L7STS" => LastPoll::Unreadable(last_agt.to_owned()),
        lost => LastPoll::Lost(lost.to_owned()),
    }
}

/// Index and replica in a comment: `i=17 r=a`.
fn comment(text: &str) -> Option<(u64, &str)> {
    let (_, rest) = text.split_once("i=")?;
    let (index, rest) = rest.split_once(' ')?;
    let replica = rest.strip_prefix("r=")?;
    Some((index.parse().ok()?, replica.trim_end_matches([')', '\n'])))
}

fn ask(agent: SocketAddr, request: &str) -> Reply {
    let Ok(mut stream) = TcpStream::connect_timeout(&agent, ASK_MAX) else {
        return Reply::NoConnection;
    };
    stream
        .set_read_timeout(Some(ASK_MAX))
        .expect("the limit is not zero");
    if stream.write_all(request.as_bytes()).is_err() {
        return Reply::NoConnection;
    }
    let mut answer = [0; ANSWER_BYTES_MAX];
    // One write is one segment.
    match stream.read(&mut answer) {
        Ok(0) => Reply::Silence,
        Ok(count) => reply(&String::from_utf8_lossy(&answer[..count])),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Reply::Silence,
        Err(_) => Reply::NoConnection,
    }
}

fn reply(line: &str) -> Reply {
    let words = line.split('#').next().unwrap_or_default().trim();
    let word = match words.strip_prefix("up ") {
        Some(state @ ("drain" | "maint")) => Some(state),
        Some(other) => other.strip_prefix("ready "),
        None => None,
    };
    match (word, comment(line)) {
        (Some(word), Some((index, _))) => Reply::Answer {
            index,
            word: word.to_owned(),
        },
        _ => Reply::Unreadable(line.to_owned()),
    }
}

#[test]
fn a_look_at_a_node_reads_state_and_last_answer() {
    let text = "# pxname,svname,status,weight,agent_status,last_agt,\n\
                web,s01,DRAIN (agent),100,L7OK,\"via agent : up (i=17 r=a)\",\n\
                web,s02,UP,40,L4CON,Connection refused,\n\
                web,s05,UP,40,* L7OK,,\n\
                web,s03,no check,100,,,\n\
                web,s04,MAINT,100,CHECKED,agent reports an error : unknown-group,\n\n";
    let row = |server: &str, state: &str, last_poll| ServerRow {
        server: server.to_owned(),
        state: state.to_owned(),
        last_poll,
    };
    let answered = LastPoll::Answered {
        index: 17,
        replica: "a".to_owned(),
    };
    let unknown = "agent reports an error : unknown-group".to_owned();
    assert_eq!(
        ServerRow::parse(text),
        [
            row("web/s01", "drain", answered),
            row("web/s02", "40%", LastPoll::Lost("L4CON".to_owned())),
            row("web/s03", "100%", LastPoll::None),
            row("web/s04", "maint", LastPoll::Unreadable(unknown)),
        ]
    );
}

#[test]
fn a_direct_answer_is_read_as_a_server_shows_it() {
    let answer = |word: &str| Reply::Answer {
        index: 9,
        word: word.to_owned(),
    };
    assert_eq!(reply("up ready 40% # i=9 r=a\n"), answer("40%"));
    assert_eq!(reply("up drain # i=9 r=a\n"), answer("drain"));
    assert!(matches!(reply("unknown-group\n"), Reply::Unreadable(_)));
}
