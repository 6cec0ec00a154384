//! A change in one line: `Canary set to drain`, as it always stood in the index of events.

use std::collections::BTreeMap;

use crate::domain::answer::{Percent, State};
use crate::domain::deploy::Deploy;
use crate::domain::directive::{Desired, Directive};
use crate::domain::history::{Changed, Value};
use crate::domain::key::{CANARY, DirectiveKey, Key, Scope, Target};
use crate::domain::migration::SocketChange;
use crate::domain::ramp::{By, Ramp};

/// How many targets are named, and how many different things are said.
const NAMED_MAX: usize = 5;

/// What became of these keys; what became of several alike is said once.
pub(super) fn of(changed: &[Changed]) -> String {
    let mut said = BTreeMap::<String, Vec<String>>::new();
    for changed in changed {
        let (subject, verb) = said_of(changed);
        said.entry(verb).or_default().push(subject);
    }
    sentence(said)
}

/// One clause for each verb.
fn sentence(said: BTreeMap<String, Vec<String>>) -> String {
    let more = said.len().saturating_sub(NAMED_MAX);
    let clauses = said.into_iter().take(NAMED_MAX);
    let mut clauses: Vec<_> = clauses
        .map(|(verb, subjects)| format!("{} {verb}", listed(&subjects)))
        .collect();
    if more > 0 {
        clauses.push(format!("and {more} other changes"));
    }
    clauses.join("; ")
}

/// What became of rows that no key says anything about.
pub(super) fn by_sockets(sockets: &[SocketChange]) -> String {
    let mut said = BTreeMap::<String, Vec<String>>::new();
    for change in sockets {
        let verb = format!("set to {} by stats socket", change.after);
        let subjects = said.entry(verb).or_default();
        subjects.push(format!("{} on {}", change.server, change.node));
    }
    sentence(said)
}

fn said_of(changed: &Changed) -> (String, String) {
    match Key::parse(&changed.path) {
        Key::Directive(key) => (subject(&key.target), verb(&key, changed.after.as_ref())),
        Key::Deploy(stage) => (format!("Deploy of {stage}"), deploy(changed.after.as_ref())),
        Key::Settings => ("Settings".to_owned(), "changed".to_owned()),
        Key::Meta | Key::Folder | Key::Unknown => (changed.path.clone(), "changed".to_owned()),
    }
}

fn subject(target: &Target) -> String {
    match target {
        Target::Group(group) if group.as_str() == CANARY => "Canary".to_owned(),
        Target::Group(group) => format!("Group {group}"),
        Target::Server(id) => id.to_string(),
    }
}

fn verb(key: &DirectiveKey, after: Option<&Value>) -> String {
    let scope = match &key.scope {
        Scope::Fleet => String::new(),
        Scope::Zone(zone) => format!(" on the nodes of zone {zone}"),
        Scope::Node(node) => format!(" on node {node}"),
    };
    match after.map(|value| Directive::parse(&value.0)) {
        None => format!("cleared{scope}"),
        Some(Ok(directive)) => format!("set to {}{scope}", words(&directive)),
        Some(Err(_)) => format!("set to what cannot be read{scope}"),
    }
}

/// The state as today's events have it, and what was added to it.
fn words(directive: &Directive) -> String {
    let mut words = match &directive.desired {
        Desired::Drain => "drain".to_owned(),
        Desired::Maint => "maint".to_owned(),
        Desired::Ready { weight, ramp } => {
            let mut words = ready(*weight);
            if let Some(ramp) = ramp {
                words += &slowly(ramp);
            }
            words
        }
    };
    if let Some(plan) = directive.then {
        let after = humantime::format_duration(plan.after);
        let state = match plan.state {
            State::Ready(weight) => ready(weight),
            State::Drain => "drain".to_owned(),
            State::Maint => "maint".to_owned(),
        };
        words += &format!(", {state} after {after}");
    }
    words
}

fn ready(weight: Percent) -> String {
    if weight == Percent::FULL {
        "ready".to_owned()
    } else {
        format!("ready at {}%", weight.get())
    }
}

fn slowly(ramp: &Ramp) -> String {
    let by = match ramp.by {
        By::Weight => "weight",
        By::Nodes(_) => "nodes",
    };
    let steps: Vec<_> = ramp
        .steps
        .iter()
        .map(|step| step.get().to_string())
        .collect();
    let steps = steps.join(", ");
    match ramp.every {
        Some(every) => {
            let every = humantime::format_duration(every);
            format!(" by {by} ({steps}%, every {every})")
        }
        None => format!(" by {by} (held at {steps}%)"),
    }
}

fn deploy(after: Option<&Value>) -> String {
    match after.map(|value| Deploy::parse(&value.0)) {
        Some(Ok(deploy)) if deploy.active => "started".to_owned(),
        Some(Ok(_)) | None => "finished".to_owned(),
        Some(Err(_)) => "changed".to_owned(),
    }
}

fn listed(subjects: &[String]) -> String {
    let more = subjects.len().saturating_sub(NAMED_MAX);
    let mut text = subjects[..subjects.len() - more].join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}
