//! Compares what HAProxy servers and pollers were told with what the KV held.
//!
//! A *flap*: a server was told a listing older than one it was told before. *Wrong*: an answer
//! that is not what its listing asks for, one older than the bound allows, one that cannot be
//! read, or a server that changed without an answer. No answer at all is neither: it is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{At, History, Rank};

/// What is allowed.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// How much older than the KV an answer may be.
    pub(crate) staleness: Duration,
    /// Time between two polls of a server: how many were lost is told from how long it lasted.
    pub(crate) poll_interval: Duration,
    /// When the agreed listing is right, whatever its age.
    pub(crate) agreed: Vec<(At, At)>,
}

/// What one server of one node was seen to be, by its changes.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `node web/s01`.
    pub(crate) name: String,
    /// The keys that decide about it, the strongest first.
    pub(crate) keys: Vec<String>,
    pub(crate) seen: Vec<Seen>,
    /// When it was looked at for the last time.
    pub(crate) end: At,
}

/// One look at a server that differs from the look before.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The look before began then: what is new happened after it.
    pub(crate) after: At,
    pub(crate) at: At,
    /// The state in force: `drain`, `maint`, `40%`.
    pub(crate) state: String,
    pub(crate) last_poll: LastPoll,
}

/// What HAProxy says about its last agent check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastPoll {
    /// A new process has not polled.
    None,
    Answered {
        index: u64,
        replica: String,
    },
    /// A line that is no answer about a state.
    Unreadable(String),
    Lost(String),
}

/// What one replica answered, asked directly.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) keys: Vec<String>,
    pub(crate) polls: Vec<Poll>,
}

#[derive(Clone, Debug)]
pub(crate) struct Poll {
    /// Before the request went.
    pub(crate) sent: At,
    pub(crate) heard: At,
    pub(crate) reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Answer {
        index: u64,
        word: String,
    },
    Unreadable(String),
    /// Closed without a byte.
    Silence,
    NoConnection,
}

/// The verdict.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Polls of HAProxy without an answer.
    pub(crate) lost: usize,
    pub(crate) wrong: Vec<String>,
    pub(crate) flaps: Vec<String>,
    /// The longest time that one server had no answer.
    pub(crate) silence: Duration,
    /// The longest time that two replicas answered from different listings.
    pub(crate) difference: Duration,
    /// The longest time between two looks at a node: shorter than the time between two polls, no
    /// answer is overlooked.
    pub(crate) blind: Duration,
}

/// HAProxy has its answer that long after the answer's moment at the latest, while nothing is
/// paused.
const ANSWER_UNDER_WAY_MAX: Duration = Duration::from_millis(100);
/// An answer says nothing about what a replica would answer that much later: several times the
/// time between two direct polls.
const ANSWER_COUNTS_FOR: Duration = Duration::from_millis(300);

/// Judges everything that was seen.
pub(crate) fn judge(
    history: &History,
    bounds: &Bounds,
    slots: &[Slot],
    replicas: &[Replica],
) -> Findings {
    let mut findings = Findings::default();
    for slot in slots {
        let mut judge = SlotJudge {
            history,
            bounds,
            slot,
            newest: None,
            state: None,
            lost_since: None,
        };
        for seen in &slot.seen {
            judge.look(seen, &mut findings);
        }
        judge.answered(slot.end, &mut findings);
    }
    for replica in replicas {
        judge_replica(history, bounds, replica, &mut findings);
    }
    findings.difference = longest_difference(history, replicas);
    findings
}

/// Judges one server, look by look.
struct SlotJudge<'a> {
    history: &'a History,
    bounds: &'a Bounds,
    slot: &'a Slot,
    newest: Option<Rank>,
    /// What the last answer left it in.
    state: Option<String>,
    lost_since: Option<At>,
}

impl SlotJudge<'_> {
    fn look(&mut self, seen: &Seen, findings: &mut Findings) {
        match &seen.last_poll {
            LastPoll::None => self.state = None,
            LastPoll::Answered { index, .. } => {
                self.answered(seen.at, findings);
                self.answer(seen, *index, findings);
            }
            LastPoll::Unreadable(text) => {
                let name = &self.slot.name;
                let text = format!("{name} at {:?}: cannot be read: {text}", seen.at);
                findings.wrong.push(text);
            }
            LastPoll::Lost(_) => {
                self.lost_since.get_or_insert(seen.at);
                if self
                    .state
                    .as_ref()
                    .is_some_and(|state| *state != seen.state)
                {
                    let name = &self.slot.name;
                    findings
                        .wrong
                        .push(format!("{name}: changed without an answer: {seen:?}"));
                }
            }
        }
    }

    fn answer(&mut self, seen: &Seen, index: u64, findings: &mut Findings) {
        let (history, name) = (self.history, &self.slot.name);
        let rank = history.rank(index, seen.at);
        if self.newest.is_some_and(|newest| rank < newest) {
            findings
                .flaps
                .push(format!("{name}: after {:?}: {seen:?}", self.newest));
        }
        self.newest = self.newest.max(Some(rank));
        self.state = Some(seen.state.clone());
        let expected = history.word(rank, &self.slot.keys);
        if expected != seen.state {
            findings
                .wrong
                .push(format!("{name}: not {expected}: {seen:?}"));
        }
        let asked = seen.after.saturating_sub(ANSWER_UNDER_WAY_MAX);
        findings.wrong.extend(
            stale(history, self.bounds, rank, asked)
                .map(|missed| format!("{name}: {missed}: {seen:?}")),
        );
    }

    /// Polls are answered again: what was lost until now is counted.
    fn answered(&mut self, at: At, findings: &mut Findings) {
        let Some(since) = self.lost_since.take() else {
            return;
        };
        let span = at.saturating_sub(since);
        findings.silence = findings.silence.max(span);
        let polls = span.as_secs_f64() / self.bounds.poll_interval.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a scene lasts minutes: a small number, and no span is negative"
        )]
        let polls = polls.round() as usize;
        findings.lost += polls.max(1);
    }
}

fn judge_replica(history: &History, bounds: &Bounds, replica: &Replica, findings: &mut Findings) {
    let name = &replica.name;
    let mut newest = None;
    for poll in &replica.polls {
        match &poll.reply {
            Reply::Silence | Reply::NoConnection => {}
            Reply::Unreadable(text) => {
                let text = format!("{name} at {:?}: cannot be read: {text}", poll.heard);
                findings.wrong.push(text);
            }
            Reply::Answer { index, word } => {
                let rank = history.rank(*index, poll.sent);
                if newest.is_some_and(|newest| rank < newest) {
                    findings
                        .flaps
                        .push(format!("{name}: after {newest:?}: {poll:?}"));
                }
                newest = newest.max(Some(rank));
                let expected = history.word(rank, &replica.keys);
                if expected != word {
                    findings
                        .wrong
                        .push(format!("{name}: not {expected}: {poll:?}"));
                }
                let missed = stale(history, bounds, rank, poll.sent);
                findings
                    .wrong
                    .extend(missed.map(|missed| format!("{name}: {missed}: {poll:?}")));
            }
        }
    }
}

/// What an answer given at `asked` or later should have known, if it rests on less.
fn stale(history: &History, bounds: &Bounds, rank: Rank, asked: At) -> Option<String> {
    let is_agreed = bounds
        .agreed
        .iter()
        .any(|(from, to)| (from..=to).contains(&&asked));
    let known = history.certain_at(asked.checked_sub(bounds.staleness)?)?;
    let is_stale = !is_agreed && rank < history.rank_of(known);
    is_stale.then(|| format!("older than {known:?}, asked at {asked:?}"))
}

fn longest_difference(history: &History, replicas: &[Replica]) -> Duration {
    let polls = |(place, replica): (usize, &Replica)| -> Vec<(At, usize, Option<Rank>)> {
        let rank = |poll: &Poll| match &poll.reply {
            Reply::Answer { index, .. } => Some(history.rank(*index, poll.sent)),
            Reply::Unreadable(_) | Reply::Silence | Reply::NoConnection => None,
        };
        let polls = replica.polls.iter();
        polls.map(|poll| (poll.heard, place, rank(poll))).collect()
    };
    let mut events: Vec<_> = replicas.iter().enumerate().flat_map(polls).collect();
    events.sort_unstable();
    let mut last: BTreeMap<usize, (At, Rank)> = BTreeMap::new();
    let (mut since, mut longest) = (None, Duration::ZERO);
    for (at, place, rank) in events {
        match rank {
            Some(rank) => last.insert(place, (at, rank)),
            None => last.remove(&place),
        };
        last.retain(|_, (heard, _)| at.saturating_sub(*heard) <= ANSWER_COUNTS_FOR);
        let mut ranks = last.values().map(|(_, rank)| rank);
        let first = ranks.next();
        if ranks.any(|rank| Some(rank) != first) {
            let since = *since.get_or_insert(at);
            longest = longest.max(at.saturating_sub(since));
        } else {
            // What was the same a moment ago differed until now at the longest.
            longest = longest.max(
                since
                    .take()
                    .map_or(Duration::ZERO, |since| at.saturating_sub(since)),
            );
        }
    }
    longest
}

#[cfg(test)]
mod tests;
