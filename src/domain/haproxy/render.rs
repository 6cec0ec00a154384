//! Files with the agent checks put in, changed, or taken out; all else stays byte for byte.
//!
//! A later word of a server line replaces an earlier one, so words are put in behind those that are
//! there and nothing is overwritten: taken out again they leave the file as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use thiserror::Error;

use super::lint::{
    Evidence, Finding, Readings, Report, Row, Scene, Severity, TooManyReadings, rules,
};
use super::reading::{File, Reading, Setting};
use crate::domain::key::CANARY;
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::Settings;
use crate::domain::view::is_canary;

pub use self::agent_words::{AgentWords, RequestText, Value};

mod agent_words;
mod edit;
mod enrol;
mod start;
mod strip;

/// The variable that holds the node's name in every HAProxy.
const LOCAL_PEER: &str = "HAPROXY_LOCALPEER";
/// The weight at which each percent is a step of its own.
pub const BASE_DEFAULT: u16 = 100;

/// Whether HAProxy asks about a server, and follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It does not ask.
    Off,
    /// It asks and shows the answer, and does not follow.
    Shadow,
    /// It follows.
    On,
}

/// What is to become of which servers.
#[derive(Debug, Clone, Default)]
pub struct Wish<'a> {
    /// What becomes of every backend; `None`: of those only that are named.
    pub all: Option<Mode>,
    /// What becomes of single backends.
    pub backends: BTreeMap<String, Mode>,
    /// How they ask.
    pub asking: Asking,
    /// The groups of known servers. With it only the servers that it lists are enrolled.
    pub settings: Option<&'a Settings>,
}

/// How servers ask. What is not given stays as the file has it, or is the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asking {
    /// Who is asked.
    pub agent: Option<SocketAddr>,
    /// The interval between two agent checks, in milliseconds.
    pub inter_ms: Option<u64>,
    /// The groups of all servers that are rendered.
    pub groups: Option<Vec<Name>>,
    /// The node that asks; by default `${HAPROXY_LOCALPEER}`.
    pub node: Option<Value>,
    /// The zone that it stands in; by default none.
    pub zone: Option<Value>,
    /// The weight that servers get whose backend has one smaller weight for all, 1 to 256; by
    /// default [`BASE_DEFAULT`].
    pub base: Option<u16>,
}

/// Files, rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The files, in their order.
    pub files: Vec<File>,
    /// The servers that it was about, as `backend/server`.
    pub servers: BTreeSet<String>,
    /// What was left as it is, or goes on in maintenance, and why.
    pub remarks: BTreeSet<String>,
    /// What lint finds that it did not find before.
    pub findings: Vec<Finding>,
}

/// Why nothing was rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenderError {
    /// See [`TooManyReadings`].
    #[error(transparent)]
    TooManyReadings(#[from] TooManyReadings),
    /// HAProxy refuses the files as they are.
    #[error("HAProxy refuses the files as they are: {0}")]
    Fault(String),
    /// A backend that is not there.
    #[error("no backend is called {0:?}")]
    NoBackend(String),
    /// Nothing that it is about.
    #[error("no server is selected")]
    NoServer,
    /// A server that asks nobody yet.
    #[error("{0} asks nobody yet: say whom it shall ask (--agent ADDRESS:PORT)")]
    NoAgent(String),
    /// What a server asks with, and what can be neither kept nor left out.
    #[error(
        "{0} asks with {1:?}, which is neither a name nor one variable: say it by --node or --zone"
    )]
    Unkept(String, String),
    /// A line that would be another one, by a condition that cannot be judged.
    #[error("{0} would be rendered in two ways, by a condition (.if) that cannot be judged here")]
    Ambiguous(String),
    /// What lint would find.
    #[error("lint refuses what would be rendered")]
    Lint(Vec<Finding>),
}

impl Wish<'_> {
    fn mode(&self, row: &Row<'_>) -> Option<Mode> {
        let backend = self.backends.get(&row.proxy.name).copied();
        let mode = backend.or(self.all)?;
        let is_listed = |settings: &Settings| {
            let id = ServerId::parse(&row.id());
            id.is_ok_and(|id| settings.rows.contains_key(&id))
        };
        let counts = mode == Mode::Off || self.settings.is_none_or(is_listed);
        counts.then_some(mode)
    }
}

/// Renders files.
///
/// # Errors
/// See [`RenderError`].
pub fn render(files: &[File], setting: &Setting, wish: &Wish<'_>) -> Result<Rendered, RenderError> {
    let (read, before) = judged(files, setting)?;
    if let Some(fault) = fault(&read) {
        return Err(RenderError::Fault(fault));
    }
    let stripped = strip::strip(&read, wish)?;
    let (read, _) = judged(&stripped.files, setting)?;
    let enrolled = enrol::enrol(&read, wish, &stripped.known)?;
    let (read, after) = judged(&enrolled.files, setting)?;
    let (errors, findings) = new(&before, after);
    if !errors.is_empty() {
        return Err(RenderError::Lint(errors));
    }
    let mut remarks = enrolled.remarks;
    remarks.extend(stripped.remarks);
    remarks.extend(stay_in_maintenance(&read, wish));
    Ok(Rendered {
        servers: stripped.servers,
        remarks,
        findings,
        files: enrolled.files,
    })
}

/// The words of one server, without a file.
#[must_use]
pub fn row(server: ServerId, mode: Mode, agent: SocketAddr, wish: &Wish<'_>) -> Option<AgentWords> {
    if mode == Mode::Off {
        return None;
    }
    let asking = &wish.asking;
    let groups = groups(&server, wish, None);
    let is_of_canary = is_canary(&server, wish.settings) || groups.iter().any(is_the_canary);
    let base = asking.base.unwrap_or(BASE_DEFAULT);
    Some(AgentWords {
        request: RequestText {
            server,
            groups,
            node: asking.node.clone().unwrap_or_else(local_peer),
            zone: asking.zone.clone(),
            base: Some(base),
            mode,
        },
        agent,
        inter_ms: asking
            .inter_ms
            .unwrap_or(super::server::AGENT_INTER_MS_DEFAULT),
        weight: Some(base),
        disabled: mode == Mode::On && is_of_canary,
    })
}

/// What is asked for, then what the settings say, then what it asked before, then what its name
/// says.
fn groups(id: &ServerId, wish: &Wish<'_>, before: Option<&Vec<Name>>) -> Vec<Name> {
    let of_settings = || {
        let row = wish.settings?.rows.get(id)?;
        Some(row.groups.clone())
    };
    let of_name = || {
        let canary = || Name::parse(CANARY).expect("the canary's name is a name");
        is_canary(id, None).then(canary).into_iter().collect()
    };
    let given = wish.asking.groups.clone().or_else(of_settings);
    given.or_else(|| before.cloned()).unwrap_or_else(of_name)
}

fn is_the_canary(group: &Name) -> bool {
    group.as_str() == CANARY
}

fn local_peer() -> Value {
    Value::Variable(LOCAL_PEER.to_owned(), None)
}

fn judged<'a>(
    files: &'a [File],
    setting: &Setting,
) -> Result<(Readings<'a>, Report), TooManyReadings> {
    let readings = Readings::of(files, setting)?;
    let evidence = Evidence {
        version: setting.version,
        ..Evidence::default()
    };
    let report = readings.judge(&evidence);
    Ok((readings, report))
}

fn fault(readings: &Readings<'_>) -> Option<String> {
    readings.all.iter().find_map(|(reading, configuration)| {
        let fault = reading.faults.iter().chain(&configuration.faults).next()?;
        Some(format!("{}: {}", reading.place(fault.line), fault.what))
    })
}

/// Errors, and what else stands against the files, that did not before. Lines have moved.
fn new(before: &Report, after: Report) -> (Vec<Finding>, Vec<Finding>) {
    let known: BTreeSet<_> = before
        .findings
        .iter()
        .map(|f| (f.rule.id, &f.message))
        .collect();
    let is_new = |finding: &Finding| !known.contains(&(finding.rule.id, &finding.message));
    let new = after
        .findings
        .into_iter()
        .filter(|finding| finding.rule.severity != Severity::Note && is_new(finding));
    // Words that were left over before somebody asked stand again when nobody does.
    let is_refused = |finding: &Finding| {
        finding.rule.severity == Severity::Error && *finding.rule != rules::CHECK_MISSING
    };
    new.partition(is_refused)
}

/// Servers that nobody brings out of maintenance.
fn stay_in_maintenance(readings: &Readings<'_>, wish: &Wish<'_>) -> BTreeSet<String> {
    let mut remarks = BTreeSet::new();
    for (reading, configuration) in &readings.all {
        let evidence = Evidence::default();
        for row in Scene::new(reading, configuration, &evidence).rows {
            let mode = wish.mode(&row);
            let is_alone = matches!(mode, Some(Mode::Off | Mode::Shadow));
            if let Some(disabled) = row.options().disabled.as_ref()
                && disabled.value
                && is_alone
            {
                remarks.insert(format!(
                    "{} is disabled by {}, and no agent brings it out of maintenance",
                    row.id(),
                    reading.place(disabled.line)
                ));
            }
        }
    }
    remarks
}

/// Changes of all readings, which must agree.
fn agreed<'r, 'a>(
    readings: &'r Readings<'a>,
    mut of_one: impl FnMut(&'r Reading<'a>, &Scene<'_>) -> Result<edit::Edits, RenderError>,
) -> Result<Vec<File>, RenderError> {
    let mut all: Option<edit::Edits> = None;
    let evidence = Evidence::default();
    for (reading, configuration) in &readings.all {
        let scene = Scene::new(reading, configuration, &evidence);
        let edits = of_one(reading, &scene)?;
        let Some(known) = &mut all else {
            all = Some(edits);
            continue;
        };
        for (line, edit) in edits.0 {
            if known.0.get(&line).is_some_and(|other| *other != edit) {
                return Err(RenderError::Ambiguous(reading.place(line)));
            }
            known.0.insert(line, edit);
        }
    }
    let (reading, _) = readings.all.first().expect("at least one way to read them");
    Ok(all.unwrap_or_default().apply(reading))
}

#[cfg(test)]
mod tests;
