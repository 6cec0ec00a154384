//! The fleet as this replica was asked by it: collected from the workers, kept over a restart.
//!
//! ```text
//! agent worker ──► Tally ─┐ swapped each second, when one is long, and before each look
//! agent worker ──► Tally ─┴──► Table ──► Report ──► http: /api/v1/fleet, /metrics
//!                               │           ▲ reports of the other replicas (Gatherer)
//!                               └──────► file (data_dir/fleet), every 30 s and at the end
//! ```

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tracing::warn;

pub use self::file::FleetFile;
pub use self::gather::{Forgot, Gathered, Gatherer, Others, SHARED_FOR};
pub use self::keep::SAVE_EVERY;
pub use self::tally::{Spot, TALLY_ROWS_MAX, Tallies, Tally};
pub use self::whole::{SHOWN_FOR, Whole, WholeNumbers};

use self::tally::{Count, ROOM_KEPT};
use crate::clock;
use crate::domain::fleet::{
    Identity, Judge, NODES_MAX, Polled, ROWS_MAX, Report, Summary, Table, Version, in_millis,
    shared_name,
};
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::store::Store;

/// How often the table is tended: silent rows are forgotten after a day, so it is in no hurry.
const TEND_EVERY: Duration = Duration::from_mins(1);

/// The most rows that become known in [`NEW_ROWS_TIME`]: a whole site's within one or two, and a
/// row that found no room polls again. More of them all the time are no fleet's, and each costs as
/// much as several polls.
const NEW_ROWS_MAX: usize = 4_096;
/// See [`NEW_ROWS_MAX`].
const NEW_ROWS_TIME: Duration = Duration::from_secs(1);

/// Whose fleet it is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This replica's name.
    pub replica: Name,
    /// The environment.
    pub prefix: Prefix,
    /// The fleet's smallest agent-inter.
    pub poll_interval: Duration,
}

/// The fleet as this replica was asked by it.
#[derive(Debug)]
pub struct Fleet {
    settings: Settings,
    store: Arc<Store>,
    tallies: Tallies,
    since: Timestamp,
    collected: Mutex<Collected>,
    /// How often the fleet could not be kept over a restart.
    pub save_errors: AtomicU64,
}

/// The fleet in numbers, as this replica was asked by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// Nodes and rows.
    pub summary: Summary,
    /// See [`Judge::oldest_unapplied`].
    pub oldest_unapplied: Option<Duration>,
    /// Rows and polls that were not kept, for want of room.
    pub dropped: u64,
}

#[derive(Debug)]
struct Collected {
    table: Table,
    /// Polls that the workers had no room for.
    dropped: u64,
    /// Emptied, and they keep their room: one for the workers' counts, one to add them up.
    spare: Vec<Count>,
    sum: HashMap<Identity, Polled>,
    /// Names of addresses that stand for nodes.
    addresses: HashMap<IpAddr, Name>,
    tended: Timestamp,
    /// How many rows may still become known in the time that began then.
    new_left: usize,
    new_since: Timestamp,
    /// Nodes whose shared name is in the log.
    named: BTreeSet<Name>,
}

impl Fleet {
    /// The fleet of these workers, which goes on with what was known before a restart.
    #[must_use]
    pub fn new(
        settings: Settings,
        store: Arc<Store>,
        tallies: Tallies,
        before: Option<Report>,
    ) -> Self {
        let now = now();
        let nodes = before.map(|report| report.nodes).unwrap_or_default();
        let collected = Collected {
            table: Table::remembering(ROWS_MAX, nodes, now),
            dropped: 0,
            spare: Vec::new(),
            sum: HashMap::new(),
            addresses: HashMap::new(),
            tended: now,
            new_left: NEW_ROWS_MAX,
            new_since: now,
            named: BTreeSet::new(),
        };
        Self {
            settings,
            store,
            tallies,
            since: now,
            collected: Mutex::new(collected),
            save_errors: AtomicU64::new(0),
        }
    }

    /// The environment.
    #[must_use]
    pub const fn prefix(&self) -> &Prefix {
        &self.settings.prefix
    }

    /// What this replica says of the fleet now. As long as somebody has it, nodes that poll are
    /// copied: what is only written out is told.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report_of(&self.collect())
    }

    /// Has the report told, and takes in no more polls meanwhile: nothing is copied for it. Not for
    /// a runtime's thread.
    pub fn told<T>(&self, tell: impl FnOnce(&Report) -> T) -> T {
        let collected = self.collect();
        // Gone before the lock.
        let report = self.report_of(&collected);
        tell(&report)
    }

    fn report_of(&self, collected: &Collected) -> Report {
        Report {
            replica: self.settings.replica.clone(),
            at: now(),
            since: self.since,
            poll_interval: self.settings.poll_interval,
            newest: self.newest(),
            dropped: collected.dropped + collected.table.dropped(),
            nodes: collected.table.nodes().clone(),
        }
    }

    /// The same in numbers.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        let collected = self.collect();
        let judge = Judge {
            now: now(),
            since: self.since,
            poll_interval: self.settings.poll_interval,
            newest: self.newest(),
        };
        let nodes = collected.table.nodes();
        Numbers {
            summary: judge.summary(nodes),
            oldest_unapplied: judge.oldest_unapplied(nodes),
            dropped: collected.dropped + collected.table.dropped(),
        }
    }

    /// Forgets a node until it polls again; gives how many rows it had.
    pub fn forget(&self, node: &str) -> usize {
        let mut collected = self.collect();
        collected.named.remove(node);
        collected.table.forget(node)
    }

    /// Takes in what the workers have counted. It waits while a report is told: not for a runtime's
    /// thread.
    fn take_in(&self) {
        drop(self.collect());
    }

    /// Takes in what the workers have counted since the last time.
    fn collect(&self) -> MutexGuard<'_, Collected> {
        let locked = self.collected.lock();
        // A panic in here leaves counts behind, no broken promise.
        let mut collected = locked.unwrap_or_else(PoisonError::into_inner);
        let now = now();
        collected.take(&self.tallies, now);
        collected.tend(now);
        collected
    }

    /// Logs each shared name once, until it is shared no longer.
    fn log_shared_names(&self) {
        let mut collected = self.collect();
        let now = now();
        let Collected { table, named, .. } = &mut *collected;
        named.retain(|name| table.nodes().contains_key(name));
        for (name, node) in table.nodes() {
            let addresses = node.addresses.at_once(now);
            if !addresses.is_empty() && named.insert(name.clone()) {
                warn!(node = %name, "{}", shared_name(name, &addresses));
            }
        }
    }

    fn newest(&self) -> Option<Version> {
        let published = self.store.load();
        published.snapshot.as_deref().map(Version::of)
    }
}

impl Collected {
    /// Adds up what all workers counted, then counts it: the time between two polls of a row is
    /// known only when all of them are.
    fn take(&mut self, tallies: &Tallies, now: Timestamp) {
        if self.addresses.len() > NODES_MAX {
            self.addresses.clear();
        }
        for tally in tallies.iter() {
            self.dropped += tally.take(&mut self.spare);
            for count in self.spare.drain(..) {
                let named = |address| {
                    let name = self.addresses.entry(address);
                    name.or_insert_with(|| Name::from_address(address)).clone()
                };
                let identity = count.asker.at(count.source, named);
                let sum = self.sum.entry(identity);
                sum.and_modify(|known| known.add(&count.polled))
                    .or_insert(count.polled);
            }
        }
        self.spare.shrink_to(ROOM_KEPT);
        if now.duration_since(self.new_since).unsigned_abs() >= NEW_ROWS_TIME {
            (self.new_left, self.new_since) = (NEW_ROWS_MAX, now);
        }
        for (identity, polled) in self.sum.drain() {
            let polled = polled.in_millis();
            let new_left = &mut self.new_left;
            self.table.record_among(&identity, &polled, new_left);
        }
        self.sum.shrink_to(ROOM_KEPT);
    }

    fn tend(&mut self, now: Timestamp) {
        let since = now.duration_since(self.tended).unsigned_abs();
        if since >= TEND_EVERY {
            self.table.tend(now);
            self.tended = now;
        }
    }
}

fn now() -> Timestamp {
    in_millis(clock::now())
}

mod file;
mod gather;
mod keep;
mod tally;
mod whole;
