//! What was seen over the looks of one watch, as one picture: the status page's board.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cli::Failure;
use crate::cli::look::{Replicas, Seen, Stored};
use crate::cli::selector;
use crate::domain::authority::{AuthorityName, Verdict};
use crate::domain::board::text::{Frame, Line, Replica, Size};
use crate::domain::board::{Board, Parts};
use crate::domain::fleet::Merged;
use crate::domain::key::Prefix;
use crate::domain::name::Name;
use crate::domain::selector::Selector;
use crate::domain::view::{View, time_of_day};

/// What is shown.
pub(super) struct Picture {
    board: Board,
    replicas: Vec<Replica>,
    pub(super) view: View,
    stored: Option<Stored>,
    /// Since when somebody cannot be asked.
    away: BTreeMap<String, Timestamp>,
}

impl Picture {
    /// The first one.
    ///
    /// # Errors
    /// When the selector fits nothing.
    pub(super) fn first(
        prefix: &Prefix,
        selector: Option<&Selector>,
        seen: Seen,
    ) -> Result<Self, Failure> {
        let (picture, selected) = Self::of(prefix, selector, seen, None, BTreeMap::new());
        selected.map(|()| picture)
    }

    /// The next one. What the selector fits may go, and come back.
    pub(super) fn next(self, prefix: &Prefix, selector: Option<&Selector>, seen: Seen) -> Self {
        let (picture, _) = Self::of(prefix, selector, seen, self.stored, self.away);
        picture
    }

    fn of(
        prefix: &Prefix,
        selector: Option<&Selector>,
        mut seen: Seen,
        before: Option<Stored>,
        mut away: BTreeMap<String, Timestamp>,
    ) -> (Self, Result<(), Failure>) {
        // A store that is away for a while has said what stands.
        let stored = seen.stored.take().or(before);
        let mut view = seen.view(stored.as_ref());
        let selected = selector::select(&mut view, selector);
        away.retain(|what, _| view.missing.iter().any(|it| it.what == *what));
        for missing in &mut view.missing {
            let since = away.entry(missing.what.clone()).or_insert(seen.at);
            missing.why += &format!(", since {}", time_of_day(*since, seen.at));
        }
        let (board, replicas) = board(prefix, &seen, stored.as_ref(), &view);
        let picture = Self {
            board,
            replicas,
            view,
            stored,
            away,
        };
        (picture, selected)
    }

    /// Its lines, what lies ahead counted from `now`.
    pub(super) fn lines(&self, prefix: &Prefix, now: Timestamp, size: Size) -> Vec<Line> {
        let snapshot = self.stored.as_ref().map(|stored| &stored.snapshot);
        let frame = Frame {
            prefix,
            listing: snapshot.map(|snapshot| (snapshot.index, snapshot.generation)),
            replicas: &self.replicas,
            board: &self.board,
            now,
        };
        frame.lines(size)
    }
}

fn board(
    prefix: &Prefix,
    seen: &Seen,
    stored: Option<&Stored>,
    view: &View,
) -> (Board, Vec<Replica>) {
    let nothing = Merged::of([]);
    let verdicts: Vec<_> = seen.replicas.iter().filter_map(verdict).collect();
    let problems = seen.replicas.iter().flat_map(|told| {
        let problems = told.problems.iter();
        problems.map(|problem| format!("{}: {problem}", told.replica))
    });
    let problems: Vec<_> = problems.collect();
    let board = Board::new(&Parts {
        prefix,
        snapshot: stored.map(|stored| &stored.snapshot),
        deploys: stored.map_or(&[], |stored| &stored.locks),
        verdicts: &verdicts,
        replica_problems: &problems,
        fleet: seen.fleet.as_ref().unwrap_or(&nothing),
        missing: &[],
        view,
    });
    let is_lost = |what: &str| seen.lost.iter().any(|it| it.what == what);
    let lost = view.missing.iter().filter(|it| is_lost(&it.what));
    let lost = lost.map(|it| Replica {
        name: it.what.trim_start_matches("replica ").to_owned(),
        authority: "away".to_owned(),
        answers: false,
        index: None,
        about: it.why.clone(),
    });
    let replicas = told(&seen.replicas).into_iter().chain(lost).collect();
    (board, replicas)
}

/// A word that this version does not know says nothing.
fn verdict(told: &Replicas) -> Option<(Option<Name>, Verdict)> {
    let verdict = Verdict {
        name: AuthorityName::parse(&told.authority)?,
        reason: told.reason.clone(),
    };
    Some((Some(Name::parse(&told.replica).ok()?), verdict))
}

/// Those that told, and the others as these count them.
fn told(all: &[Replicas]) -> Vec<Replica> {
    let answers = |word: &str| AuthorityName::parse(word).is_some_and(AuthorityName::answers);
    let own = all.iter().map(|told| {
        let stopping = if told.draining { "stopping, " } else { "" };
        Replica {
            name: told.replica.clone(),
            authority: told.authority.clone(),
            answers: answers(&told.authority),
            index: told.index,
            about: format!("{stopping}{}, version {}", told.reason, told.version),
        }
    });
    let mut replicas: Vec<_> = own.collect();
    for told in all {
        for peer in &told.peers {
            if replicas.iter().any(|known| known.name == peer.slot) {
                continue;
            }
            let trouble = peer.trouble.iter().map(|why| format!(": {why}"));
            replicas.push(Replica {
                name: peer.slot.clone(),
                authority: peer.counted_as.clone(),
                answers: answers(&peer.counted_as),
                index: peer.index,
                about: format!(
                    "as {} counts it{}",
                    told.replica,
                    trouble.collect::<String>()
                ),
            });
        }
    }
    replicas
}
