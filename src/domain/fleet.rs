//! Who polled what, when, and what it was told.
//!
//! A **row** is one server of one node. A replica knows the rows that asked it ([`Table`]) and says
//! so in a [`Report`]; the reports of all replicas make the whole ([`Merged`]), judged at a moment
//! ([`Judge`]) and shown ([`View`]). None of it decides an answer.

pub use self::addresses::{ADDRESSES_MAX, Addresses, GAP_MAX, Run, TOGETHER_MIN};
pub use self::judge::{Judge, Summary};
pub use self::merge::Merged;
pub use self::report::{Report, ReportError};
pub use self::rows::{ROW_BYTES, Rows};
pub use self::table::{FORGET_AFTER, Table};
pub use self::view::{Filter, Missing, ROWS_SHOWN_MAX, View, shared_name};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;

use super::answer::Answer;
use super::name::{Name, ServerId};
use super::request::Request;
use super::sentinel::Generation;
use super::snapshot::Snapshot;

/// The most rows that one replica knows. A large site has 3,700, 100 nodes with 60 servers 6,000,
/// 2,000 with 200 servers 400,000. A row takes [`ROW_BYTES`].
pub const ROWS_MAX: usize = 524_288;
/// The most servers that all rows of one replica have together: each name is held once. A stranger
/// who asks by ever other names, each as long as it may be, takes 20 MiB.
pub const SERVERS_MAX: usize = 65_536;
/// The most nodes that one replica knows. A node costs as much as ten of its rows.
pub const NODES_MAX: usize = 4_096;
/// The most zones that are kept of one node: it stands in one, until somebody corrects it.
pub const ZONES_MAX: usize = 4;

/// The longest time between two polls that counts as an interval and not as an outage: no
/// agent-inter is as long.
const INTERVAL_MAX: Duration = Duration::from_mins(5);

/// How new a listing is. Ordered as listings are: the index alone goes back when tombstones are
/// collected, and stands still for nobody after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// How far its history is.
    pub generation: Generation,
    /// The store's index.
    pub index: u64,
}

/// Who polls, as the request itself says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asker {
    /// The node; without it the source address stands for it.
    pub node: Option<Name>,
    /// The server.
    pub server: ServerId,
    /// The zone that the node says it stands in.
    pub zone: Option<Name>,
}

/// Who polls, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The node: as it says, otherwise its address.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// The zone that the node says it stands in.
    pub zone: Option<Name>,
    /// The source address; IPv4 is written as IPv4.
    pub address: IpAddr,
}

/// What was said to a poll. Ordered by its time; the rest only makes the order total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// When.
    pub at: Timestamp,
    /// The listing that it comes from.
    pub version: Version,
    /// The answer.
    pub answer: Answer,
}

/// Polls of one identity over a short time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// How many, the unanswered ones included.
    pub polls: u64,
    /// How many were closed without a byte: this replica had no authority, or the node did not
    /// take its answer.
    pub unanswered: u64,
    /// When the first one came.
    pub first: Timestamp,
    /// When the last one came.
    pub last: Timestamp,
    /// The last answer.
    pub told: Option<Told>,
}

/// One server of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// How often it polled, the unanswered polls included.
    pub polls: u64,
    /// How many polls were closed without a byte.
    pub unanswered: u64,
    /// When the first poll came.
    pub first: Timestamp,
    /// When the last poll came, answered or not.
    pub last: Timestamp,
    /// The usual time between two polls, in whole milliseconds; unknown before the second one.
    pub interval: Option<Duration>,
    /// Where the last poll came from.
    pub address: IpAddr,
    /// The last answer; none when no poll was ever answered.
    pub told: Option<Told>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// The zones that it says it stands in, with the last poll that said so.
    pub zones: BTreeMap<Name, Timestamp>,
    /// Where its polls come from.
    pub addresses: Addresses,
    /// Its rows; never empty.
    pub rows: Rows,
}

impl Version {
    /// How new a snapshot is.
    #[must_use]
    pub const fn of(snapshot: &Snapshot) -> Self {
        Self {
            generation: snapshot.generation,
            index: snapshot.index,
        }
    }
}

impl Asker {
    /// Who sends this request.
    ///
    /// # Panics
    /// Never: a request's names are checked.
    #[must_use]
    pub fn new(request: &Request<'_>) -> Self {
        let name = |text| Name::parse(text).expect("a request's names are checked");
        Self {
            node: request.node.map(name),
            server: ServerId::parse(request.server).expect("a request's server id is checked"),
            zone: request.zone.map(name),
        }
    }

    /// The same, asking from this address; `named` says the name that stands for the address.
    #[must_use]
    pub fn at(&self, source: IpAddr, named: impl FnOnce(IpAddr) -> Name) -> Identity {
        Identity {
            node: self.node.clone().unwrap_or_else(|| named(source)),
            server: self.server.clone(),
            zone: self.zone.clone(),
            address: source.to_canonical(),
        }
    }
}

impl Identity {
    /// Who sends this request from this address.
    #[must_use]
    pub fn new(request: &Request<'_>, source: IpAddr) -> Self {
        Asker::new(request).at(source, Name::from_address)
    }
}

impl Polled {
    /// One poll.
    #[must_use]
    pub fn once(at: Timestamp, told: Option<Told>) -> Self {
        Self {
            polls: 1,
            unanswered: u64::from(told.is_none()),
            first: at,
            last: at,
            told,
        }
    }

    /// The same with its times in whole milliseconds.
    #[must_use]
    pub fn in_millis(self) -> Self {
        let told = |told: Told| Told {
            at: in_millis(told.at),
            ..told
        };
        Self {
            first: in_millis(self.first),
            last: in_millis(self.last),
            told: self.told.map(told),
            ..self
        }
    }

    /// Counts others of the same identity as well.
    pub fn add(&mut self, other: &Self) {
        self.polls += other.polls;
        self.unanswered += other.unanswered;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.told = self.told.max(other.told);
    }
}

impl Row {
    /// A row that nobody knew before.
    fn new(address: IpAddr, polled: &Polled) -> Self {
        let between = u32::try_from(polled.polls - 1).unwrap_or(u32::MAX);
        let interval = span(polled.first, polled.last).checked_div(between);
        Self {
            polls: polled.polls,
            unanswered: polled.unanswered,
            first: polled.first,
            last: polled.last,
            interval: interval.and_then(counted),
            address,
            told: polled.told,
        }
    }

    /// As rows are packed and told: 0 when it is not known.
    fn interval_millis(&self) -> u32 {
        let millis = self.interval.unwrap_or_default().as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX)
    }

    fn add(&mut self, address: IpAddr, polled: &Polled) {
        let gaps = u32::try_from(polled.polls).unwrap_or(u32::MAX);
        let gap = span(self.last, polled.last).checked_div(gaps);
        if let Some(gap) = gap.and_then(counted) {
            // The mean of the last few: one late poll is not a longer interval.
            let mean = self.interval.map_or(gap, |known| (known * 3 + gap) / 4);
            self.interval = counted(mean);
        }
        if polled.last >= self.last {
            self.address = address;
        }
        self.polls = self.polls.saturating_add(polled.polls);
        self.unanswered = self.unanswered.saturating_add(polled.unanswered);
        self.first = self.first.min(polled.first);
        self.last = self.last.max(polled.last);
        self.told = self.told.max(polled.told);
    }
}

impl Node {
    fn add(&mut self, identity: &Identity, polled: &Polled) {
        self.addresses
            .seen(identity.address, Run::new(polled.first, polled.last));
        if let Some(zone) = &identity.zone {
            self.in_zone(zone, polled.last);
        }
    }

    fn in_zone(&mut self, zone: &Name, at: Timestamp) {
        if let Some(known) = self.zones.get_mut(zone) {
            *known = at.max(*known);
            return;
        }
        if self.zones.len() >= ZONES_MAX {
            let oldest = self.zones.iter().min_by_key(|(_, last)| **last);
            let oldest = oldest.map(|(zone, _)| zone.clone());
            oldest.and_then(|zone| self.zones.remove(&zone));
        }
        self.zones.insert(zone.clone(), at);
    }

    /// Cuts times that lie in the future down to now: a clock was wrong.
    fn cut(&mut self, now: Timestamp) {
        for at in self.zones.values_mut() {
            *at = now.min(*at);
        }
        self.addresses.cut(now);
        self.rows.change_all(|row| {
            row.first = row.first.min(now);
            row.last = row.last.min(now);
            if let Some(told) = &mut row.told {
                told.at = told.at.min(now);
            }
        });
    }

    /// When the first and the last of its polls came.
    #[must_use]
    pub fn polled(&self) -> Option<(Timestamp, Timestamp)> {
        let first = self.rows.values().map(|row| row.first).min()?;
        let last = self.rows.values().map(|row| row.last).max()?;
        Some((first, last))
    }

    /// The zones that it says it stands in now: one, unless its configuration contradicts itself.
    pub fn zones_now(&self) -> impl Iterator<Item = &Name> {
        let last = self.zones.values().max().copied();
        let recent = move |at: Timestamp| last.is_some_and(|last| span(at, last) <= GAP_MAX);
        let now = self.zones.iter().filter(move |(_, at)| recent(**at));
        now.map(|(zone, _)| zone)
    }
}

/// A moment in whole milliseconds: more is neither kept nor shown.
#[must_use]
pub fn in_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// An interval in whole milliseconds, if it is one.
fn counted(gap: Duration) -> Option<Duration> {
    let millis = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
    let gap = Duration::from_millis(millis);
    (Duration::ZERO < gap && gap <= INTERVAL_MAX).then_some(gap)
}

/// The time from one moment to a later one; nothing when it is not later.
fn span(earlier: Timestamp, later: Timestamp) -> Duration {
    let between = later.duration_since(earlier);
    if between.is_negative() {
        Duration::ZERO
    } else {
        between.unsigned_abs()
    }
}

mod addresses;
mod judge;
mod merge;
mod report;
mod rows;
mod shared;
mod table;
#[cfg(test)]
mod tests;
mod view;
