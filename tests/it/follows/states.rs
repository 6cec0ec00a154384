//! Every state that a server can be in converges to every state that can be asked for.

use std::time::Duration;

use super::{INTER, MARGIN, Seen, WRITTEN, Web, await_rows, rows_stand};
use crate::harness::backend::Backend;
use crate::harness::haproxy::Haproxy;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, eventually, throughout};

/// One state, and how a server comes into it.
struct Previous {
    name: &'static str,
    /// Directives of its override, one after the other.
    agent: &'static [&'static str],
    /// Commands on the stats socket, `{}` for the server.
    cli: &'static [&'static str],
    /// Further words of its line.
    more: &'static str,
    seen: Seen<'static>,
}

const fn by_agent(
    name: &'static str,
    agent: &'static [&'static str],
    seen: Seen<'static>,
) -> Previous {
    Previous {
        name,
        agent,
        cli: &[],
        more: "",
        seen,
    }
}

const fn by_cli(name: &'static str, cli: &'static [&'static str], seen: Seen<'static>) -> Previous {
    Previous {
        name,
        agent: &[],
        cli,
        more: "",
        seen,
    }
}

/// Every state that a server can be in before an answer, and what two steps add to them.
const PREVIOUS: &[Previous] = &[
    by_agent("up", &[], ("UP", Some(100))),
    by_agent("up50", &["50%"], ("UP", Some(50))),
    by_cli("cli-weight", &["set weight {} 30"], ("UP", Some(30))),
    // The service never says 0%: only a person can bring a server there.
    by_cli("cli-w0", &["set weight {} 0%"], ("UP", Some(0))),
    by_agent("drain", &["drain"], ("DRAIN", Some(100))),
    by_agent("drain50", &["50%", "drain"], ("DRAIN", Some(50))),
    by_cli(
        "cli-drain",
        &["set server {} state drain"],
        ("DRAIN", Some(100)),
    ),
    by_agent("maint", &["maint"], ("MAINT", None)),
    by_agent("maint50", &["50%", "maint"], ("MAINT", None)),
    by_cli("cli-maint", &["set server {} state maint"], ("MAINT", None)),
    Previous {
        name: "disabled",
        // Frozen: it stays as its configuration says.
        agent: &["no directive"],
        cli: &[],
        more: "disabled",
        seen: ("MAINT", None),
    },
    by_cli("down", &["set server {} agent down"], ("DOWN", Some(100))),
    by_cli(
        "drain-down",
        &["set server {} state drain", "set server {} agent down"],
        ("DOWN", Some(100)),
    ),
    by_cli(
        "maint-down",
        &["set server {} state maint", "set server {} agent down"],
        ("MAINT", None),
    ),
];

/// What can be asked for, and what HAProxy then shows.
const WANTED: [(&str, Seen<'_>); 4] = [
    ("ready", ("UP", Some(100))),
    ("40%", ("UP", Some(40))),
    ("drain", ("DRAIN", None)),
    ("maint", ("MAINT", None)),
];

/// Commands per line: each row has up to four of some 60 bytes.
const COMMANDS_AT_ONCE: usize = 20;

/// One cell of the table: a row of its own.
struct Cell {
    row: String,
    previous: &'static Previous,
    wanted: (&'static str, Seen<'static>),
}

fn cells() -> Vec<Cell> {
    let of_one = |previous: &'static Previous| {
        WANTED.iter().enumerate().map(move |(i, wanted)| Cell {
            row: format!("{}-{i}", previous.name),
            previous,
            wanted: *wanted,
        })
    };
    PREVIOUS.iter().flat_map(of_one).collect()
}

struct Table {
    cells: Vec<Cell>,
    state: StateFolder,
    tidegate: Tidegate,
    nodes: [Haproxy; 2],
    _target: Backend,
}

impl Table {
    fn start() -> Self {
        let (cells, state) = (cells(), StateFolder::new());
        for cell in &cells {
            if let Some(first) = cell.previous.agent.first() {
                state.put(&override_of(&cell.row), first);
            }
        }
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        let target = Backend::start("target");
        let web = Web::new(tidegate.agent(), INTER).to(target.address());
        let web = cells.iter().fold(web, |web, cell| {
            // A health check that passes would end "agent down" while its agent is disabled.
            let more = format!("check inter 1h {}", cell.previous.more);
            web.row(&cell.row, "base=100", &more)
        });
        let nodes = web.start();
        Self {
            cells,
            state,
            tidegate,
            nodes,
            _target: target,
        }
    }

    /// Writes each row's directive, and waits until the service answers by the last of them.
    fn write(&self, directive: impl Fn(&Cell) -> Option<&str>) {
        let mut last = None;
        for cell in &self.cells {
            if let Some(word) = directive(cell) {
                self.state.put(&override_of(&cell.row), word);
                last = Some((cell, word));
            }
        }
        // A listing is read whole, and the last one written is in it: so are the others.
        let (cell, word) = last.expect("some row changes");
        self.await_answer(cell, word);
    }

    fn await_answer(&self, cell: &Cell, word: &str) {
        let answer = match word {
            "ready" => "up ready 100%".to_owned(),
            "drain" | "maint" => format!("up {word}"),
            percentage => format!("up ready {percentage}"),
        };
        let line = format!("web/{}", cell.row);
        self.tidegate.await_answer(&line, &answer, WRITTEN);
    }

    fn await_all(&self, seen: impl Fn(&Cell) -> Seen<'static>, limit: Duration) -> Duration {
        await_rows(&self.nodes, &self.expected(seen), limit)
    }

    fn expected(&self, seen: impl Fn(&Cell) -> Seen<'static>) -> Vec<(String, Seen<'static>)> {
        self.cells
            .iter()
            .map(|cell| (cell.row.clone(), seen(cell)))
            .collect()
    }

    /// Commands on the stats sockets of both nodes, for the rows that have some.
    fn command(&self, of_row: impl Fn(&Cell) -> Option<String>) {
        let commands: Vec<_> = self.cells.iter().filter_map(of_row).collect();
        for node in &self.nodes {
            // HAProxy reads a line of commands into one buffer of 16 KiB.
            for some in commands.chunks(COMMANDS_AT_ONCE) {
                let said = node.stats(&some.join(";"));
                assert_eq!(said.trim(), "", "HAProxy refuses a command");
            }
        }
    }

    /// Brings every row into its previous state. Those that a person brought there have their
    /// agent disabled: the next poll would undo it.
    fn bring_into_previous(&self) {
        self.await_all(|cell| cell.previous.first_seen(), 2 * INTER + MARGIN);
        self.write(|cell| cell.previous.agent.get(1).copied());
        self.command(|cell| cell.previous.commands(&cell.row));
        let expected = self.expected(|cell| cell.previous.seen);
        eventually("every row is in its previous state", WRITTEN, || {
            let seen = self
                .nodes
                .iter()
                .try_for_each(|node| rows_stand(node, &expected));
            if seen.is_err() {
                // A poll may have come between two commands.
                self.command(|cell| cell.previous.commands(&cell.row));
            }
            seen
        });
    }
}

impl Previous {
    /// Where the first of its directives leads.
    fn first_seen(&self) -> Seen<'static> {
        match (self.agent, self.cli) {
            (["50%", ..], []) => ("UP", Some(50)),
            (_, []) => self.seen,
            (_, _) => ("UP", Some(100)),
        }
    }

    fn commands(&self, row: &str) -> Option<String> {
        let id = format!("web/{row}");
        let commands: Vec<_> = self.cli.iter().map(|c| c.replace("{}", &id)).collect();
        (!commands.is_empty()).then(|| {
            format!(
                "enable agent {id};{};disable agent {id}",
                commands.join(";")
            )
        })
    }
}

fn override_of(row: &str) -> String {
    format!("server-overrides/web/{row}")
}

#[test]
fn every_previous_state_converges_to_every_wanted_one_within_one_agent_inter() {
    let table = Table::start();
    table.bring_into_previous();
    table.command(|cell| Some(format!("disable agent web/{}", cell.row)));
    table.write(|cell| Some(cell.wanted.0));
    table.await_all(|cell| cell.previous.seen, Duration::ZERO);

    table.command(|cell| Some(format!("enable agent web/{}", cell.row)));
    let took = table.await_all(|cell| cell.wanted.1, INTER + MARGIN);
    let rows = table.cells.len();
    eprintln!(
        "2 versions x {rows} rows in every previous state: converged {took:?} after the first poll was allowed, agent-inter {INTER:?}"
    );

    for cell in &table.cells {
        table.state.remove(&override_of(&cell.row));
    }
    let last = table.cells.last().expect("the table has cells");
    table.await_answer(last, "ready");
    let took = table.await_all(|_| ("UP", Some(100)), INTER + MARGIN);
    eprintln!("all overrides deleted: ready at 100 % {took:?} after the service's answer");
}

#[test]
fn a_server_that_its_health_check_took_down_stays_down_while_its_agent_says_ready() {
    const SHORT: Duration = Duration::from_millis(300);
    let state = StateFolder::new();
    state.put("canary-state", "ready");
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let target = Backend::start("target");
    let checks = "check inter 100ms rise 1 fall 1";
    let config = Web::new(tidegate.agent(), SHORT)
        .to(target.address())
        .row("a", "canary base=100", checks)
        .config()
        .replace("backend web", "backend web\n    option httpchk GET /health");
    for version in crate::harness::haproxy::Version::ALL {
        target.set_healthy(true);
        state.put("canary-state", "ready");
        let haproxy = Haproxy::start(version, &config);
        let seen = |status, weight| haproxy.await_server("web", "a", (status, weight), WRITTEN);
        seen("UP", Some(100));
        target.set_healthy(false);
        seen("DOWN", None);
        // A new weight proves that the agent is heard all the while.
        state.put("canary-state", "40%");
        seen("DOWN", Some(40));
        throughout("the health check has its way", 4 * SHORT, || {
            let row = haproxy.server("web", "a");
            check(row.status().starts_with("DOWN"), || super::describe(&row))
        });
        target.set_healthy(true);
        seen("UP", Some(40));
    }
}
