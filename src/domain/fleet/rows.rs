//! The rows of one node: many, so each is packed.
//!
//! A row takes [`ROW_BYTES`] here, whatever its server is called: tables share the names of servers
//! among their nodes.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use jiff::Timestamp;

use super::{Row, Told, Version};
use crate::domain::answer::Answer;
use crate::domain::name::ServerId;

/// Bytes of one row, the pointer to its server's name included.
pub const ROW_BYTES: usize = size_of::<(ServerId, Packed)>();

/// By how much the room grows when it is full: a node's servers come one after the other, and then
/// no more.
const GROWTH_PART: usize = 8;

/// Rows of one node, in the order of their servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows(Vec<(ServerId, Packed)>);

/// A [`Row`], its times in whole milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    polls: u64,
    unanswered: u64,
    first: i64,
    last: i64,
    told_at: i64,
    told_version: Version,
    /// None when no poll was ever answered; then the two above say nothing.
    told: Option<Answer>,
    /// 0 when it is not known.
    interval: u32,
    /// An IPv4 address is mapped.
    address: Ipv6Addr,
}

impl Rows {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The row of a server.
    #[must_use]
    pub fn get(&self, server: &ServerId) -> Option<Row> {
        let at = self.find(server).ok()?;
        Some(self.0[at].1.unpack())
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (&ServerId, Row)> {
        self.0.iter().map(|(server, row)| (server, row.unpack()))
    }

    /// All rows, without their servers.
    pub fn values(&self) -> impl Iterator<Item = Row> {
        self.0.iter().map(|(_, row)| row.unpack())
    }

    /// Puts a row in the place of the one that the server had.
    pub fn put(&mut self, server: ServerId, row: &Row) {
        let row = Packed::of(row);
        match self.find(&server) {
            Ok(at) => self.0[at].1 = row,
            Err(at) => {
                if self.0.len() == self.0.capacity() {
                    self.0.reserve_exact(self.0.len() / GROWTH_PART + 1);
                }
                self.0.insert(at, (server, row));
            }
        }
    }

    /// Changes the row of a server; false when there is none.
    pub(super) fn change(&mut self, server: &ServerId, change: impl FnOnce(&mut Row)) -> bool {
        let Ok(at) = self.find(server) else {
            return false;
        };
        self.0[at].1.change(change);
        true
    }

    /// Changes each row.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Row)) {
        for (_, row) in &mut self.0 {
            row.change(&mut change);
        }
    }

    /// Keeps the rows that stay, and gives back the room of the others.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Row) -> bool) {
        let before = self.0.len();
        self.0.retain(|(_, row)| stays(&row.unpack()));
        if self.0.len() < before {
            self.0.shrink_to_fit();
        }
    }

    /// Has each server's name be another copy of it.
    pub(super) fn share_names(&mut self, mut shared: impl FnMut(&ServerId) -> ServerId) {
        for (server, _) in &mut self.0 {
            *server = shared(server);
        }
    }

    fn find(&self, server: &ServerId) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(server))
    }
}

impl FromIterator<(ServerId, Row)> for Rows {
    fn from_iter<T: IntoIterator<Item = (ServerId, Row)>>(all: T) -> Self {
        let mut rows = Self::default();
        for (server, row) in all {
            rows.put(server, &row);
        }
        rows
    }
}

impl Packed {
    fn of(row: &Row) -> Self {
        let address = match row.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let told = row.told;
        Self {
            polls: row.polls,
            unanswered: row.unanswered,
            first: row.first.as_millisecond(),
            last: row.last.as_millisecond(),
            told_at: told.map_or(0, |told| told.at.as_millisecond()),
            told_version: told.map_or(Version::default(), |told| told.version),
            told: told.map(|told| told.answer),
            interval: row.interval_millis(),
            address,
        }
    }

    fn unpack(&self) -> Row {
        let told = |answer| Told {
            at: moment(self.told_at),
            version: self.told_version,
            answer,
        };
        let interval = Duration::from_millis(self.interval.into());
        Row {
            polls: self.polls,
            unanswered: self.unanswered,
            first: moment(self.first),
            last: moment(self.last),
            interval: (!interval.is_zero()).then_some(interval),
            address: IpAddr::V6(self.address).to_canonical(),
            told: self.told.map(told),
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Row)) {
        let mut row = self.unpack();
        change(&mut row);
        *self = Self::of(&row);
    }
}

fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("it was taken from a timestamp")
}
