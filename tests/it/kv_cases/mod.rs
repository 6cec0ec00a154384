//! What may stand in the KV, and what may happen to it: the right answer at the agent's socket,
//! the right reason at `/readyz`, the problems counted.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for who reads a test's output"
)]

use std::time::Duration;

use crate::harness::consul::Consul;
use crate::harness::recorder::{Recorder, SILENCE};
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment, tidegate};
use crate::harness::wait::{check, eventually};

mod deletes;
mod guard;
mod history;
mod pacing;
mod rights;
mod values;

/// The request of a server that is drained in every story: it must never be opened.
pub(crate) const DRAINED: &str = "web/drained canary";
/// Noticed by a light read after at most half a second (a quarter of a poll), then judged; the
/// rest is room for a machine that is busy with other tests. Less than the wait of the blocked
/// read that may sleep over it.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_secs(3);

pub(crate) fn key(path: &str) -> String {
    format!("frontend/gprd/{path}")
}

/// An environment whose server `web/drained` is drained, and whose canary is ready.
pub(crate) fn set_up(consul: &Consul) {
    consul.kv_put(&key("_meta"), META);
    consul.kv_put(&key("canary-state"), "ready");
    consul.kv_put(&key("server-overrides/web/drained"), "drain");
    consul.kv_put(&key("server-overrides/api/other"), "maint");
}

/// Waits until `/api/v1/snapshot` shows exactly these problems, as (kind, path).
pub(crate) fn await_problems(tidegate: &Tidegate, expected: &[(String, String)]) {
    eventually("exactly these problems", NOTICED_WITHIN, || {
        let problems = tidegate.problems();
        check(problems == expected, || {
            format!("{problems:?}, not {expected:?}")
        })
    });
}

/// A service on a set-up Consul, and the record of its answers about the drained server.
pub(crate) struct Story {
    pub(crate) recorder: Recorder,
    pub(crate) tidegate: Tidegate,
    pub(crate) consul: Consul,
}

impl Story {
    pub(crate) fn begin(consul: Consul) -> Self {
        set_up(&consul);
        let tidegate = Tidegate::start_on(&consul);
        Self::with(consul, tidegate)
    }

    pub(crate) fn with(consul: Consul, tidegate: Tidegate) -> Self {
        let recorder = Recorder::start(&tidegate, DRAINED);
        recorder.await_answer("up drain", NOTICED_WITHIN);
        Self {
            recorder,
            tidegate,
            consul,
        }
    }

    /// Waits until the service holds, silent, with `reason`; prints how long it took.
    pub(crate) fn await_held(&self, what: &str, reason: &str) {
        let begin = self.recorder.now();
        self.tidegate.await_readyz(503, reason, NOTICED_WITHIN);
        let took = self.recorder.since(begin);
        println!("{what}: held after {took:.2?}");
        self.recorder.await_answer(SILENCE, NOTICED_WITHIN);
    }

    /// Waits until the source is believed again, and the drained server is answered so.
    pub(crate) fn await_current(&self, what: &str) {
        let begin = self.recorder.now();
        self.tidegate.await_readyz(200, "current", NOTICED_WITHIN);
        let took = self.recorder.since(begin);
        println!("{what}: current after {took:.2?}");
    }

    /// The drained server was never told anything but that, or nothing.
    pub(crate) fn assert_never_opened(&self) {
        println!("{}", self.recorder.story());
        self.recorder.assert_only(&["up drain", SILENCE]);
    }

    /// `tidegate init` on this Consul.
    pub(crate) fn init(&self) {
        let environment = consul_environment(&self.consul);
        let arguments = ["init", "--env", "gprd", "--kv", "consul"];
        let output = tidegate(&arguments, &environment);
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}
