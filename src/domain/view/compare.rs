//! Shadow mode beside what HAProxy has: what would change if it followed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::View;
use super::row::{Groups, Row};
use super::table::{ago, names};
use crate::domain::answer::{Answer, Percent, State};
use crate::domain::columns::aligned;
use crate::domain::name::{Name, ServerId};
use crate::domain::observed::{Class, Exactness, Missing, Observed};

const HEAD: [&str; 6] = [
    "NODE", "SERVER", "DESIRED", "WOULD BE", "HAPROXY", "VERDICT",
];

/// Shadow mode beside what HAProxy has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compare {
    /// Whether some row is in shadow mode, and all that are may be switched.
    pub ready: bool,
    /// What could not be had.
    pub missing: Vec<Missing>,
    /// The nodes of which some row asks, or HAProxy says that it does.
    pub nodes: Vec<ComparedNode>,
    /// Nodes of which no row asks: they are not compared.
    pub not_asking: Vec<Name>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedNode {
    /// Its name.
    pub node: Name,
    /// Whether some row is in shadow mode, and none hinders the switch.
    pub ready: bool,
    /// How many rows are in shadow mode.
    pub shadow: usize,
    /// How many follow already.
    pub following: usize,
    /// How many neither ask nor are known to the settings.
    pub outside: usize,
    /// The rows, without those outside.
    pub rows: Vec<Compared>,
}

/// One server of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The server.
    pub server: ServerId,
    /// What is asked for.
    pub desired: Option<String>,
    /// What it would have become by the last answer in shadow mode.
    pub would_be: Option<String>,
    /// What HAProxy has.
    pub actual: Option<String>,
    /// What that means.
    pub verdict: Verdict,
    /// Why it hinders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a comparison of a row means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing would change.
    Same,
    /// It follows already.
    Follows,
    /// Following would change it.
    Differs,
    /// It cannot be told.
    Unknown,
}

impl Compare {
    /// Compares the rows of a view. `max_age`: the oldest word of HAProxy that still counts.
    #[must_use]
    pub fn new(view: &View, max_age: Duration) -> Self {
        let mut of_nodes = BTreeMap::<_, Vec<&Row>>::new();
        for row in &view.rows {
            of_nodes.entry(&row.node).or_default().push(row);
        }
        let (mut nodes, mut not_asking) = (Vec::new(), Vec::new());
        for (name, rows) in of_nodes {
            if rows.iter().all(|row| !asks(row)) {
                not_asking.push(name.clone());
            } else {
                nodes.push(ComparedNode::new(name, &rows, &Looking { view, max_age }));
            }
        }
        let in_shadow = || nodes.iter().filter(|node| node.shadow > 0);
        let hinders = |node: &ComparedNode| !node.ready && (node.shadow > 0 || node.hinders());
        Self {
            ready: in_shadow().count() > 0 && !nodes.iter().any(hinders),
            missing: view.missing.clone(),
            nodes,
            not_asking,
        }
    }

    /// How many rows hinder the switch.
    #[must_use]
    pub fn hindering(&self) -> usize {
        let rows = self.nodes.iter().flat_map(|node| &node.rows);
        rows.filter(|row| row.verdict.hinders()).count()
    }
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Follows => "follows",
            Self::Differs => "differs",
            Self::Unknown => "unknown",
        }
    }

    const fn hinders(self) -> bool {
        match self {
            Self::Same | Self::Follows => false,
            Self::Differs | Self::Unknown => true,
        }
    }
}

/// What rows are looked at with.
struct Looking<'a> {
    view: &'a View,
    max_age: Duration,
}

impl ComparedNode {
    fn new(name: &Name, rows: &[&Row], looking: &Looking<'_>) -> Self {
        let compared = rows.iter().filter(|row| counts(row));
        let compared: Vec<_> = compared.map(|row| looking.compare(row)).collect();
        let of = |wanted: fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count();
        let shadow = of(|row| matches!(told(row), Some(Answer::Shadow(_))));
        let mut node = Self {
            node: name.clone(),
            ready: false,
            shadow,
            following: compared
                .iter()
                .filter(|row| row.verdict == Verdict::Follows)
                .count(),
            outside: rows.len() - compared.len(),
            rows: compared,
        };
        node.ready = shadow > 0 && !node.hinders();
        node
    }

    fn hinders(&self) -> bool {
        self.rows.iter().any(|row| row.verdict.hinders())
    }
}

impl Looking<'_> {
    fn compare(&self, row: &Row) -> Compared {
        let verdict = self.verdict(row);
        let (verdict, why) = match verdict {
            Ok(verdict) => (verdict, None),
            Err((verdict, why)) => (verdict, Some(why)),
        };
        let would_be = told(row).and_then(|answer| match answer {
            Answer::Shadow(state) => Some(Answer::State(state).words()),
            Answer::State(_)
            | Answer::UnknownGroup
            | Answer::UnknownDirective
            | Answer::UnknownRequest => None,
        });
        Compared {
            server: row.server.clone(),
            desired: row.desired.as_ref().map(|desired| desired.answer.clone()),
            would_be,
            actual: row.observed.as_deref().map(shown),
            verdict,
            why,
        }
    }

    fn verdict(&self, row: &Row) -> Result<Verdict, (Verdict, String)> {
        let unknown = |why: String| Err((Verdict::Unknown, why));
        let Some(served) = &row.served else {
            return unknown("it does not ask".to_owned());
        };
        if served.silent {
            return unknown(format!(
                "it asked last {}",
                ago(served.last_poll, self.view.at)
            ));
        }
        let state = match served.told() {
            None => return unknown("it was never answered".to_owned()),
            Some(Answer::State(_)) => return Ok(Verdict::Follows),
            Some(Answer::Shadow(state)) => state,
            Some(
                other @ (Answer::UnknownGroup | Answer::UnknownDirective | Answer::UnknownRequest),
            ) => {
                return unknown(format!("it is told {}", other.words()));
            }
        };
        if row.desired.is_none() {
            return unknown("what is desired is not known".to_owned());
        }
        if let Some(why) = &row.not_converged {
            return unknown(format!("it {why}"));
        }
        let Some(observed) = &row.observed else {
            return unknown("what HAProxy has is not known".to_owned());
        };
        let age = Duration::try_from(self.view.at.duration_since(observed.at));
        if age.unwrap_or(Duration::ZERO) > self.max_age {
            return unknown(format!(
                "HAProxy's word is of {}",
                ago(observed.at, self.view.at)
            ));
        }
        if observed.exactness == Exactness::UpOrNot {
            return unknown("there is no haproxy_server_status of it".to_owned());
        }
        beside(row, state, observed)
    }
}

/// What it would be beside what it is.
fn beside(row: &Row, state: State, observed: &Observed) -> Result<Verdict, (Verdict, String)> {
    let differs = |why: String| Err((Verdict::Differs, why));
    let would = Answer::State(state).words();
    match (state, observed.class) {
        (_, Class::Down | Class::Other) => {
            let why = format!(
                "of a server that is {} nobody sees whether it drains",
                observed.status
            );
            Err((Verdict::Unknown, why))
        }
        (State::Drain, Class::Drain) | (State::Maint, Class::Maint) => Ok(Verdict::Same),
        (State::Ready(percent), Class::Up | Class::NoCheck | Class::Blank) => {
            weights(row, percent, observed)
        }
        (State::Ready(_), Class::Drain | Class::Maint)
        | (State::Drain, Class::Up | Class::NoCheck | Class::Blank | Class::Maint)
        | (State::Maint, Class::Up | Class::NoCheck | Class::Blank | Class::Drain) => {
            differs(format!("it would go from {} to {would}", observed.status))
        }
    }
}

/// HAProxy rounds down. Without a known configured weight nothing can be said: the one that is seen
/// may have been set by a socket.
fn weights(row: &Row, percent: Percent, observed: &Observed) -> Result<Verdict, (Verdict, String)> {
    let unknown = |why: &str| Err((Verdict::Unknown, why.to_owned()));
    let Some(weight) = observed.weight else {
        return unknown("its weight is not known");
    };
    let Some(configured) = row.configured_weight else {
        return unknown("its configured weight is not known: no row of the settings says it");
    };
    let expected = u32::from(configured) * u32::from(percent.get()) / 100;
    if weight == expected {
        return Ok(Verdict::Same);
    }
    let why = format!("its weight would go from {weight} to {expected}");
    Err((Verdict::Differs, why))
}

/// Whether a row is of those that ask, or shall.
fn counts(row: &Row) -> bool {
    let listed = row
        .desired
        .as_ref()
        .is_some_and(|desired| desired.groups == Groups::Settings);
    asks(row) || listed
}

/// By its polls, or by the words of its agent.
fn asks(row: &Row) -> bool {
    let has_agent = row
        .observed
        .as_ref()
        .is_some_and(|observed| observed.last_agt.is_some());
    row.served.is_some() || has_agent
}

fn told(row: &Row) -> Option<Answer> {
    row.served.as_ref()?.told()
}

fn shown(observed: &Observed) -> String {
    match observed.weight {
        Some(weight) => format!("{} at weight {weight}", observed.status),
        None => observed.status.clone(),
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let rows = self
            .nodes
            .iter()
            .flat_map(|node| node.rows.iter().map(move |row| (node, row)));
        let line = |(node, row): (&ComparedNode, &Compared)| {
            let verdict = match &row.why {
                Some(why) => format!("{}: {why}", row.verdict.as_str()),
                None => row.verdict.as_str().to_owned(),
            };
            [
                node.node.to_string(),
                row.server.to_string(),
                dash(&row.desired),
                dash(&row.would_be),
                dash(&row.actual),
                verdict,
            ]
        };
        let lines: Vec<_> = rows.map(line).collect();
        if !lines.is_empty() {
            writeln!(f, "{}", aligned(HEAD, &lines))?;
        }
        for missing in &self.missing {
            writeln!(f, "missing  {}: {}", missing.what, missing.why)?;
        }
        for node in &self.nodes {
            let ComparedNode {
                node: name,
                ready,
                shadow,
                following,
                outside,
                ..
            } = node;
            let verdict = match (ready, node.hinders(), *shadow) {
                (true, ..) => "ready to switch",
                (false, false, 0) => "follows already",
                (false, ..) => "not ready",
            };
            writeln!(
                f,
                "{name}: {verdict}: {shadow} rows in shadow, {following} follow, {outside} outside"
            )?;
        }
        if !self.not_asking.is_empty() {
            let all = names(self.not_asking.iter().map(Name::as_str));
            writeln!(f, "not compared, since no row of them asks: {all}")?;
        }
        Ok(())
    }
}
