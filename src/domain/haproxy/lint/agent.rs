//! Whom HAProxy asks, how often, and how long it waits.

use super::Findings;
use super::rules;
use super::scene::{OneBackend, Row, Scene, address};
use crate::domain::haproxy::configuration::Proxy;
use crate::domain::haproxy::version::Version;

/// The shortest interval that leaves an answer time, in milliseconds.
const INTER_MS_MIN: u64 = 250;
/// The shortest time for an answer, in milliseconds: a lost packet costs as much.
const TIMEOUT_MS_MIN: u64 = 200;

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    for row in &scene.rows {
        empty_word(scene, row, found);
        if row.server.has_agent() {
            target(row, found);
            pace(row, found);
            beside(row, found);
        } else {
            left_over(row, found);
        }
    }
    for OneBackend {
        proxy, enrolled, ..
    } in scene.enrolled_backends()
    {
        let inters = enrolled.iter().map(|row| row.options().agent_inter_ms());
        timeout(
            proxy,
            inters.min().unwrap_or(0),
            scene.evidence.version,
            found,
        );
    }
}

fn empty_word(scene: &Scene<'_>, row: &Row<'_>, found: &mut Findings) {
    for at in [
        Some(row.server.line),
        row.options().agent_send.as_ref().map(|send| send.line),
    ] {
        let Some(line) = at.and_then(|at| scene.reading.lines.get(at)) else {
            continue;
        };
        let ignored = &line.words[line.arguments().len()..];
        let ignored = ignored.iter().find(|word| !word.text.is_empty());
        let unset = line
            .variables
            .iter()
            .find(|variable| variable.is_unset_at_end);
        if let (Some(at), Some(variable)) = (at, unset) {
            let message = format!("the variable {} is not set", variable.name);
            found.add(&rules::EMPTY_WORD, at, message);
        } else if let (Some(at), Some(first)) = (at, ignored) {
            let message = format!("{:?} and what follows is ignored", first.text);
            found.add(&rules::EMPTY_WORD, at, message);
        }
    }
}

fn target(row: &Row<'_>, found: &mut Findings) {
    let (options, id) = (row.options(), row.id());
    match options.agent_addr.as_ref().or(options.addr.as_ref()) {
        None => {
            let message = format!("{id} has no agent-addr");
            found.add(&rules::ADDR_MISSING, row.server.line, message);
        }
        Some(given) if address(&given.value).is_none() => {
            let message = format!("{:?} is no address", given.value);
            found.add(&rules::ADDR_NAME, given.line, message);
        }
        Some(_) => {}
    }
    if let Some(given) = &options.agent_port {
        let port = given.value.parse::<u16>().ok().filter(|port| *port > 0);
        if port.is_none() {
            let message = format!("{:?} is no port", given.value);
            found.add(&rules::PORT_RANGE, given.line, message);
        }
    }
}

fn pace(row: &Row<'_>, found: &mut Findings) {
    match (&row.options().agent_inter, &row.options().check_interval) {
        (Some(inter), _) if inter.value < INTER_MS_MIN => {
            let message = format!("each {} ms", inter.value);
            found.add(&rules::INTER_SHORT, inter.line, message);
        }
        (None, Some(interval)) => {
            let message = format!("{} is given, and no agent-inter", interval.value);
            found.add(&rules::INTER_MISSING, interval.line, message);
        }
        (Some(_) | None, _) => {}
    }
}

fn beside(row: &Row<'_>, found: &mut Findings) {
    let (options, id) = (row.options(), row.id());
    let has_check = options.check.as_ref().is_some_and(|check| check.value);
    if !has_check && options.track.is_none() {
        let message = format!("{id} has no check");
        found.add(&rules::NO_CHECK, row.server.line, message);
    }
    let is_near = row
        .agent_address()
        .is_some_and(|address| address.is_loopback());
    if let Some(secured) = options.secured.as_ref().filter(|_| !is_near) {
        let message = format!("{} does not count for the agent", secured.value);
        found.add(&rules::CLEAR_TEXT, secured.line, message);
    }
}

/// Words that only an agent check gives a meaning, on the line itself: in a `default-server` they
/// are for those that have one.
fn left_over(row: &Row<'_>, found: &mut Findings) {
    let (options, line) = (row.options(), row.server.line);
    if options.agent_check.is_some() {
        return;
    }
    let text = [
        ("agent-send", options.agent_send.as_ref()),
        ("agent-addr", options.agent_addr.as_ref()),
        ("agent-port", options.agent_port.as_ref()),
    ];
    let mut words = text
        .iter()
        .filter(|(_, given)| given.is_some_and(|given| given.line == line));
    let inter = options
        .agent_inter
        .as_ref()
        .is_some_and(|given| given.line == line);
    let word = words.next().map(|(word, _)| *word);
    if let Some(word) = word.or(inter.then_some("agent-inter")) {
        let message = format!("{} has {word} and no agent-check", row.id());
        found.add(&rules::CHECK_MISSING, line, message);
    }
}

fn timeout(proxy: &Proxy, inter_ms: u64, version: Option<Version>, found: &mut Findings) {
    let Some(timeout) = &proxy.common.timeout_check else {
        return;
    };
    let message = format!(
        "timeout check {} ms, agent-inter {inter_ms} ms",
        timeout.value
    );
    if timeout.value > inter_ms {
        found.add(&rules::TIMEOUT_LONG, timeout.line, message);
    } else if timeout.value < TIMEOUT_MS_MIN {
        found.add(&rules::TIMEOUT_SHORT, timeout.line, message);
    } else if timeout.value < inter_ms && version.is_some_and(lacks_fixes) {
        found.add(&rules::TIMEOUT_IGNORED, timeout.line, message);
    }
}

/// The releases that were measured without the fixes 57b526e02 and 7c788f098.
pub(super) fn lacks_fixes(version: Version) -> bool {
    let last = match version.branch {
        (2, 6) => 12,
        (3, 0) => 11,
        _ => return false,
    };
    version.release.is_some_and(|release| release <= last)
}
