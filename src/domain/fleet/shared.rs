//! What the rows of a report share, said once.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Row, Told, Version, counted};
use crate::domain::answer::Answer;
use crate::domain::name::ServerId;

/// A row as it is written, without its names. Written as a list, in this order.
#[derive(Debug, Clone, Copy)]
pub(super) struct WireRow {
    /// Its place among the report's servers.
    server: u32,
    polls: u64,
    unanswered: u64,
    first: Age,
    last: Age,
    /// Milliseconds; 0 when it is not known.
    interval: u32,
    /// Its place among the report's sources.
    source: u32,
    /// When, and the places among the report's answers and versions.
    told: Option<(Age, u32, u32)>,
}

/// As serde writes and reads it.
type Listed = (u32, u64, u64, Age, Age, u32, u32, Option<(Age, u32, u32)>);

/// Milliseconds before the report's own time; below 0 behind it.
type Age = i64;

/// The lists of a report that is being written.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) servers: Places<ServerId>,
    pub(super) sources: Places<IpAddr>,
    pub(super) answers: Places<Answer>,
    pub(super) versions: Places<Version>,
}

/// Values in the order in which they came first.
#[derive(Debug)]
pub(super) struct Places<T> {
    places: HashMap<T, u32>,
    values: Vec<T>,
}

/// The lists of a report that is being read.
#[derive(Debug)]
pub(super) struct Listings {
    pub(super) at: Timestamp,
    pub(super) servers: Vec<ServerId>,
    pub(super) sources: Vec<IpAddr>,
    pub(super) answers: Vec<Answer>,
    pub(super) versions: Vec<Version>,
}

impl Lists {
    /// Lists what this row names.
    pub(super) fn add(&mut self, server: &ServerId, row: &Row) {
        self.servers.add(server);
        self.sources.add(&row.address);
        if let Some(told) = &row.told {
            self.answers.add(&told.answer);
            self.versions.add(&told.version);
        }
    }

    /// A row whose names are listed.
    pub(super) fn wire(&self, server: &ServerId, row: &Row, at: Timestamp) -> WireRow {
        let age = |moment: Timestamp| at.as_millisecond() - moment.as_millisecond();
        WireRow {
            server: self.servers.of(server),
            polls: row.polls,
            unanswered: row.unanswered,
            first: age(row.first),
            last: age(row.last),
            interval: row.interval_millis(),
            source: self.sources.of(&row.address),
            told: row.told.map(|told| {
                let answer = self.answers.of(&told.answer);
                (age(told.at), answer, self.versions.of(&told.version))
            }),
        }
    }
}

impl<T: Clone + Eq + Hash> Places<T> {
    fn add(&mut self, value: &T) {
        if !self.places.contains_key(value) {
            let place = u32::try_from(self.values.len()).expect("there are fewer rows");
            self.places.insert(value.clone(), place);
            self.values.push(value.clone());
        }
    }

    fn of(&self, value: &T) -> u32 {
        *self.places.get(value).expect("it was added")
    }
}

impl<T> Places<T> {
    pub(super) fn values(&self) -> &[T] {
        &self.values
    }
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            values: Vec::new(),
        }
    }
}

impl Listings {
    /// The row, and its server.
    pub(super) fn read(&self, row: &WireRow) -> Result<(ServerId, Row), String> {
        let server = listed(&self.servers, "server", row.server)?;
        let bad = |error: String| format!("server {:?}: {error}", server.as_str());
        let read = || {
            let told = |(age, answer, version)| {
                Ok::<_, String>(Told {
                    at: self.moment(age)?,
                    version: *listed(&self.versions, "version", version)?,
                    answer: *listed(&self.answers, "answer", answer)?,
                })
            };
            let interval = Duration::from_millis(row.interval.into());
            Ok(Row {
                polls: row.polls,
                unanswered: row.unanswered,
                first: self.moment(row.first)?,
                last: self.moment(row.last)?,
                interval: counted(interval),
                address: *listed(&self.sources, "source", row.source)?,
                told: row.told.map(told).transpose()?,
            })
        };
        Ok((server.clone(), read().map_err(bad)?))
    }

    fn moment(&self, age: Age) -> Result<Timestamp, String> {
        let moment = self.at.checked_sub(SignedDuration::from_millis(age));
        moment.map_err(|_| format!("an age of {age} ms is none"))
    }
}

fn listed<'a, T>(list: &'a [T], what: &str, place: u32) -> Result<&'a T, String> {
    let found = usize::try_from(place).ok().and_then(|at| list.get(at));
    found.ok_or_else(|| format!("{what} {place} is not among the {} listed", list.len()))
}

impl Serialize for WireRow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed: Listed = (
            self.server,
            self.polls,
            self.unanswered,
            self.first,
            self.last,
            self.interval,
            self.source,
            self.told,
        );
        listed.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WireRow {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (server, polls, unanswered, first, last, interval, source, told) =
            Listed::deserialize(deserializer)?;
        Ok(Self {
            server,
            polls,
            unanswered,
            first,
            last,
            interval,
            source,
            told,
        })
    }
}
