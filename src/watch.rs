//! Follows the source: reads it for ever, has each reading judged.
//!
//! The rules come from faults measured on Consul 1.8.7: contents are compared and never the index
//! alone; after any error the next read carries no index; errors are retried for ever, with
//! jitter; whole readings start at least [`READ_GAP_MIN`] apart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::beliefs::Beliefs;
use crate::clock::Clock;
use crate::domain::authority::{Findings, Judgement, Moment, Offset, Questions, Refusal, Times};
use crate::domain::key::Prefix;
use crate::domain::listing::{Entry, Listing, Outline};
use crate::kv::{Kv, KvError};
use crate::metrics::SourceCounters;
use crate::progress::Beat;

/// How long a blocking read waits: the bound of every wake that the source misses.
pub const WAIT: Duration = Duration::from_secs(5);
/// The least time between two whole readings. Polls are 2 s apart: nobody sees the difference.
pub const READ_GAP_MIN: Duration = Duration::from_millis(100);
/// The first and the longest pause after an error; a refused read returns within a millisecond.
const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// The longest that all questions about one reading may take: with a blocked read and a pause
/// before it, less than the time without progress that the watchdog bears.
const QUESTIONS_TIME_MAX: Duration = Duration::from_secs(4);
/// HTTP's `Date` has whole seconds.
const DATE_GRAIN: Duration = Duration::from_secs(1);
/// How many keys are asked for by name at once. Far below the 200 connections that Consul takes
/// from one address; 128 questions are over well within a lease.
const ASKED_AT_ONCE: usize = 16;

/// The watcher of one prefix.
pub struct Watcher<K> {
    parts: Parts<K>,
    /// The index to block on; `None`: read at once.
    after: Option<u64>,
    last_read: Option<Instant>,
    errors_in_a_row: u32,
    refused_in_a_row: u32,
    notices_shown: usize,
}

/// What a watcher works with.
pub struct Parts<K> {
    /// Where desired state is kept.
    pub kv: Arc<K>,
    /// What is watched.
    pub prefix: Prefix,
    /// How often, and how long a reading counts.
    pub times: Times,
    /// Who judges what is read.
    pub beliefs: Arc<Beliefs>,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Counts of readings.
    pub counters: Arc<SourceCounters>,
    /// Spreads the pauses.
    pub rng: StdRng,
}

/// One outcome of waiting for the source.
enum Heard {
    /// A whole reading; `waited`: its wait was over.
    Reading {
        listing: Listing,
        sent: Moment,
        waited: bool,
    },
    /// A light read that renews nothing.
    Doubt,
    /// No answer that can be used.
    Error(KvError),
}

impl<K: Kv> Watcher<K> {
    /// A watcher that has read nothing yet.
    #[must_use]
    pub const fn new(parts: Parts<K>) -> Self {
        Self {
            parts,
            after: None,
            last_read: None,
            errors_in_a_row: 0,
            refused_in_a_row: 0,
            notices_shown: 0,
        }
    }

    /// Follows the source until `stop`, with a sign of life after each reading.
    pub async fn run(mut self, stop: CancellationToken, beat: Beat) {
        loop {
            beat.now();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.turn() => {}
            }
        }
    }

    /// One reading, from its pause to its publication.
    async fn turn(&mut self) {
        self.pause().await;
        match self.hear().await {
            Heard::Reading {
                listing,
                sent,
                waited,
            } => {
                let begun = Instant::now();
                self.judge(listing, sent, waited).await;
                self.parts.counters.judged.record(begun.elapsed());
            }
            Heard::Doubt => self.after = None,
            Heard::Error(error) => self.failed(error).await,
        }
        self.notice();
    }

    /// Passes on what the store has to say, each thing once.
    fn notice(&mut self) {
        let notices = self.parts.kv.notices();
        for notice in notices.iter().skip(self.notices_shown) {
            warn!("the store: {notice}");
        }
        self.notices_shown = notices.len();
    }

    /// Keeps the gap between readings.
    async fn pause(&mut self) {
        let gap = gap(
            self.parts.times,
            self.errors_in_a_row,
            self.refused_in_a_row,
            self.parts.rng.random_range(0.5..=1.0),
        );
        if let Some(last) = self.last_read {
            sleep_until(last + gap).await;
        }
        self.last_read = Some(Instant::now());
    }

    /// Waits for a whole reading, with light reads beside it.
    async fn hear(&mut self) -> Heard {
        let (kv, prefix) = (Arc::clone(&self.parts.kv), self.parts.prefix.clone());
        let clock = Arc::clone(&self.parts.clock);
        let after = self.after;
        let (begun, sent) = (Instant::now(), self.parts.clock.moment());
        let every = self.parts.times.light_read();
        let mut due = begun + every;
        let whole = async {
            match after {
                Some(after) => kv.watch(&prefix, after, WAIT).await,
                None => kv.list(&prefix).await,
            }
        };
        tokio::pin!(whole);
        loop {
            tokio::select! {
                biased;
                read = &mut whole => {
                    self.parts.counters.whole(read.as_ref().err());
                    return match read {
                        Ok(listing) => Heard::Reading {
                            listing,
                            sent,
                            waited: begun.elapsed() >= WAIT,
                        },
                        Err(error) => Heard::Error(error),
                    };
                }
                (outline, sent, next) = light_read(&*kv, &prefix, &*clock, due, every) => {
                    due = next;
                    self.parts.counters.light(outline.as_ref().err());
                    let confirmed = match &outline {
                        Ok(outline) => self.confirm(outline, sent).await,
                        Err(_) => false,
                    };
                    match outline {
                        Ok(_) if confirmed => {}
                        // The reading that settles it is on its way. To drop it here would begin
                        // it anew for ever where it takes longer than a light read.
                        Ok(_) | Err(_) if after.is_none() => {}
                        Ok(_) => return Heard::Doubt,
                        Err(error) => return Heard::Error(error),
                    }
                }
            }
        }
    }

    /// A light read's outcome. It also shows the store's clock.
    async fn confirm(&self, outline: &Outline, sent: Moment) -> bool {
        let offset = self.parts.kv.clock().map(|reading| {
            Offset::measure(reading.date, DATE_GRAIN, reading.sent, reading.received)
        });
        let event = self.parts.beliefs.update(|authority, now| {
            if let Some(offset) = offset {
                authority.clock_of_source(now, offset);
            }
            authority.confirmed(outline, sent, now)
        });
        event.await
    }

    async fn judge(&mut self, listing: Listing, sent: Moment, waited: bool) {
        let (index, listing) = (listing.index, Arc::new(listing));
        let first = Arc::clone(&listing);
        let judge = self
            .parts
            .beliefs
            .update(|authority, now| authority.listed(first, sent, now));
        let mut judgement = judge.await;
        if let Judgement::Examine(questions) = judgement {
            let examined = examine(&self.parts.kv, &self.parts.prefix, &questions);
            let examined = timeout(QUESTIONS_TIME_MAX, examined).await;
            judgement = match examined.unwrap_or_else(|_| Err(unanswered(&questions))) {
                Ok(findings) => {
                    let judge = self
                        .parts
                        .beliefs
                        .update(|authority, now| authority.examined(listing, sent, &findings, now));
                    judge.await
                }
                Err(error) => {
                    self.failed(error).await;
                    return;
                }
            };
        }
        match judgement {
            Judgement::Accepted { .. } => {
                // An index that did not grow was handed out for other contents, or belongs to
                // another history: blocking on it may sleep through a change.
                let grew = self.after.is_none_or(|after| index > after);
                self.after = (grew || (self.after == Some(index) && waited)).then_some(index);
                self.errors_in_a_row = 0;
                self.refused_in_a_row = 0;
            }
            Judgement::Refused | Judgement::Examine(_) => self.refused(),
        }
    }

    fn refused(&mut self) {
        self.after = None;
        self.errors_in_a_row = 0;
        self.refused_in_a_row = self.refused_in_a_row.saturating_add(1);
    }

    async fn failed(&mut self, error: KvError) {
        match error {
            KvError::Denied(text) => {
                let told = self
                    .parts
                    .beliefs
                    .update(|authority, now| authority.denied(text, now));
                told.await;
                self.refused();
            }
            KvError::Unreachable(_)
            | KvError::BadAnswer(_)
            | KvError::BadRequest(_)
            | KvError::ReadOnly(_)
            | KvError::OutcomeUnknown(_) => {
                let text = error.to_string();
                let told = self
                    .parts
                    .beliefs
                    .update(|authority, _| authority.unreachable(text));
                told.await;
                self.after = None;
                self.errors_in_a_row = self.errors_in_a_row.saturating_add(1);
                if self.errors_in_a_row == 1 {
                    warn!(%error, "the source cannot be read; trying for ever");
                }
            }
        }
    }
}

/// The gap between readings: a growing one with jitter between errors; between readings that are
/// refused one well within the lease, so that what holds this replica does not lapse. `jitter` is
/// the part of the pause between errors that is kept.
fn gap(times: Times, errors_in_a_row: u32, refused_in_a_row: u32, jitter: f64) -> Duration {
    match errors_in_a_row.checked_sub(1) {
        None if refused_in_a_row > 1 => times.light_read().max(READ_GAP_MIN),
        None => READ_GAP_MIN,
        Some(doublings) => {
            let [first, longest] = RETRY;
            let full = first.saturating_mul(1 << doublings.min(8)).min(longest);
            full.mul_f64(jitter).max(READ_GAP_MIN)
        }
    }
}

/// A light read at `due`, with the moment at which it was sent and the time of the next one. The
/// period counts from the sending: a slow source must not stretch it beyond the lease.
async fn light_read<K: Kv>(
    kv: &K,
    prefix: &Prefix,
    clock: &dyn Clock,
    due: Instant,
    every: Duration,
) -> (Result<Outline, KvError>, Moment, Instant) {
    sleep_until(due).await;
    let (begun, sent) = (Instant::now(), clock.moment());
    (kv.confirm(prefix).await, sent, begun + every)
}

/// Asks the source what a doubtful reading needs: all at once, as the lease goes on meanwhile.
async fn examine<K: Kv>(
    kv: &Arc<K>,
    prefix: &Prefix,
    questions: &Questions,
) -> Result<Findings, KvError> {
    let (table_index, asked) = tokio::join!(
        kv.table_index(prefix),
        ask_by_name(kv, prefix, &questions.paths)
    );
    let mut findings = Findings {
        asked: questions.paths.clone(),
        table_index: table_index?,
        denied: None,
        present: BTreeMap::new(),
    };
    for (path, answer) in asked {
        match answer {
            // A name that no request can carry is no directive's: it may go unasked.
            Ok(None) | Err(KvError::BadRequest(_)) => {}
            Ok(Some(entry)) => {
                findings.present.insert(path, entry.modify_index);
            }
            Err(KvError::Denied(text)) => {
                findings.denied.get_or_insert(Refusal { path, text });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(findings)
}

fn unanswered(questions: &Questions) -> KvError {
    let keys = questions.paths.len();
    KvError::Unreachable(format!(
        "questions about {keys} vanished keys had no answer within {QUESTIONS_TIME_MAX:?}"
    ))
}

/// The answers in the order of the paths.
async fn ask_by_name<K: Kv>(
    kv: &Arc<K>,
    prefix: &Prefix,
    paths: &[String],
) -> BTreeMap<String, Result<Option<Entry>, KvError>> {
    let mut answers = BTreeMap::new();
    for some in paths.chunks(ASKED_AT_ONCE) {
        let mut asked = JoinSet::new();
        for path in some.iter().cloned() {
            let (kv, key) = (Arc::clone(kv), prefix.key(&path));
            asked.spawn(async move { (path, kv.get(&key).await) });
        }
        answers.extend(asked.join_all().await);
    }
    answers
}

#[cfg(test)]
mod tests;
