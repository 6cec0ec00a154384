//! The course of a row: what one node is told, from now on.

use jiff::Timestamp;

use super::CHANGES_AHEAD_MAX;
use crate::domain::answer::{Answer, Percent, State};
use crate::domain::request::Request;
use crate::domain::snapshot::Snapshot;

/// Answers in the order of time, each from its moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Course {
    /// Never empty; the first is now.
    pub(super) steps: Vec<(Timestamp, Answer)>,
    /// Whether it ends only because it is looked at no further.
    pub(super) cut: bool,
}

/// How much traffic an answer lets through, for what a reduction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Maint,
    Drain,
    /// In percent. HAProxy keeps its state at an answer that it does not understand, and that may
    /// be full traffic.
    Traffic(u8),
}

impl Course {
    pub(super) fn new(
        snapshot: &Snapshot,
        request: &Request<'_>,
        node: &str,
        now: Timestamp,
    ) -> Self {
        let mut steps: Vec<(Timestamp, Answer)> = Vec::new();
        let mut moment = now;
        for _ in 0..CHANGES_AHEAD_MAX {
            let decision = snapshot.decide(request, node, moment);
            if steps
                .last()
                .is_none_or(|(_, last)| *last != decision.answer)
            {
                steps.push((moment, decision.answer));
            }
            match decision.until {
                Some(until) => moment = until,
                None => return Self { steps, cut: false },
            }
        }
        Self { steps, cut: true }
    }

    /// Of a row that follows nothing of this.
    pub(super) fn untouched(now: Timestamp) -> Self {
        Self::constant(now, Answer::State(State::Ready(Percent::FULL)))
    }

    /// Of a row that stays so.
    pub(super) fn constant(now: Timestamp, answer: Answer) -> Self {
        Self {
            steps: vec![(now, answer)],
            cut: false,
        }
    }

    /// What is told at a moment that is not before now.
    pub(super) fn at(&self, moment: Timestamp) -> Answer {
        let begun = self.steps.partition_point(|(from, _)| *from <= moment);
        self.steps[begun.saturating_sub(1)].1
    }

    pub(super) fn first(&self) -> &(Timestamp, Answer) {
        self.steps.first().expect("a course has a first step")
    }

    pub(super) fn last(&self) -> &(Timestamp, Answer) {
        self.steps.last().expect("a course has a first step")
    }
}

impl Level {
    pub(super) fn of(answer: Answer) -> Self {
        match answer {
            Answer::State(State::Maint) | Answer::Shadow(State::Maint) => Self::Maint,
            Answer::State(State::Drain) | Answer::Shadow(State::Drain) => Self::Drain,
            Answer::State(State::Ready(percent)) | Answer::Shadow(State::Ready(percent)) => {
                Self::Traffic(percent.get())
            }
            Answer::UnknownGroup | Answer::UnknownDirective | Answer::UnknownRequest => {
                Self::Traffic(100)
            }
        }
    }
}

/// The first moment at which a write leaves less than it would be without it, and less than now: a
/// ramp from a drain is none, although the drain was to end sooner.
pub(super) fn reduced(before: &Course, after: &Course) -> Option<Timestamp> {
    let now = Level::of(before.first().1);
    moments([before, after]).into_iter().find(|moment| {
        let level = Level::of(after.at(*moment));
        level < now && level < Level::of(before.at(*moment))
    })
}

/// The first moment at which a write takes a row from traffic to maintenance at once.
pub(super) fn maint_from_ready(before: &Course, after: &Course) -> Option<Timestamp> {
    let takes = |answer| matches!(Level::of(answer), Level::Traffic(_));
    let is_maint = |answer| Level::of(answer) == Level::Maint;
    let mut last = before.first().1;
    for (moment, answer) in &after.steps {
        let was_to_come = before.first().0 < *moment
            && before
                .steps
                .windows(2)
                .any(|pair| pair[1].0 == *moment && takes(pair[0].1) && is_maint(pair[1].1));
        if takes(last) && is_maint(*answer) && !was_to_come {
            return Some(*moment);
        }
        last = *answer;
    }
    None
}

/// All moments at which one of these changes, in order.
pub(super) fn moments<'a>(courses: impl IntoIterator<Item = &'a Course>) -> Vec<Timestamp> {
    let steps = courses.into_iter().flat_map(|course| &course.steps);
    let mut moments: Vec<_> = steps.map(|(moment, _)| *moment).collect();
    moments.sort_unstable();
    moments.dedup();
    moments
}
