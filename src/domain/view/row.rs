//! One server of one node, joined.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::{Parts, is_canary};
use crate::domain::answer::{Answer, State};
use crate::domain::fleet::{self, Judge, Version};
use crate::domain::key::CANARY;
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{Class, Exactness, Observation, Observed};
use crate::domain::request::Request;
use crate::domain::snapshot::{About, Decision, Snapshot};

/// The state of a row that nobody knows.
pub const UNKNOWN: &str = "unknown";

/// One server of one node. There may be hundreds of thousands: what many say alike they share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The node.
    pub node: Name,
    /// The server.
    pub server: ServerId,
    /// What the node is for, by the settings.
    pub role: Option<Name>,
    /// The zone that the node says it stands in; by the settings where it never polled.
    pub zone: Option<Name>,
    /// Whether it is a canary server.
    pub canary: bool,
    /// `UP`, `DRAIN`, `MAINT`, `DOWN`, or [`UNKNOWN`]: `HAProxy`'s own word when it was asked for,
    /// otherwise what was served.
    pub state: Cow<'static, str>,
    /// What is asked for.
    pub desired: Option<Arc<Desired>>,
    /// What was answered.
    pub served: Option<Served>,
    /// What `HAProxy` has.
    pub observed: Option<Box<Observed>>,
    /// Its configured weight on this node, 0 to 256, by the settings; `None` where they do not list it.
    #[serde(skip)]
    pub configured_weight: Option<u16>,
    /// Why the three do not agree yet; `None` when they do, as far as they are known.
    pub not_converged: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Desired {
    /// In the words of an answer: `ready 40%`, `drain`, `unknown-directive`.
    pub answer: String,
    /// The key that decides; `None` when none stands for this server, or it cannot be told.
    pub path: Option<String>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What is wrong with the key that decides: it freezes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it changes next by the time alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Timestamp>,
    /// Where the server's groups are known from.
    pub groups: Groups,
    /// Whether the last answer was another one than this snapshot has for its moment: a poll to come
    /// does not mend that, as it does where a ramp has just gone on.
    #[serde(skip)]
    pub disputed: bool,
    #[serde(skip)]
    decided: Answer,
}

/// Where the groups of a server are known from. A poll names them, and the fleet view does not keep
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Groups {
    /// The key `settings` lists the server.
    Settings,
    /// Its name says that it is a canary server; otherwise none is assumed.
    Name,
    /// The answer fits no group that is known: it is what a replica said.
    Answer,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Served {
    /// The last answer; `None` when no poll was ever answered.
    pub answer: Option<Arc<str>>,
    /// The listing's index that it came from.
    pub index: Option<u64>,
    /// When.
    pub at: Option<Timestamp>,
    /// When the last poll came, answered or not.
    pub last_poll: Timestamp,
    /// Whether it polls no longer.
    pub silent: bool,
    /// Whether it has not been told the newest listing.
    pub behind: bool,
    #[serde(skip)]
    told: Option<Answer>,
    /// Whether it was told a newer listing than the one that was read of the store: what is desired
    /// by that one says nothing of the answer.
    #[serde(skip)]
    further: bool,
}

/// Joins the parts row by row.
pub(super) struct Joiner<'a> {
    parts: &'a Parts<'a>,
    observation: &'a Observation,
    judge: Option<Judge>,
    shared: Shared,
}

/// What several rows say, once.
#[derive(Default)]
struct Shared {
    desired: HashSet<Arc<Desired>>,
    words: HashMap<Answer, Arc<str>>,
}

impl Shared {
    fn desired(&mut self, desired: Desired) -> Arc<Desired> {
        if let Some(known) = self.desired.get(&desired) {
            return Arc::clone(known);
        }
        let desired = Arc::new(desired);
        self.desired.insert(Arc::clone(&desired));
        desired
    }

    fn words(&mut self, answer: Answer) -> Arc<str> {
        let words = self.words.entry(answer);
        Arc::clone(words.or_insert_with(|| answer.words().into()))
    }
}

impl<'a> Joiner<'a> {
    pub(super) fn new(parts: &'a Parts<'a>, observation: &'a Observation) -> Self {
        Self {
            parts,
            observation,
            judge: parts.fleet.map(|fleet| fleet.judge(parts.now)),
            shared: Shared::default(),
        }
    }

    /// All rows that anybody knows, by server and node.
    pub(super) fn rows(mut self) -> Vec<Row> {
        let mut known = Vec::new();
        let fleet = self.parts.fleet.into_iter().flat_map(|fleet| &fleet.nodes);
        for (node, polled) in fleet {
            known.extend(polled.rows.iter().map(|(id, _)| (id, node)));
        }
        for (node, seen) in &self.observation.nodes {
            known.extend(seen.servers.keys().map(|id| (id, node)));
        }
        known.sort_unstable();
        known.dedup();
        let row = |(id, node): (&ServerId, &Name)| self.row(node, id);
        known.into_iter().map(row).collect()
    }

    fn row(&mut self, node: &Name, id: &ServerId) -> Row {
        let polled = self.parts.fleet.and_then(|fleet| fleet.nodes.get(node));
        let settings = self.parts.snapshot.map(|snapshot| &snapshot.settings);
        let listed = settings.and_then(|settings| settings.nodes.get(node));
        let zone = match polled {
            Some(polled) => polled.zones_now().next().cloned(),
            None => listed.and_then(|node| node.zone.clone()),
        };
        let served = polled
            .and_then(|node| node.rows.get(id))
            .zip(self.judge.as_ref())
            .map(|(row, judge)| {
                let words = row.told.map(|told| self.shared.words(told.answer));
                Served::new(&row, words, judge, self.parts.snapshot)
            });
        let seen = self.observation.nodes.get(node);
        let observed = seen.and_then(|node| node.servers.get(id));
        let zone_name = zone.as_ref().map(Name::as_str);
        let desired = self.parts.snapshot.and_then(|snapshot| {
            let place = (node, zone_name);
            Desired::of(snapshot, id, place, served.as_ref(), self.parts.now)
        });
        let role = listed.and_then(|node| node.role.as_ref());
        let known = settings.and_then(|settings| settings.rows.get(id));
        let configured_weight = known.map(|row| row.weight_on(role));
        Row {
            node: node.clone(),
            server: id.clone(),
            configured_weight,
            role: listed.and_then(|node| node.role.clone()),
            zone,
            canary: is_canary(id, settings),
            state: self.state(served.as_ref(), observed),
            not_converged: not_converged(desired.as_ref(), served.as_ref(), observed),
            desired: desired.map(|desired| self.shared.desired(desired)),
            served,
            observed: observed.cloned().map(Box::new),
        }
    }

    fn state(&self, served: Option<&Served>, observed: Option<&Observed>) -> Cow<'static, str> {
        match (observed, served.and_then(|served| served.told)) {
            (Some(observed), _) => observed.state(),
            (None, Some(Answer::State(state))) if !self.observation.was_asked() => {
                class(state).into()
            }
            (None, _) => UNKNOWN.into(),
        }
    }
}

impl Served {
    /// The last answer.
    pub(super) fn told(&self) -> Option<Answer> {
        self.told
    }

    /// The store may be further than the newest listing of any replica.
    fn new(
        row: &fleet::Row,
        words: Option<Arc<str>>,
        judge: &Judge,
        snapshot: Option<&Snapshot>,
    ) -> Self {
        let told = row.told.map(|told| told.version);
        let stored = snapshot.map(Version::of);
        let behind = |stored| told.is_none_or(|told| told < stored);
        Self {
            answer: words,
            index: row.told.map(|told| told.version.index),
            at: row.told.map(|told| told.at),
            last_poll: row.last,
            silent: judge.silent(row),
            behind: judge.behind(row) || stored.is_some_and(behind),
            further: told > stored,
            told: row.told.map(|told| told.answer),
        }
    }
}

impl Desired {
    /// What a node in a zone is answered for a server. `None` for a server that nothing is known
    /// to be said to: it never polled, the settings do not list it, and no key stands for it.
    fn of(
        snapshot: &Snapshot,
        id: &ServerId,
        (node, zone): (&Name, Option<&str>),
        served: Option<&Served>,
        now: Timestamp,
    ) -> Option<Self> {
        let (groups, known_from) = groups_of(snapshot, id, (node.as_str(), zone));
        let mut line = id.to_string();
        line.extend(groups.iter().map(|group| format!(" {group}")));
        line.extend(zone.map(|zone| format!(" zone={zone}")));
        let request = Request::parse(line.as_bytes()).ok()?;
        let decision = snapshot.decide(&request, node.as_str(), now);
        let guessed = known_from == Groups::Name;
        let told = served.filter(|served| !served.behind && !served.further);
        match told.and_then(|served| Some((followed(served.told?), served.at?))) {
            // The replica saw the groups that the poll named, and this listing.
            Some((told, at)) => {
                let then = snapshot.decide(&request, node.as_str(), at);
                let disputed = !same_state(told, followed(then.answer));
                if guessed && disputed {
                    return Some(Self::said(told));
                }
                let desired = Self::by(&decision, known_from);
                return Some(Self {
                    disputed,
                    ..desired
                });
            }
            None if guessed && served.is_none() && decision.winner.is_none() => return None,
            None => {}
        }
        Some(Self::by(&decision, known_from))
    }

    fn by(decision: &Decision<'_>, groups: Groups) -> Self {
        let placed = decision.winner;
        let directive = placed.map(|placed| placed.directive.as_ref());
        let author = directive.and_then(Result::ok).map(|d| &d.author);
        Self {
            answer: decision.answer.words(),
            path: placed.map(|placed| placed.path.clone()),
            by: author.and_then(|author| author.by.clone()),
            reason: author.and_then(|author| author.reason.clone()),
            since: directive.and_then(Result::ok).and_then(|d| d.since),
            error: directive.and_then(Result::err).cloned(),
            next_change: decision.until,
            groups,
            disputed: false,
            decided: decision.answer,
        }
    }

    fn said(answer: Answer) -> Self {
        Self {
            answer: answer.words(),
            path: None,
            by: None,
            reason: None,
            since: None,
            error: None,
            next_change: None,
            groups: Groups::Answer,
            disputed: false,
            decided: answer,
        }
    }
}

fn groups_of<'a>(
    snapshot: &'a Snapshot,
    id: &ServerId,
    (node, zone): (&str, Option<&str>),
) -> (Vec<&'a str>, Groups) {
    if let Some(row) = snapshot.settings.rows.get(id) {
        return (
            row.groups.iter().map(Name::as_str).collect(),
            Groups::Settings,
        );
    }
    let mut places = snapshot.places(About::Group(CANARY), zone, node);
    let canary = is_canary(id, None) && places.any(|place| place.placed.is_some());
    let groups = if canary { vec![CANARY] } else { Vec::new() };
    (groups, Groups::Name)
}

/// Why the three do not agree, the first reason that fits.
fn not_converged(
    desired: Option<&Desired>,
    served: Option<&Served>,
    observed: Option<&Observed>,
) -> Option<String> {
    let served = served?;
    let told = served.told.map(Answer::words);
    let told = told.as_deref().unwrap_or("nothing");
    if served.behind {
        return Some(format!("not told the newest listing, was told {told}"));
    }
    let desired = desired.filter(|desired| desired.groups != Groups::Answer && !served.further);
    let answer = served.told?;
    if desired.is_some_and(|desired| !same_state(desired.decided, followed(answer))) {
        return Some(format!("was told {told}"));
    }
    let observed = observed.filter(|observed| {
        observed.exactness == Exactness::Exact && Some(observed.at) > served.at
    })?;
    let follows = match answer {
        // A server may be down whatever it was told.
        Answer::State(State::Ready(_)) => !matches!(observed.class, Class::Drain | Class::Maint),
        Answer::State(State::Drain) => matches!(observed.class, Class::Drain | Class::Down),
        Answer::State(State::Maint) => observed.class == Class::Maint,
        // Nothing to follow.
        Answer::Shadow(_)
        | Answer::UnknownGroup
        | Answer::UnknownDirective
        | Answer::UnknownRequest => true,
    };
    (!follows).then(|| format!("was told {told}, and HAProxy has {}", observed.status))
}

/// A shadowed answer is compared as if it were followed.
fn followed(answer: Answer) -> Answer {
    match answer {
        Answer::Shadow(state) => Answer::State(state),
        Answer::State(_)
        | Answer::UnknownGroup
        | Answer::UnknownDirective
        | Answer::UnknownRequest => answer,
    }
}

/// Whether two answers ask for the same. A percentage may have been raised for a small weight, and
/// a ramp goes on between a poll and a look: any two of `ready` are the same.
fn same_state(one: Answer, other: Answer) -> bool {
    let ready = |answer| matches!(answer, Answer::State(State::Ready(_)));
    one == other || (ready(one) && ready(other))
}

const fn class(state: State) -> &'static str {
    match state {
        State::Ready(_) => Class::Up.as_str(),
        State::Drain => Class::Drain.as_str(),
        State::Maint => Class::Maint.as_str(),
    }
}

/// How many rows have each state.
pub(super) fn counts<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(&*row.state).or_default() += 1;
    }
    counts
}
