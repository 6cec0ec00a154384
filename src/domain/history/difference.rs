//! What a change left, against what stands now or after another change.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{Changed, Record, Value};
use crate::domain::listing::Listing;

/// A key that is another in two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The path below the prefix.
    pub path: String,
    /// What the change left there; `None`: nothing.
    pub before: Option<Value>,
    /// What stands there in the later state.
    pub after: Option<Value>,
    /// Who wrote that; `None`: the history does not know.
    #[serde(flatten)]
    pub since: Option<Since>,
}

/// Whose doing a value is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Since {
    /// The change's id.
    pub change: String,
    /// When it was written.
    pub at: Timestamp,
    /// Who.
    pub by: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What two states differ in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Differences {
    /// By path.
    pub differences: Vec<Difference>,
    /// What makes them doubtful: a key that was written by something that keeps no history.
    pub warnings: Vec<String>,
}

/// What happened to one key over some records.
struct Course<'a> {
    first: &'a Changed,
    last: &'a Changed,
    record: &'a Record,
    /// Whether something else wrote in between.
    broken: bool,
}

impl Differences {
    /// What the keys of a change are now, against what it left there. `records` are all, the oldest
    /// first; none of the change: no difference.
    #[must_use]
    pub fn since(records: &[Record], change: &str, listing: &Listing) -> Self {
        let of_change = records.iter().filter(|record| record.change == change);
        let left: BTreeMap<_, _> = of_change
            .flat_map(|record| &record.changed)
            .map(|changed| (changed.path.as_str(), changed))
            .collect();
        let mut last = BTreeMap::new();
        for record in records {
            for changed in &record.changed {
                last.insert(changed.path.as_str(), (record, changed));
            }
        }
        let mut all = Self::default();
        let of_change = records.iter().filter(|record| record.change == change);
        all.warn_of_sockets(of_change);
        for (path, changed) in left {
            let now = listing.entries.get(path);
            let now = now.map(|entry| Value(entry.value.clone()));
            if now == changed.after {
                continue;
            }
            let writer = last.get(path).filter(|(_, changed)| changed.after == now);
            if writer.is_none() {
                all.warnings.push(unknown(path));
            }
            all.differences.push(Difference {
                path: path.to_owned(),
                before: changed.after.clone(),
                after: now,
                since: writer.map(|(record, _)| Since::of(record)),
            });
        }
        all
    }

    /// What the later of two changes left, against what the earlier one did: all that was written
    /// between them, by whomever. `records` are all, the oldest first.
    ///
    /// # Errors
    /// Text for the person who asks, when a change is not known or the first is the later one.
    pub fn between(records: &[Record], first: &str, second: &str) -> Result<Self, String> {
        let end = |change: &str| {
            let at = records.iter().rposition(|record| record.change == change);
            at.ok_or_else(|| no_change(change))
        };
        let (from, to) = (end(first)?, end(second)?);
        if to < from {
            return Err(format!(
                "{first} is the later change: write {second}..{first}"
            ));
        }
        let mut courses: BTreeMap<&str, Course<'_>> = BTreeMap::new();
        for record in &records[from + 1..=to] {
            for changed in &record.changed {
                let course = courses.entry(&changed.path).or_insert(Course {
                    first: changed,
                    last: changed,
                    record,
                    broken: false,
                });
                let follows =
                    std::ptr::eq(course.last, changed) || course.last.after == changed.before;
                course.broken |= !follows;
                (course.last, course.record) = (changed, record);
            }
        }
        let mut all = Self::default();
        all.warn_of_sockets(&records[from + 1..=to]);
        for (path, course) in courses {
            if course.broken {
                all.warnings.push(unknown(path));
            }
            if course.first.before == course.last.after {
                continue;
            }
            all.differences.push(Difference {
                path: path.to_owned(),
                before: course.first.before.clone(),
                after: course.last.after.clone(),
                since: Some(Since::of(course.record)),
            });
        }
        Ok(all)
    }

    /// Only HAProxy knows what became of rows that were written by their sockets.
    fn warn_of_sockets<'r>(&mut self, records: impl IntoIterator<Item = &'r Record>) {
        let with_sockets = records.into_iter().filter(|r| !r.sockets.is_empty());
        self.warnings.extend(with_sockets.map(|record| {
            let (change, count) = (&record.change, record.sockets.len());
            format!("{count} rows that {change} set by stats socket are not compared: `tidegate history {change}`")
        }));
    }
}

impl Since {
    fn of(record: &Record) -> Self {
        Self {
            change: record.change.clone(),
            at: record.at,
            by: record.by.clone(),
            reason: record.reason.clone(),
        }
    }
}

/// A change that is in no record.
#[must_use]
pub fn no_change(id: &str) -> String {
    format!("no change {id:?} is known: `tidegate history` shows those that are")
}

fn unknown(path: &str) -> String {
    format!("{path} was written by something that keeps no history")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, changed: &[(&str, Option<&'static str>, Option<&'static str>)]) -> Record {
        let value = |text: &&'static str| Value((*text).into());
        let changed = changed.iter().map(|(path, before, after)| Changed {
            path: (*path).to_owned(),
            before: before.as_ref().map(value),
            after: after.as_ref().map(value),
        });
        Record {
            id: id.to_owned(),
            change: id.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            by: "ana".to_owned(),
            reason: None,
            command: "tidegate".to_owned(),
            trace: None,
            part: None,
            sockets: Vec::new(),
            changed: changed.collect(),
        }
    }

    fn records() -> Vec<Record> {
        vec![
            record("1", &[("a", None, Some("1")), ("b", None, Some("1"))]),
            record("2", &[("a", Some("1"), Some("2"))]),
            record("3", &[("a", Some("2"), Some("1")), ("c", None, Some("3"))]),
            // `c` was 4 when it was looked at.
            record("4", &[("c", Some("4"), None), ("b", Some("1"), Some("5"))]),
        ]
    }

    fn shown(differences: &Differences) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::shown);
        let line = |d: &Difference| {
            let by = d.since.as_ref().map_or("?", |since| since.change.as_str());
            format!("{} {} {} {by}", d.path, text(&d.before), text(&d.after))
        };
        differences.differences.iter().map(line).collect()
    }

    #[test]
    fn between_two_changes_only_what_is_another_in_the_end_counts() {
        for (first, second, expected, warnings) in [
            ("1", "1", vec![], 0),
            ("1", "2", vec!["a 1 2 2"], 0),
            // There and back.
            ("1", "3", vec!["c - 3 3"], 0),
            ("1", "4", vec!["b 1 5 4"], 1),
            ("3", "4", vec!["b 1 5 4", "c 4 - 4"], 0),
        ] {
            let found = Differences::between(&records(), first, second).unwrap();
            assert_eq!(shown(&found), expected, "{first}..{second}");
            assert_eq!(found.warnings.len(), warnings, "{first}..{second}");
        }
    }

    #[test]
    fn two_changes_are_named_in_their_order() {
        let later = Differences::between(&records(), "3", "1").unwrap_err();
        assert_eq!(later, "3 is the later change: write 1..3");
        let missing = Differences::between(&records(), "1", "9").unwrap_err();
        assert!(missing.starts_with("no change \"9\" is known"), "{missing}");
    }

    #[test]
    fn of_one_change_its_own_keys_are_compared_with_what_stands_now() {
        let now = [("a", "1"), ("b", "by hand"), ("d", "5")];
        let listing = Listing::with_sentinel(7, &now);
        let found = Differences::since(&records(), "1", &listing);
        assert_eq!(shown(&found), ["b 1 by hand ?"]);
        assert_eq!(
            found.warnings,
            ["b was written by something that keeps no history"]
        );
        let found = Differences::since(&records(), "3", &Listing::with_sentinel(7, &now));
        assert_eq!(shown(&found), ["c 3 - 4"]);
        assert_eq!(found.warnings, Vec::<String>::new());
    }
}
