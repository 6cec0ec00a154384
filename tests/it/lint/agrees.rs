//! The reader against real HAProxy: the same words, the same branches, the same servers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tidegate::domain::haproxy;
use tidegate::domain::haproxy::configuration::Configuration;
use tidegate::domain::haproxy::lint::{Evidence, Running, RunningServer, Scene};
use tidegate::domain::haproxy::reading::{File, Reading, Setting};
use tidegate::domain::haproxy::words::{self, Variables, WordError};
use tidegate::haproxy::files;
use tidegate::haproxy::servers;

use super::setting;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{DEFAULTS, Haproxy, Version};
use crate::harness::wait::{PATIENCE, check, eventually};

/// What HAProxy is started with.
const VARIABLES: [(&str, &str); 4] = [
    ("ZONE", "us-east1-b"),
    ("LIST", " a  b c"),
    ("NONE", ""),
    ("OPTIONS", "weight 2 backup"),
];
/// Lines of one file: HAProxy gives up after 50 errors.
const LINES: usize = 40;
const FILES: usize = 10;

/// Pieces that words are made of.
const PIECES: [&str; 35] = [
    "a",
    "b",
    "-",
    "é",
    " ",
    "  ",
    "\t",
    "\"",
    "\"",
    "\"",
    "'",
    "\\",
    "\\\\",
    "\\n",
    "\\t",
    "\\ ",
    "\\#",
    "\\$",
    "\\\"",
    "\\'",
    "\\x41",
    "\\x4",
    "#",
    "$",
    "$ZONE",
    "${ZONE}",
    "${LIST[*]}",
    "${GONE-x y}",
    "${NONE-x}",
    "${GONE-${ZONE}}",
    "${ZONE",
    "$GONE",
    "${GONE}",
    "${GONE}\"",
    "${.LINE}",
];

/// Lines from a fixed seed: they are the same in each run.
fn lines() -> Vec<String> {
    let pieces = proptest::collection::vec(proptest::sample::select(&PIECES[..]), 1..12);
    let mut runner = TestRunner::deterministic();
    let line = |_| {
        let tree = pieces.new_tree(&mut runner).expect("nothing is rejected");
        tree.current().concat()
    };
    (0..LINES * FILES).map(line).collect()
}

/// The releases that `scripts/setup` fetches.
fn release(version: Version) -> haproxy::version::Version {
    let release = match version {
        Version::V26 => "2.6.12",
        Version::V28 => "2.8.25",
    };
    release.parse().expect("a version")
}

/// `.notice` says its word, and complains of a second one.
fn expected(line: &str, number: usize, joins_unset: bool) -> String {
    let value = |name: &str| match name {
        ".LINE" => Some(number.to_string()),
        name => {
            let known = VARIABLES.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        }
    };
    let variables = Variables {
        value: &value,
        joins_unset,
    };
    let refused = match words::split(line.as_bytes(), &variables) {
        Ok(split) => {
            let word = |at: usize| split.words.get(at).map_or("", |word| &word.text);
            return match word(2) {
                "" => format!("'{}'.\n", word(1)),
                second => format!("Unexpected argument '{second}' for"),
            };
        }
        Err((_, error)) => error,
    };
    let text = match refused {
        WordError::Quote => "unmatched quote at",
        WordError::Brace => "unmatched brace in",
        WordError::VariableName => "forbidden first char in",
        WordError::Hexadecimal => "truncated or invalid hexadecimal",
        WordError::Expansion => "truncated or invalid word expansion",
        WordError::TooMany | WordError::TooLong => "too many words",
    };
    text.to_owned()
}

fn check_words(version: Version) {
    let joins_unset = release(version).joins_unset();
    let folder = Folder::new("lint-words");
    for (at, lines) in lines().chunks(LINES).enumerate() {
        let lines: Vec<_> = lines.iter().map(|line| format!(".notice {line}")).collect();
        let name = format!("{at}.cfg");
        let path = folder.write(&name, &format!("global\n{}\n", lines.join("\n")));
        let output = Haproxy::says(version, &path, &VARIABLES);
        let said = output.stdout + &output.stderr;
        for (number, line) in (2..).zip(&lines) {
            let wanted = format!(
                "parsing [{}:{number}]: {}",
                path.display(),
                expected(line, number, joins_unset)
            );
            assert!(
                said.contains(&wanted),
                "{version:?} {line:?}\nwanted {wanted:?} in\n{said}"
            );
        }
    }
}

#[test]
fn a_line_has_the_words_that_haproxy_2_6_has() {
    check_words(Version::V26);
}

#[test]
fn a_line_has_the_words_that_haproxy_2_8_has() {
    check_words(Version::V28);
}

/// Which conditions hold, by the numbers that are said.
const CONDITIONS: [&str; 23] = [
    "",
    "0",
    "1",
    "-0x0",
    "010 && 0x1",
    "defined(ZONE)",
    "!defined(ZONE)",
    "! ! defined(NONE)",
    "defined(GONE)",
    "streq(\"$ZONE\",us-east1-b)",
    "streq(\"'a,b'\",\"'a,b'\")",
    "streq(a\\ b,'a b')",
    "streq(,)",
    "strneq(a,b)",
    "1 || 0 && 0",
    "(1 || 0) && 0",
    "!(1&&0)",
    "version_atleast(2.6)",
    "version_before(2.8)",
    "version_atleast(2.8.1)",
    "defined(ZONE) && streq(\"${NONE-x}\",x)",
    "( ( 1 ) )",
    "!0 && !(defined(GONE) || 0)",
];

#[test]
fn a_condition_holds_where_haproxy_says_so() {
    let folder = Folder::new("lint-conditions");
    let mut text = "global\n".to_owned();
    for (at, condition) in CONDITIONS.iter().enumerate() {
        text += &format!(
            ".if {condition}\n.notice \"yes {at}\"\n.elif 0\n.notice \"never\"\n.elif 1\n.if 1\n\
             .notice \"no {at}\"\n.endif\n.else\n.notice \"never\"\n.endif\n"
        );
    }
    let path = folder.write("haproxy.cfg", &text);
    for version in Version::ALL {
        let output = Haproxy::says(version, &path, &VARIABLES);
        let said = output.stdout + &output.stderr;
        let files = [File {
            name: "haproxy.cfg".to_owned(),
            bytes: text.clone().into_bytes(),
        }];
        let setting = Setting {
            version: Some(release(version)),
            ..setting(&VARIABLES)
        };
        let reading = Reading::of(&files, &setting).expect("each condition is known");
        assert_eq!(reading.faults, []);
        let own = reading
            .lines
            .iter()
            .filter(|line| line.is_live && line.word(0) == ".notice");
        let own: Vec<_> = own.map(|line| line.word(1).to_owned()).collect();
        assert_eq!(own.len(), CONDITIONS.len(), "{own:?}");
        for notice in own {
            let wanted = format!("'{notice}'.");
            assert!(
                said.contains(&wanted),
                "{version:?}: no {wanted} in\n{said}"
            );
        }
    }
}

#[test]
fn what_the_reader_refuses_haproxy_refuses_at_the_same_line() {
    let folder = Folder::new("lint-refused");
    for (at, text) in [
        "global\n.if foo(1)\n.endif\n",
        "global\n.if defined(A\n.endif\n",
        "global\n.if streq(a)\n.endif\n",
        "global\n.if 1 1\n.endif\n",
        "global\n.else\n",
        "global\n.elif 1\n",
        "global\n.endif\n",
        "global\n.if 1\n.else\n.else\n.endif\n",
        "global\n.if 1\n.else x\n.endif\n",
        "global\n.foo\n",
        "global\n.alert \"not here\"\n",
        "global\n.if 0\n log 'a\n.endif\n",
        "log a\n",
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.write(&format!("{at}.cfg"), text);
        let read = files::read(std::slice::from_ref(&path)).expect("it is there");
        let reading = Reading::of(&read, &setting(&[])).expect("nothing is unknown");
        let fault = reading.faults.first().unwrap_or_else(|| panic!("{text}"));
        let place = reading.place(fault.line);
        for version in Version::ALL {
            let said = Haproxy::says(version, &path, &[]);
            let said = said.stdout + &said.stderr;
            assert!(
                said.contains(&format!("parsing [{place}]")),
                "{version:?} {text}\n{said}"
            );
        }
    }
}

/// Servers with much of what can be said about them, in several files.
fn configurations(agent: SocketAddr) -> [(&'static str, String); 4] {
    let (ip, port) = (agent.ip(), agent.port());
    let main = format!(
        "global\n presetenv ZONE never\n presetenv AGENT {ip}\n setenv WEIGHT 40\n\
         {DEFAULTS}\n default-server agent-addr \"$AGENT\" agent-port {port} agent-inter 100ms\n"
    );
    let first = "backend web\n\
         server a 127.0.0.1:8001 weight 100 agent-check agent-send \"web/a zone=${ZONE} base=100\\n\"\n\
         server b 127.0.0.1:8002 weight \"$WEIGHT\" backup agent-check agent-send \"web/b node=${HAPROXY_LOCALPEER}\\n\" # weight 7\n\
         server c 127.0.0.1:8003 disabled cookie weight # check\n\
         default-server weight 60 disabled\n\
         server d\\x2e4 127.0.0.1:8004\n\
         server e 127.0.0.1:8005 enabled agent-check no-agent-check \"${GONE}\" weight 9\n\
         .if defined(ZONE) && !streq(\"$ZONE\",never)\n\
         server f 127.0.0.1:8006 agent-check agent-send web/f\\ canary\\n weight 30\n\
         .else\n server g 127.0.0.1:8007\n.endif\n";
    let second = format!(
        "defaults base\n mode tcp\n timeout connect 1s\n timeout server 1s\n timeout client 1s\n\
         default-server weight 11 agent-addr {ip} agent-port {port} agent-inter 100ms agent-check\n\
         defaults derived from base\n default-server backup\n\
         backend one from base\n server a 127.0.0.1:8001 agent-send 'one/a'\n\
         backend two\n server a 127.0.0.1:8001 agent-send two/a\\x0a \"${{OPTIONS[*]}}\"\n server b 127.0.0.1:8002 no-agent-check weight 256\n"
    );
    let third = "listen three\n server-template t 2-3 127.0.0.1:8001 weight 5 no-agent-check\n\
         server u 127.0.0.1:8002 agent-send \"three/u\\x20x\\n\" no-backup\n";
    [
        ("haproxy.cfg", main),
        ("conf/10.cfg", first.to_owned()),
        ("conf/9.cfg", second),
        ("last", third.to_owned()),
    ]
}

/// Hears what HAProxy sends, and never answers.
struct Ear {
    address: SocketAddr,
    heard: Arc<Mutex<BTreeSet<String>>>,
}

impl Ear {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let heard = Arc::new(Mutex::new(BTreeSet::new()));
        let ear = Arc::clone(&heard);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut buffer = [0; 1024];
                stream.set_read_timeout(Some(PATIENCE)).ok();
                let length = stream.read(&mut buffer).unwrap_or(0);
                stream.write_all(b"unknown\n").ok();
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                ear.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(text);
            }
        });
        Self { address, heard }
    }

    fn await_all(&self, wanted: &BTreeSet<String>) {
        eventually("HAProxy sends each request", PATIENCE, || {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            check(*heard == *wanted, || {
                format!("{heard:#?} instead of {wanted:#?}")
            })
        });
    }
}

/// The servers as the reader has them, a template as its servers.
fn read_servers(scene: &Scene<'_>) -> (Running, BTreeMap<String, (bool, bool)>) {
    let (mut servers, mut standing) = (Running::new(), BTreeMap::new());
    for row in &scene.rows {
        let ids = if row.server.is_template {
            vec![format!("{}2", row.id()), format!("{}3", row.id())]
        } else {
            vec![row.id()]
        };
        let options = row.options();
        let text = |given: &Option<tidegate::domain::haproxy::server::Given<String>>| {
            given.as_ref().map(|given| given.value.clone())
        };
        let server = RunningServer {
            weight: options.weight(),
            agent_address: text(&options.agent_addr),
            agent_port: text(&options.agent_port).map_or(0, |port| port.parse().unwrap_or(0)),
            has_agent: row.server.has_agent(),
            agent_is_on: row.server.has_agent(),
        };
        for id in ids {
            servers.insert(id.clone(), server.clone());
            standing.insert(id, (row.server.is_backup(), row.server.is_disabled()));
        }
    }
    (servers, standing)
}

/// Of servers without an agent HAProxy tells no address of one.
fn bare(mut servers: Running) -> Running {
    for server in servers.values_mut().filter(|server| !server.has_agent) {
        server.agent_address = None;
        server.agent_port = 0;
    }
    servers
}

fn check_servers(version: Version) {
    let ear = Ear::open();
    let folder = Folder::new("lint-servers");
    std::fs::create_dir(folder.join("conf")).expect("the folder is new");
    let [(_, main), others @ ..] = configurations(ear.address);
    for (name, text) in &others {
        folder.write(name, text);
    }
    let more = [folder.join("conf"), folder.join("last")];
    let haproxy = Haproxy::start_with(version, &VARIABLES, &main, &more);
    let paths: Vec<PathBuf> = [folder.write("haproxy.cfg", &main)]
        .into_iter()
        .chain(more)
        .collect();
    let files = files::read(&paths).expect("they were written");
    let known = Setting {
        version: Some(release(version)),
        ..setting(&VARIABLES)
    };
    let reading = Reading::of(&files, &known).expect("each condition is known");
    let configuration = Configuration::of(&reading);
    assert_eq!(
        (&reading.faults[..], &configuration.faults[..]),
        (&[][..], &[][..])
    );
    let evidence = Evidence::default();
    let scene = Scene::new(&reading, &configuration, &evidence);
    let (servers, standing) = read_servers(&scene);

    let state = haproxy.stats("show servers state");
    let running = servers::read_running(state.as_bytes()).expect("HAProxy's own words");
    assert_eq!(bare(running), bare(servers), "{version:?}");
    for row in haproxy.servers_state() {
        let id = format!("{}/{}", row.field("be_name"), row.field("srv_name"));
        let is_disabled = row.number("srv_admin_state") & 4 != 0;
        let is_backup = haproxy
            .server(row.field("be_name"), row.field("srv_name"))
            .number("bck")
            == 1;
        assert_eq!((is_backup, is_disabled), standing[&id], "{version:?} {id}");
    }
    let sent = scene
        .enrolled()
        .filter_map(|row| row.options().agent_send.as_ref());
    ear.await_all(&sent.map(|given| given.value.clone()).collect());
}

#[test]
fn haproxy_2_6_runs_with_the_servers_that_the_reader_sees() {
    check_servers(Version::V26);
}

#[test]
fn haproxy_2_8_runs_with_the_servers_that_the_reader_sees() {
    check_servers(Version::V28);
}
