//! The rows of one node: many, so each is packed.
//!
//! A row takes [`ROW_BYTES`] here, whatever its server is called: tables share the names of servers
//! among their nodes, and the rows of a node the listings that they were told.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
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
#[derive(Debug, Clone, Default)]
pub struct Rows {
    all: Vec<(ServerId, Packed)>,
    versions: Versions,
}

/// The listing that a row was told last, which is that of most rows.
#[derive(Debug, Clone, Default)]
struct Versions(Option<Arc<Version>>);

/// A [`Row`], its times in whole milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packed {
    /// Four thousand million are 13 years of ten polls a second; there it stays.
    polls: u32,
    unanswered: u32,
    first: i64,
    last: i64,
    told_at: i64,
    /// None when no poll was ever answered; then the one above and the one below say nothing.
    told_version: Option<Arc<Version>>,
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
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The row of a server.
    #[must_use]
    pub fn get(&self, server: &ServerId) -> Option<Row> {
        let at = self.find(server).ok()?;
        Some(self.all[at].1.unpack())
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = (&ServerId, Row)> {
        self.all.iter().map(|(server, row)| (server, row.unpack()))
    }

    /// All rows, without their servers.
    pub fn values(&self) -> impl Iterator<Item = Row> {
        self.all.iter().map(|(_, row)| row.unpack())
    }

    /// Puts a row in the place of the one that the server had.
    pub fn put(&mut self, server: ServerId, row: &Row) {
        let row = Packed::of(row, &mut self.versions);
        match self.find(&server) {
            Ok(at) => self.all[at].1 = row,
            Err(at) => {
                if self.all.len() == self.all.capacity() {
                    self.all.reserve_exact(self.all.len() / GROWTH_PART + 1);
                }
                self.all.insert(at, (server, row));
            }
        }
    }

    /// Changes the row of a server; false when there is none.
    pub(super) fn change(&mut self, server: &ServerId, change: impl FnOnce(&mut Row)) -> bool {
        let Ok(at) = self.find(server) else {
            return false;
        };
        self.all[at].1.change(&mut self.versions, change);
        true
    }

    /// Changes each row.
    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Row)) {
        for (_, row) in &mut self.all {
            row.change(&mut self.versions, &mut change);
        }
    }

    /// Keeps the rows that stay, and gives back the room of the others.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&Row) -> bool) {
        let before = self.all.len();
        self.all.retain(|(_, row)| stays(&row.unpack()));
        if self.all.len() < before {
            self.all.shrink_to_fit();
        }
    }

    /// Has each server's name be another copy of it.
    pub(super) fn share_names(&mut self, mut shared: impl FnMut(&ServerId) -> ServerId) {
        for (server, _) in &mut self.all {
            *server = shared(server);
        }
    }

    fn find(&self, server: &ServerId) -> Result<usize, usize> {
        self.all.binary_search_by(|(known, _)| known.cmp(server))
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Rows {}

impl Versions {
    /// The copy that the others of this listing share.
    fn shared(&mut self, version: Version) -> Arc<Version> {
        match &self.0 {
            Some(known) if **known == version => Arc::clone(known),
            _ => Arc::clone(self.0.insert(Arc::new(version))),
        }
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
    fn of(row: &Row, versions: &mut Versions) -> Self {
        let address = match row.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let told = row.told;
        Self {
            polls: count(row.polls),
            unanswered: count(row.unanswered),
            first: row.first.as_millisecond(),
            last: row.last.as_millisecond(),
            told_at: told.map_or(0, |told| told.at.as_millisecond()),
            told_version: told.map(|told| versions.shared(told.version)),
            told: told.map(|told| told.answer),
            interval: row.interval_millis(),
            address,
        }
    }

    fn unpack(&self) -> Row {
        let told = |(answer, version): (_, &Arc<Version>)| Told {
            at: moment(self.told_at),
            version: **version,
            answer,
        };
        let interval = Duration::from_millis(self.interval.into());
        Row {
            polls: self.polls.into(),
            unanswered: self.unanswered.into(),
            first: moment(self.first),
            last: moment(self.last),
            interval: (!interval.is_zero()).then_some(interval),
            address: IpAddr::V6(self.address).to_canonical(),
            told: self.told.zip(self.told_version.as_ref()).map(told),
        }
    }

    fn change(&mut self, versions: &mut Versions, change: impl FnOnce(&mut Row)) {
        let mut row = self.unpack();
        change(&mut row);
        *self = match row.told {
            // It is told the same all the time: its neighbours may have been told another.
            Some(told) if self.told_version.as_deref() == Some(&told.version) => {
                let kept = self.told_version.take();
                Self::of(&row, &mut Versions(kept))
            }
            _ => Self::of(&row, versions),
        };
    }
}

fn count(all: u64) -> u32 {
    u32::try_from(all).unwrap_or(u32::MAX)
}

fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("it was taken from a timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(index: u64) -> Told {
        Told {
            at: Timestamp::UNIX_EPOCH,
            version: Version {
                index,
                ..Version::default()
            },
            answer: Answer::UnknownGroup,
        }
    }

    fn row(index: u64) -> Row {
        Row {
            polls: u64::MAX,
            unanswered: 0,
            first: Timestamp::UNIX_EPOCH,
            last: Timestamp::UNIX_EPOCH,
            interval: None,
            address: Ipv6Addr::LOCALHOST.into(),
            told: Some(told(index)),
        }
    }

    #[test]
    fn rows_share_the_listing_that_they_were_told_and_a_poll_keeps_it() {
        let id = |at: u32| ServerId::parse(&format!("web/s{at}")).unwrap();
        let told_of = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 1)];
        let rows = told_of.map(|(at, index)| (id(at), row(index)));
        let mut rows: Rows = rows.into_iter().collect();
        let copies = |rows: &Rows| -> Vec<_> {
            let all = rows.all.iter();
            all.map(|(_, row)| Arc::as_ptr(row.told_version.as_ref().unwrap()))
                .collect()
        };
        let before = copies(&rows);
        assert_eq!(before[0], before[1]);
        assert_eq!(before[2], before[3]);
        assert_ne!(before[1], before[2]);
        for at in [0, 3] {
            rows.change(&id(at), |row| row.unanswered += 1);
        }
        assert_eq!(copies(&rows), before);
        for (at, index) in told_of {
            let known = rows.get(&id(at)).unwrap();
            assert_eq!(known.told, Some(told(index)));
            // It counts no further.
            assert_eq!(known.polls, u64::from(u32::MAX));
        }
        rows.change(&id(4), |row| row.told = Some(told(2)));
        rows.change(&id(0), |row| row.told = Some(told(2)));
        let after = copies(&rows);
        assert_eq!(after[0], after[4]);
    }
}
