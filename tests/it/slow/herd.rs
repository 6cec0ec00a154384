//! A herd of polls on one of three replicas: all connect at the same moment.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::consul::{Consul, loopback};
use crate::harness::dial::{connect_from, raise_descriptor_limit};
use crate::harness::folder::Folder;
use crate::harness::process::Process;
use crate::harness::replicas::Replicas;
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment, poll};
use crate::harness::wait::{PATIENCE, check, eventually};

/// Of each process; it may hold 20,000 descriptors here.
const CONNECTIONS: usize = 15_000;
const PROCESSES: usize = 2;
/// Of each process: so many connect at the same moment.
const THREADS: usize = 30;
/// Each process dials from so many addresses.
const SOURCES: usize = 4;
/// The service lets in so many at once. Who has his answer makes room, so few of a herd are closed.
const CAP: &str = "500";
/// A connection that finds the kernel's queues full is tried again after 1, 3, 7 and 15 s.
const FATE_MAX: Duration = Duration::from_secs(20);
/// A probe of a balancer gives up after a second.
const PAGE_MAX: Duration = Duration::from_secs(1);
/// A change is answered within the lease (1.5 s), and nothing older after that.
const CHANGE_MAX: Duration = Duration::from_millis(1_500);
/// Whoever finds no place, or a full queue, asks again.
const ASKED_AGAIN_MAX: Duration = Duration::from_secs(5);

const LINE: &str = "web/cny canary";
const KEY: &str = "frontend/gprd/canary-state";
const DRAINED: &str = r#"tidegate_agent_answers_total{answer="drain"}"#;
const IN_MAINT: &str = r#"tidegate_agent_answers_total{answer="maint"}"#;
const OVER_LIMIT: &str = r#"tidegate_agent_silent_total{reason="over_limit"}"#;
/// Where the herd goes: set for the processes that are its parts.
const TARGET: &str = "TIDEGATE_TEST_HERD_TARGET";
const NUMBER: &str = "TIDEGATE_TEST_HERD_NUMBER";
const RUNS: &str = "the herd runs";
const FATES: &str = "fates of the herd:";

#[test]
fn a_herd_on_one_of_three_replicas_is_answered_or_closed_and_all_go_on() {
    let consul = Consul::dev();
    consul.kv_put("frontend/gprd/_meta", META);
    consul.kv_put(KEY, "drain");
    let arguments = ["--kv", "consul", "--agent-connections-max", CAP];
    let mut replicas = Replicas::start(3, &arguments, &consul_environment(&consul));
    await_heard(&replicas);
    let mut logs: Vec<_> = replicas.all.iter_mut().map(log).collect();

    let folder = Folder::new("herd");
    let target = replicas.all[0].agent();
    let mut herd: Vec<_> = (0..PROCESSES)
        .map(|number| start_part(number, &folder, target))
        .collect();
    eventually("the herd runs", PATIENCE, || {
        check(
            herd.iter().all(|part| part.log_text().contains(RUNS)),
            || herd.iter().map(Process::log_text).collect(),
        )
    });
    let mut seen = Seen::default();
    let desired = ["maint", "drain"].into_iter().cycle();
    for desired in desired {
        consul.kv_put(KEY, desired);
        seen.change(&replicas, &format!("up {desired}"));
        if herd.iter().all(|part| part.log_text().contains(FATES)) {
            break;
        }
        for part in &mut herd {
            part.assert_running();
        }
    }
    println!("{seen:?}");
    for part in &herd {
        let text = part.log_text();
        let fates = text
            .lines()
            .find(|line| line.contains(FATES))
            .expect("awaited");
        println!(
            "{}",
            text.lines()
                .find(|line| line.starts_with("part "))
                .expect("it is above")
        );
        println!("{fates}");
        assert!(fates.ends_with("0 hung, 0 other"), "{text}");
    }
    assert!(seen.changes >= 2, "the herd was gone too soon");
    let first = &replicas.all[0];
    let answered = first.count(DRAINED) + first.count(IN_MAINT);
    let refused = first.count(OVER_LIMIT);
    println!("replica a: {answered} answered, {refused} over the limit");
    assert!(answered > 1_000, "{answered}");
    await_heard(&replicas);
    // Neither a part that stood still, nor an authority that was lost for a moment.
    for (replica, before) in replicas.all.iter_mut().zip(&mut logs) {
        let log = log(replica);
        let new = &log[before.len()..];
        assert!(!new.contains("nothing is answered"), "{new}");
        assert!(!new.contains("ERROR"), "{new}");
    }
}

/// What the test saw beside the herd.
#[derive(Debug, Default)]
struct Seen {
    changes: usize,
    slowest_change: Duration,
    slowest_in_the_herd: Duration,
    pages: usize,
    slowest_page: Duration,
}

impl Seen {
    /// A change that was just written: until all three say so.
    fn change(&mut self, replicas: &Replicas, answer: &str) {
        let written = Instant::now();
        // The one among the herd comes last: whoever asks it may have to ask again.
        for (at, replica) in replicas.all.iter().enumerate().rev() {
            eventually("the change is answered", PATIENCE, || {
                let asked = written.elapsed();
                let told = poll(replica.agent(), LINE).map_err(|error| error.to_string())?;
                let old = !told.is_empty() && told != answer;
                assert!(
                    !old || asked < CHANGE_MAX,
                    "{told}, {asked:?} after {answer}"
                );
                check(told == answer, || told)
            });
            let took = written.elapsed();
            let (slowest, limit) = if at == 0 {
                (&mut self.slowest_in_the_herd, ASKED_AGAIN_MAX)
            } else {
                (&mut self.slowest_change, CHANGE_MAX)
            };
            assert!(took < limit, "{answer} after {took:?}");
            *slowest = took.max(*slowest);
        }
        self.changes += 1;
        for replica in &replicas.all {
            for page in ["/readyz", "/livez"] {
                let begun = Instant::now();
                let got = replica.get(page);
                assert_eq!(got.status, 200, "{page}: {}", got.text());
                let took = begun.elapsed();
                assert!(took < PAGE_MAX, "{page} took {took:?}");
                self.pages += 1;
                self.slowest_page = self.slowest_page.max(took);
            }
        }
    }
}

/// Until each replica has the fresh word of each other one.
fn await_heard(replicas: &Replicas) {
    for (at, replica) in replicas.all.iter().enumerate() {
        for (other, slot) in ["a", "b", "c"].into_iter().enumerate() {
            if other != at {
                replica.await_counted(slot, "current");
            }
        }
    }
}

fn log(tidegate: &mut Tidegate) -> String {
    tidegate.process().log_text()
}

fn start_part(number: usize, folder: &Folder, target: SocketAddr) -> Process {
    let program = std::env::current_exe().expect("a test knows its own program");
    let mut command = Command::new(program);
    command
        .args(["slow::herd::one_part_of_the_herd", "--exact"])
        .args(["--ignored", "--nocapture"])
        .env(TARGET, target.to_string())
        .env(NUMBER, number.to_string());
    Process::start(&format!("herd-{number}"), folder.path(), &command)
}

/// Not a test of its own: the process that the one above starts.
#[test]
#[ignore = "started by a_herd_on_one_of_three_replicas_is_answered_or_closed_and_all_go_on"]
fn one_part_of_the_herd() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let target: SocketAddr = variable(TARGET).parse().expect("an address");
    let number: usize = variable(NUMBER).parse().expect("a number");
    raise_descriptor_limit();
    let source = |thread: usize| {
        let last = 2 + number * SOURCES + thread % SOURCES;
        loopback(u8::try_from(last).expect("few processes, few sources"))
    };
    println!("{RUNS}");
    let begun = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(source)
        .map(|source| thread::spawn(move || poll_many(source, target)))
        .collect();
    let fates = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("no panic"));
    let (mut answered, mut closed, mut late, mut hung, mut other) = (0, 0, 0, 0, 0);
    for fate in fates {
        *match fate {
            Fate::Answered => &mut answered,
            Fate::Closed => &mut closed,
            Fate::Late => &mut late,
            Fate::Hung => &mut hung,
            Fate::Other(text) => {
                println!("{text}");
                &mut other
            }
        } += 1;
    }
    println!("part {number} took {:?}", begun.elapsed());
    println!(
        "{FATES} {answered} answered, {closed} closed, {late} late, {hung} hung, {other} other"
    );
    // Until the test ends this process.
    loop {
        thread::park();
    }
}

enum Fate {
    Answered,
    /// Without a byte.
    Closed,
    /// This thread was kept from running for 100 ms between its connect and its line.
    Late,
    Hung,
    Other(String),
}

/// Asks on all of them, and only then reads what each was told.
fn poll_many(source: IpAddr, target: SocketAddr) -> Vec<Fate> {
    let asked: Vec<_> = (0..CONNECTIONS / THREADS)
        .map(|_| ask(source, target))
        .collect();
    asked
        .into_iter()
        .map(|asked| asked.map_or_else(|error| Fate::of(&error), fate))
        .collect()
}

/// Connects and asks at once, as HAProxy does.
fn ask(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = connect_from(source, target)?;
    stream.set_read_timeout(Some(FATE_MAX))?;
    match stream.write_all(format!("{LINE}\n").as_bytes()) {
        // Closed already: reading says so.
        Err(error) if is_close(&error) => Ok(stream),
        written => written.map(|()| stream),
    }
}

fn fate(mut stream: TcpStream) -> Fate {
    let mut answer = [0; 128];
    match stream.read(&mut answer) {
        Ok(0) => Fate::Closed,
        Ok(length) => {
            let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
            let whole = answer.starts_with("up ") && answer.ends_with('\n');
            if whole {
                Fate::Answered
            } else if answer == "unknown-request\n" {
                Fate::Late
            } else {
                Fate::Other(answer)
            }
        }
        Err(error) => Fate::of(&error),
    }
}

impl Fate {
    fn of(error: &io::Error) -> Self {
        let late = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        if late.contains(&error.kind()) {
            Self::Hung
        } else if is_close(error) {
            Self::Closed
        } else {
            Self::Other(error.to_string())
        }
    }
}

fn is_close(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}
