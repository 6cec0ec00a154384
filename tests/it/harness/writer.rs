//! Changes keys in Consul once a second, and knows when each version began to count.
//!
//! Each write names the version that it replaces, so a write whose outcome is unknown (a server
//! that hung may carry it out later) either becomes a version of its own or nothing: it never
//! overwrites a newer one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::history::{At, History, Write};
use super::http::{self, Response};
use super::state_folder::{ENVIRONMENT, META};
use super::wait::{PATIENCE, check, eventually, let_pass};

const EVERY: Duration = Duration::from_secs(1);
/// Longer than any write that succeeds here.
const CALL_MAX: Duration = Duration::from_secs(1);
/// How soon a writer notices that it should stop or go on.
const STEP: Duration = Duration::from_millis(10);

/// The only writer of a scene's keys.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Where the writer finds Consul.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Agents; when one does not answer the next is asked.
    pub(crate) agents: Vec<SocketAddr>,
    pub(crate) token: Option<String>,
}

struct Shared {
    begin: Instant,
    target: Target,
    state: Mutex<State>,
    goes_on: AtomicBool,
    /// A write is under way, or its outcome is being found out.
    busy: AtomicBool,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    history: History,
    keys: BTreeMap<String, Key>,
    writes: usize,
}

#[derive(Default)]
struct Key {
    /// Consul's index of the version that counts; 0: none.
    index: u64,
    /// Writes whose outcome is unknown: what they ask for, and when they were sent.
    doubts: Vec<(String, At)>,
}

enum Outcome {
    Applied(u64),
    Conflict,
    Unknown,
}

impl Writer {
    /// Writes the sentinel and each of the keys once, and does no more until [`Writer::go_on`].
    pub(crate) fn start(begin: Instant, target: Target, keys: &[String]) -> Self {
        let keys = keys
            .iter()
            .map(|key| (key.clone(), Key::default()))
            .collect();
        let shared = Arc::new(Shared {
            begin,
            target,
            state: Mutex::new(State {
                keys,
                ..State::default()
            }),
            goes_on: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        shared.put_sentinel();
        let count = shared.lock().keys.len();
        for _ in 0..count {
            shared.write();
        }
        let thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.run())
        };
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Writes from now on, once a second.
    pub(crate) fn go_on(&self) {
        self.shared.goes_on.store(true, Ordering::SeqCst);
    }

    /// Writes no more, and returns when the outcome of the last write is known.
    pub(crate) fn pause(&self) {
        self.shared.goes_on.store(false, Ordering::SeqCst);
        eventually("the writer knows what it wrote", PATIENCE, || {
            check(!self.shared.busy.load(Ordering::SeqCst), || {
                "busy".to_owned()
            })
        });
    }

    /// One write, now, by the calling thread; it has to succeed.
    pub(crate) fn write(&self) {
        self.shared.write();
    }

    /// How many versions are known.
    pub(crate) fn count(&self) -> usize {
        self.shared.lock().history.len()
    }

    /// Waits for `more` versions after the call.
    pub(crate) fn await_writes(&self, more: usize) {
        let before = self.count();
        eventually(&format!("{more} more writes"), PATIENCE, || {
            let now = self.count();
            check(now >= before + more, || format!("{} so far", now - before))
        });
    }

    /// Consul's index of the newest version.
    pub(crate) fn index(&self) -> u64 {
        self.shared.lock().history.index()
    }

    /// From now on the keys are what they were at `index`, and somebody ends the broken history.
    pub(crate) fn begin_era(&self, kept_up_to: u64) {
        let mut state = self.shared.lock();
        state
            .history
            .begin_era(self.shared.begin.elapsed(), kept_up_to);
    }

    /// Finds out which version of each key counts: somebody else changed them.
    pub(crate) fn read_anew(&self) {
        let keys: Vec<_> = self.shared.lock().keys.keys().cloned().collect();
        for key in keys {
            self.shared.find_out(&key, || false);
        }
    }

    /// Ends it; gives the history, zombie writes included.
    pub(crate) fn finish(mut self) -> History {
        self.end();
        self.read_anew();
        self.shared.lock().history.clone()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed; a second one in a drop would hide the first.
            thread.join().ok();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn run(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            self.busy.store(true, Ordering::SeqCst);
            // Read after `busy` was set: who pauses it sees one or the other.
            if !self.goes_on.load(Ordering::SeqCst) {
                self.busy.store(false, Ordering::SeqCst);
                let_pass(STEP);
                continue;
            }
            let begin = Instant::now();
            self.write();
            self.busy.store(false, Ordering::SeqCst);
            while begin.elapsed() < EVERY && !self.stop.load(Ordering::SeqCst) {
                let_pass(STEP);
            }
        }
    }

    /// One write to the key whose turn it is.
    fn write(&self) {
        let (key, word, index) = self.next();
        let sent = self.begin.elapsed();
        let outcome = self.send(&key, &word, index);
        let acked = self.begin.elapsed();
        match outcome {
            Outcome::Applied(index) => {
                let mut state = self.lock();
                state.keys.entry(key.clone()).or_default().index = index;
                state.history.add(Write {
                    key,
                    word,
                    index,
                    sent,
                    acked,
                });
            }
            Outcome::Conflict => self.find_out(&key, || self.stop.load(Ordering::SeqCst)),
            Outcome::Unknown => {
                let mut state = self.lock();
                let doubts = &mut state.keys.entry(key.clone()).or_default().doubts;
                doubts.push((word, sent));
                drop(state);
                self.find_out(&key, || self.stop.load(Ordering::SeqCst));
            }
        }
    }

    /// Which key, what it becomes, and the version that it has. No two writes near each other say
    /// the same.
    fn next(&self) -> (String, String, u64) {
        let mut state = self.lock();
        let turn = state.writes;
        state.writes += 1;
        let count = state.keys.len();
        let (key, known) = state.keys.iter().nth(turn % count).expect("there are keys");
        // Each key goes through all kinds of states.
        let word = match (turn / count + turn) % 4 {
            0 => "drain".to_owned(),
            2 => "maint".to_owned(),
            _ => format!("{}%", 5 + turn % 90),
        };
        (key.clone(), word, known.index)
    }

    fn send(&self, key: &str, word: &str, index: u64) -> Outcome {
        let operations = json!([{ "KV": {
            "Verb": "cas",
            "Key": path(key),
            "Value": BASE64_STANDARD.encode(word),
            "Index": index,
        }}]);
        let body = operations.to_string();
        match self.call("PUT", "/v1/txn", body.as_bytes()) {
            Some(answer) if answer.status == 200 => {
                let answer: Value = serde_json::from_slice(&answer.body).expect("Consul says JSON");
                let index = answer["Results"][0]["KV"]["ModifyIndex"].as_u64();
                Outcome::Applied(index.expect("a write has an index"))
            }
            Some(answer) if answer.status == 409 => Outcome::Conflict,
            Some(_) | None => Outcome::Unknown,
        }
    }

    /// Reads a key until Consul answers, and takes what it holds into the history.
    fn find_out(&self, key: &str, gives_up: impl Fn() -> bool) {
        let read = format!("/v1/kv/{}?consistent", path(key));
        let answer = loop {
            match self.call("GET", &read, b"") {
                Some(answer) if answer.status == 200 || answer.status == 404 => break answer,
                Some(_) | None if gives_up() => return,
                Some(_) | None => let_pass(STEP),
            }
        };
        let acked = self.begin.elapsed();
        let mut state = self.lock();
        let State { history, keys, .. } = &mut *state;
        let known = keys.entry(key.to_owned()).or_default();
        if answer.status == 404 {
            known.index = 0;
            return;
        }
        let answer: Value = serde_json::from_slice(&answer.body).expect("Consul says JSON");
        let index = answer[0]["ModifyIndex"]
            .as_u64()
            .expect("a key has an index");
        if index == known.index {
            return;
        }
        known.index = index;
        let value = answer[0]["Value"].as_str().unwrap_or_default();
        let value = BASE64_STANDARD.decode(value).expect("Consul says base64");
        let word = String::from_utf8(value).expect("only text is written");
        if let Some(place) = known.doubts.iter().position(|(doubt, _)| *doubt == word) {
            let (word, sent) = known.doubts.remove(place);
            history.add(Write {
                key: key.to_owned(),
                word,
                index,
                sent,
                acked,
            });
        }
    }

    /// A read asks the agents until one answers. A write asks one only, as a second try could be a
    /// second write; the next write asks the next agent.
    fn call(&self, method: &str, path: &str, body: &[u8]) -> Option<Response> {
        let token = self.target.token.iter();
        let headers: Vec<_> = token
            .map(|token| ("X-Consul-Token", token.as_str()))
            .collect();
        let agents = &self.target.agents;
        let first = self.lock().writes % agents.len();
        let tries = if method == "GET" { agents.len() } else { 1 };
        let mut order = agents[first..].iter().chain(&agents[..first]).take(tries);
        order.find_map(|agent| http::request(*agent, method, path, &headers, body, CALL_MAX).ok())
    }

    fn put_sentinel(&self) {
        let put = format!("/v1/kv/{}", path("_meta"));
        let answer = self.call("PUT", &put, META.as_bytes());
        assert!(
            answer.is_some_and(|answer| answer.status == 200),
            "Consul takes the sentinel"
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn path(key: &str) -> String {
    format!("frontend/{ENVIRONMENT}/{key}")
}
