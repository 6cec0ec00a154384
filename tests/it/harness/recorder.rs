//! Asks one line again and again while a test's story goes on, and keeps every answer.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::tidegate::{Tidegate, poll};
use super::wait::{check, eventually, let_pass};

/// Far more often than any HAProxy: a wrong answer that stands for 100 ms is seen.
const EVERY: Duration = Duration::from_millis(50);
/// What is kept for a poll that was closed without a byte.
pub(crate) const SILENCE: &str = "";
/// What is kept for a poll that could not connect.
pub(crate) const NO_CONNECTION: &str = "(no connection)";

/// One answer, with its time since the recorder's start.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) at: Duration,
    /// Without the comment; [`SILENCE`] and [`NO_CONNECTION`] stand for none.
    pub(crate) answer: String,
}

/// A thread that polls until it is dropped.
pub(crate) struct Recorder {
    begin: Instant,
    line: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins to ask.
    pub(crate) fn start(tidegate: &Tidegate, line: &str) -> Self {
        let begin = Instant::now();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (heard, stop) = (Arc::clone(&heard), Arc::clone(&stop));
            let (agent, line) = (tidegate.agent(), line.to_owned());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = ask(agent, &line);
                    let at = begin.elapsed();
                    heard
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(Heard { at, answer });
                    let_pass(EVERY);
                }
            })
        };
        Self {
            begin,
            line: line.to_owned(),
            heard,
            stop,
            thread: Some(thread),
        }
    }

    /// Time since the start, to compare with the record.
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Time since an earlier [`Recorder::now`].
    pub(crate) fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }

    /// Everything heard so far.
    pub(crate) fn record(&self) -> Vec<Heard> {
        let heard = self.heard.lock();
        heard.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until an answer that was asked for after this call is `answer`; gives how long it
    /// took.
    pub(crate) fn await_answer(&self, answer: &str, limit: Duration) -> Duration {
        let begin = self.now();
        let what = format!("{:?} is answered {answer:?}", self.line);
        eventually(&what, limit, || {
            let record = self.record();
            let found = record
                .iter()
                .find(|heard| heard.at >= begin && heard.answer == answer);
            found
                .map(|heard| heard.at.saturating_sub(begin))
                .ok_or_else(|| format!("{:?}", record.last()))
        })
    }

    /// Fails when anything else than these was ever heard.
    pub(crate) fn assert_only(&self, allowed: &[&str]) {
        let record = self.record();
        let wrong = record
            .iter()
            .find(|heard| !allowed.contains(&heard.answer.as_str()));
        check(wrong.is_none(), || {
            format!(
                "{:?} was answered {wrong:?}; the whole story:\n{}",
                self.line,
                story(&record)
            )
        })
        .unwrap_or_else(|message| panic!("{message}"));
    }

    /// The record by its changes, for people.
    pub(crate) fn story(&self) -> String {
        story(&self.record())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed; a second one in a drop would hide the first.
            thread.join().ok();
        }
    }
}

fn ask(agent: SocketAddr, line: &str) -> String {
    poll(agent, line).unwrap_or_else(|_| NO_CONNECTION.to_owned())
}

fn story(record: &[Heard]) -> String {
    let mut text = String::new();
    let mut before: Option<&Heard> = None;
    for heard in record {
        if before.is_none_or(|before| before.answer != heard.answer) {
            let _ = writeln!(
                text,
                "  {:7.2} s  {:?}",
                heard.at.as_secs_f64(),
                heard.answer
            );
        }
        before = Some(heard);
    }
    text
}
