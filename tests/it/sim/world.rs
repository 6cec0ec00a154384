//! What the replicas of one history share: Consul, the network, time, and the story so far.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tidegate::domain::authority::{Clause, Times};
use tidegate::domain::memory::Memory;
use tidegate::store::Store;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::consul::{Consul, Rights};

/// The fleet's smallest agent-inter.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// A Consul read's time limit.
pub(super) const READ_TIME_MAX: Duration = Duration::from_secs(2);

/// One history's world.
pub(super) struct World {
    pub(super) begin: Instant,
    pub(super) count: usize,
    pub(super) without: Option<Clause>,
    /// Sent when blocked readers wake.
    pub(super) wakes: Notify,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) rng: StdRng,
    pub(super) consul: Consul,
    pub(super) replicas: Vec<Slot>,
    /// Cut links: who does not reach whom.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Who does not reach Consul (`false`), or is not reached by it (`true`).
    pub(super) cut_from_consul: BTreeSet<(usize, bool)>,
    /// With the list policy, missing rights are a refusal; without, an empty prefix.
    pub(super) list_policy: bool,
    /// Since when the store's history is back, and from which place on.
    pub(super) went_back: Option<(Instant, u64)>,
    pub(super) story: Vec<String>,
}

/// One replica from outside.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that can be wrong with a process, whatever the others are"
)]
pub(super) struct Slot {
    pub(super) up: bool,
    /// Down, and its host drops what comes.
    pub(super) dark: bool,
    pub(super) stopping: bool,
    pub(super) suspended: bool,
    pub(super) born: Instant,
    /// Grows with each start.
    pub(super) boot: u64,
    pub(super) rights: Rights,
    /// The error of its wall clock, in milliseconds.
    pub(super) clock_error: i64,
    pub(super) clock_since: Instant,
    pub(super) stops_at: Option<Instant>,
    /// How often in a row it has read what shows that the history went back.
    pub(super) saw: u32,
    /// When it had read that often enough to know.
    pub(super) saw_it: Option<Instant>,
    pub(super) disk: Option<Memory>,
    pub(super) store: Option<Arc<Store>>,
}

impl World {
    pub(super) fn new(seed: u64, count: usize, without: Option<Clause>) -> Arc<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let slot = |error| Slot {
            up: false,
            dark: false,
            stopping: false,
            suspended: false,
            born: Instant::now(),
            boot: 0,
            rights: Rights::Full,
            clock_error: error,
            clock_since: Instant::now(),
            stops_at: None,
            saw: 0,
            saw_it: None,
            disk: None,
            store: None,
        };
        let replicas = (0..count)
            .map(|_| slot(rng.random_range(-200..200)))
            .collect();
        let list_policy = rng.random_bool(0.5);
        Arc::new(Self {
            begin: Instant::now(),
            count,
            without,
            wakes: Notify::new(),
            state: Mutex::new(State {
                rng,
                consul: Consul::new(),
                replicas,
                cut: BTreeSet::new(),
                cut_from_consul: BTreeSet::new(),
                list_policy,
                went_back: None,
                story: Vec::new(),
            }),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    pub(super) fn times() -> Times {
        Times::from_poll_interval(POLL_INTERVAL)
    }

    /// Time since the history began.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(super) fn note(&self, text: &str) {
        self.state().note(self.elapsed(), text);
    }

    /// The time that a message takes.
    pub(super) fn delay(&self) -> Duration {
        let rng = &mut self.state().rng;
        Duration::from_micros(if rng.random_bool(0.93) {
            rng.random_range(3_000..60_000)
        } else {
            rng.random_range(100_000..700_000)
        })
    }

    /// Lets time pass up to a second of the history.
    pub(super) async fn until(&self, second: f64) {
        sleep_until(self.begin + Duration::from_secs_f64(second)).await;
    }

    /// Puts an end to all faults but those of the processes.
    pub(super) fn heal(&self) {
        let mut state = self.state();
        state.cut.clear();
        state.cut_from_consul.clear();
        state.consul.up = true;
        state.consul.hangs = false;
        for replica in &mut state.replicas {
            replica.rights = Rights::Full;
            replica.clock_error = 0;
            replica.clock_since = Instant::now();
        }
    }
}

impl State {
    pub(super) fn note(&mut self, at: Duration, text: &str) {
        self.story.push(format!("{:7.2} {text}", at.as_secs_f64()));
    }
}
