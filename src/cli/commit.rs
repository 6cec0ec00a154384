//! Writing: check-and-set transactions with the sentinel, and a record of the history in each.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::time::sleep;
use ulid::Ulid;

use super::{Exit, Failure};
use crate::clock;
use crate::domain::change::Edit;
use crate::domain::history::{Changed, Part, Record};
use crate::domain::key::{META, Prefix};
use crate::domain::listing::Listing;
use crate::domain::migration::SocketChange;
use crate::domain::sentinel::Generation;
use crate::domain::settings::History;
use crate::kv::{Expect, Kv, KvError, OPERATIONS_MAX, Operation, Outcome};

/// The operations of a transaction that are left for edits, beside the sentinel and the record.
pub(super) const EDIT_OPERATIONS_MAX: usize = OPERATIONS_MAX - 2;
/// For how long the outcome of a write that got no answer is looked for. A leader's change takes
/// 4 to 6 s.
const OUTCOME_TIME_MAX: Duration = Duration::from_secs(20);
/// The pause between two looks for it.
const OUTCOME_EVERY: Duration = Duration::from_millis(300);

/// Where is written.
pub(super) struct Places<'a> {
    /// The watched prefix.
    pub(super) prefix: &'a Prefix,
    /// Where the history is.
    pub(super) history: &'a Prefix,
}

/// Who writes a change, and why.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// Its id.
    pub(super) change: String,
    pub(super) by: String,
    pub(super) reason: Option<String>,
    pub(super) command: String,
    pub(super) trace: Option<String>,
    /// What is written to stats sockets afterwards; noted with the first part.
    pub(super) sockets: Vec<SocketChange>,
}

/// A change in its parts, and how far it is written.
pub(super) struct Progress {
    parts: Vec<Vec<Edit>>,
    written: usize,
}

impl Progress {
    /// Nothing is written yet.
    pub(super) const fn new(parts: Vec<Vec<Edit>>) -> Self {
        Self { parts, written: 0 }
    }

    /// What is not written yet.
    pub(super) fn left(&self) -> &[Vec<Edit>] {
        &self.parts[self.written..]
    }

    /// What is written.
    pub(super) fn written(&self) -> &[Vec<Edit>] {
        &self.parts[..self.written]
    }

    /// Everything, written or not.
    pub(super) fn edits(&self) -> impl Iterator<Item = &Edit> {
        self.parts.iter().flatten()
    }

    /// The failure with what is written all the same.
    pub(super) fn partly(&self, unwritten: Unwritten, change: &str) -> Unwritten {
        let (written, of) = (self.written, self.parts.len());
        if written == 0 {
            return unwritten;
        }
        let Unwritten { failure, unknown } = unwritten;
        let text = failure
            .text
            .replace("nothing was written", "nothing more was written");
        let text = format!(
            "{text}\n{written} of {of} parts are written: run it again for the others, or take \
             them back with `tidegate undo {change}`"
        );
        Unwritten::new(Failure::new(failure.exit, text), unknown)
    }
}

/// Why a change is not, or not known to be, written as a whole.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) failure: Failure,
    /// Whether the next part may be, now or later.
    pub(super) unknown: bool,
}

impl From<Unwritten> for Failure {
    fn from(unwritten: Unwritten) -> Self {
        unwritten.failure
    }
}

impl Unwritten {
    pub(super) fn new(failure: impl Into<Failure>, unknown: bool) -> Self {
        Self {
            failure: failure.into(),
            unknown,
        }
    }
}

/// Writes the parts that are left, one after the other, each as it was looked at in this listing:
/// somebody else's write between them ends it. Returns the last generation.
pub(super) async fn write<K: Kv>(
    kv: &K,
    places: &Places<'_>,
    listing: &Listing,
    progress: &mut Progress,
    about: &About,
) -> Result<Generation, Unwritten> {
    let mut generation = Generation::read(listing)
        .map_err(|error| Unwritten::new(Failure::new(Exit::Refused, error.to_string()), false))?;
    let mut sentinel = listing.entries.get(META).map(|entry| entry.modify_index);
    let of = progress.parts.len();
    while let Some(edits) = progress.left().first() {
        let number = progress.written;
        generation = generation.next();
        let at = clock::now();
        let id = match number {
            0 => about.change.clone(),
            _ => Ulid::generate().to_string(),
        };
        let part = (of > 1).then_some(Part {
            number: number + 1,
            of,
        });
        let record = Record {
            id: id.clone(),
            change: about.change.clone(),
            at,
            by: about.by.clone(),
            reason: about.reason.clone(),
            command: about.command.clone(),
            trace: about.trace.clone(),
            part,
            changed: edits.iter().map(Changed::from).collect(),
            sockets: match number {
                0 => about.sockets.clone(),
                _ => Vec::new(),
            },
        };
        let proof = Proof {
            key: places.history.key(&id),
            value: record.to_json().into(),
        };
        let meta = generation.to_json(at, &about.by, about.trace.as_deref());
        let operations = operations(places.prefix, edits, sentinel, meta, &proof);
        sentinel = Some(commit(kv, &operations, &proof).await?);
        progress.written += 1;
    }
    Ok(generation)
}

/// A key of a transaction, whose value shows that the transaction was applied.
pub(super) struct Proof {
    pub(super) key: String,
    pub(super) value: Bytes,
}

/// Sends a transaction that can be applied only once: one of its expectations fails then. One
/// whose outcome is not known is found out: it may have been applied, or may be later. Returns the
/// index of the change.
pub(super) async fn commit<K: Kv>(
    kv: &K,
    operations: &[Operation],
    proof: &Proof,
) -> Result<u64, Unwritten> {
    let begin = clock::moment();
    let mut unknown = None;
    loop {
        let error = match kv.transact(operations).await {
            Ok(Outcome::Committed { index }) => return Ok(index),
            Ok(Outcome::Conflict { key }) => {
                // The one that got no answer may have been applied since.
                return match (unknown, applied(kv, proof).await) {
                    (Some(_), Ok(Some(index))) => Ok(index),
                    (_, Ok(_)) => Err(Unwritten::new(conflict(key), false)),
                    (unknown, Err(error)) => Err(Unwritten::new(error, unknown.is_some())),
                };
            }
            Err(KvError::OutcomeUnknown(error)) => error,
            // It was not written this time; an earlier one may be.
            Err(KvError::Unreachable(error)) if unknown.is_some() => error,
            Err(error) => return Err(Unwritten::new(error, unknown.is_some())),
        };
        if let Ok(Some(index)) = applied(kv, proof).await {
            return Ok(index);
        }
        if clock::moment().since(begin) >= OUTCOME_TIME_MAX {
            let text = format!(
                "the store: {error}. It is not written so far, and may still be: look with \
                 `tidegate history` before you repeat it"
            );
            return Err(Unwritten::new(Failure::new(Exit::Unreachable, text), true));
        }
        unknown = Some(error);
        sleep(OUTCOME_EVERY).await;
    }
}

/// The index at which the transaction was applied, if it was.
async fn applied<K: Kv>(kv: &K, proof: &Proof) -> Result<Option<u64>, KvError> {
    let entry = kv.get(&proof.key).await?;
    let ours = entry.filter(|entry| entry.value == proof.value);
    Ok(ours.map(|entry| entry.modify_index))
}

fn conflict(key: Option<String>) -> Failure {
    let key = key.map(|key| format!(" ({key})")).unwrap_or_default();
    let text = format!("somebody else wrote meanwhile{key}; nothing was written: look again");
    Failure::new(Exit::Conflict, text)
}

fn operations(
    prefix: &Prefix,
    edits: &[Edit],
    sentinel: Option<u64>,
    meta: String,
    proof: &Proof,
) -> Vec<Operation> {
    let at = |index: Option<u64>| index.map_or(Expect::Missing, Expect::Index);
    let sentinel = Operation::Set {
        key: prefix.key(META),
        value: meta.into(),
        expect: at(sentinel),
    };
    let record = Operation::Set {
        key: proof.key.clone(),
        value: proof.value.clone(),
        expect: Expect::Missing,
    };
    let edit = |edit: &Edit| {
        let key = prefix.key(&edit.path);
        let expect = at(edit.before.as_ref().map(|entry| entry.modify_index));
        match &edit.after {
            Some(value) => Operation::Set {
                key,
                value: value.clone(),
                expect,
            },
            None => Operation::Delete { key, expect },
        }
    };
    [sentinel, record]
        .into_iter()
        .chain(edits.iter().map(edit))
        .collect()
}

/// Takes records away that are beyond what the settings keep. It never fails a change: what cannot
/// be done now is done by a later one.
pub(super) async fn trim<K: Kv>(kv: &K, history: &Prefix, keep: &History) -> Result<(), KvError> {
    let names = kv.confirm(history).await?.names;
    let oldest = clock::now().checked_sub(keep.age).unwrap_or(Timestamp::MIN);
    let beyond = names.len().saturating_sub(keep.changes);
    let old = |(place, id): &(usize, String)| {
        let written = id.parse::<Ulid>().ok().map(|id| id.timestamp_ms());
        let written = written.and_then(|ms| i64::try_from(ms).ok());
        let written = written.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        // What is no id was not written by this program.
        written.is_some_and(|at| *place < beyond || at < oldest)
    };
    let doomed = names.into_iter().enumerate().filter(old);
    let deletes = doomed
        .take(OPERATIONS_MAX)
        .map(|(_, id)| Operation::Delete {
            key: history.key(id),
            expect: Expect::Anything,
        });
    let deletes: Vec<_> = deletes.collect();
    if deletes.is_empty() {
        return Ok(());
    }
    kv.transact(&deletes).await.map(drop)
}
