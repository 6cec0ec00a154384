//! Whether the running HAProxy is what the files say, and whether it asks.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::rules;
use super::scene::{Row, Scene, address};

/// One server of a running HAProxy, by `show servers state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningServer {
    /// Its configured weight: `srv_iweight`.
    pub weight: u16,
    /// `srv_agent_addr`; `None`: the server's own address.
    pub agent_address: Option<String>,
    /// `srv_agent_port`; 0 without one.
    pub agent_port: u16,
    /// Whether it has an agent check.
    pub has_agent: bool,
    /// Whether that is switched on: `disable agent` switches it off.
    pub agent_is_on: bool,
}

/// The servers of a running HAProxy, by `backend/server`.
pub type Running = BTreeMap<String, RunningServer>;

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    if let Some(running) = &scene.evidence.running {
        for row in scene.rows.iter().filter(|row| !row.server.is_template) {
            if let Some(server) = running.get(&row.id()) {
                compare(row, server, found);
            } else {
                let message = format!("HAProxy has no {}", row.id());
                found.add(&rules::RUNNING_MISSING, row.server.line, message);
            }
        }
        only_running(scene, running, found);
    }
    if let Some(polling) = &scene.evidence.polling {
        for row in scene.enrolled().filter(|row| !polling.contains(&row.id())) {
            let message = format!("{} does not poll", row.id());
            found.add(&rules::NOT_POLLING, row.server.line, message);
        }
    }
}

fn compare(row: &Row<'_>, running: &RunningServer, found: &mut Findings) {
    let (options, line, id) = (row.options(), row.server.line, row.id());
    if running.weight != options.weight() {
        let message = format!("{id} has weight {} there", running.weight);
        found.add(&rules::RUNNING_WEIGHT, line, message);
    }
    if running.has_agent != row.server.has_agent() {
        let what = if running.has_agent { "an" } else { "no" };
        let message = format!("{id} asks {what} agent there");
        found.add(&rules::RUNNING_AGENT, line, message);
        return;
    }
    if !running.has_agent {
        return;
    }
    if !running.agent_is_on {
        let message = format!("the agent check of {id} is switched off");
        found.add(&rules::RUNNING_DISABLED, line, message);
    }
    let given = options
        .agent_addr
        .as_ref()
        .map(|given| given.value.as_str());
    // A name is found elsewhere; what it stood for at the start is not known.
    let other_address = match (given.map(address), &running.agent_address) {
        (Some(None), _) | (None, None) => false,
        (Some(Some(own)), Some(there)) => address(there) != Some(own),
        (Some(Some(_)), None) | (None, Some(_)) => true,
    };
    let port = options
        .agent_port
        .as_ref()
        .and_then(|given| given.value.parse::<u16>().ok());
    if other_address || port.is_some_and(|port| port != running.agent_port) {
        let there = running
            .agent_address
            .as_deref()
            .unwrap_or("its own address");
        let message = format!("{id} asks {there} port {} there", running.agent_port);
        found.add(&rules::RUNNING_AGENT, line, message);
    }
}

/// Servers that no file has. Those of a template are called as it says.
fn only_running(scene: &Scene<'_>, running: &Running, found: &mut Findings) {
    let known: BTreeSet<String> = scene.rows.iter().map(Row::id).collect();
    let templates = scene.rows.iter().filter(|row| row.server.is_template);
    let templates: BTreeSet<String> = templates.map(Row::id).collect();
    let whole = scene.configuration.global.line.unwrap_or(0);
    for id in running.keys().filter(|id| !known.contains(*id)) {
        let prefixes = id.char_indices().map(|(at, _)| &id[..at]);
        if !prefixes
            .into_iter()
            .any(|prefix| templates.contains(prefix))
        {
            let message = format!("HAProxy has {id}, and the files do not");
            found.add(&rules::RUNNING_MISSING, whole, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::haproxy::lint::{Evidence, Readings};
    use crate::domain::haproxy::reading::{File, Setting};

    fn server() -> RunningServer {
        RunningServer {
            weight: 100,
            agent_address: Some("10.0.0.1".to_owned()),
            agent_port: 8790,
            has_agent: true,
            agent_is_on: true,
        }
    }

    fn check(change: impl FnOnce(&mut Running), expected: &[&str]) {
        let text = "backend web\n server a 1.1.1.1 weight 100 agent-check agent-addr 10.0.0.1 \
                    agent-port 8790 agent-send \"web/a\\n\"\n server-template t 3 x.y:1\n";
        let files = [File {
            name: "a".to_owned(),
            bytes: text.as_bytes().to_vec(),
        }];
        let mut running = Running::from([
            ("web/a".to_owned(), server()),
            ("web/t1".to_owned(), server()),
        ]);
        change(&mut running);
        let evidence = Evidence {
            running: Some(running),
            ..Evidence::default()
        };
        let report = Readings::of(&files, &Setting::default())
            .unwrap()
            .judge(&evidence);
        let found = report.findings.iter().map(|finding| finding.rule.id);
        let found: Vec<_> = found.filter(|id| id.starts_with("running")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_runs_otherwise_than_the_files_say_is_found() {
        check(|_| {}, &[]);
        check(|all| change(all, |a| a.weight = 1), &["running-weight"]);
        check(|all| change(all, |a| a.agent_port = 1), &["running-agent"]);
        check(
            |all| change(all, |a| a.agent_address = None),
            &["running-agent"],
        );
        check(
            |all| change(all, |a| a.has_agent = false),
            &["running-agent"],
        );
        check(
            |all| change(all, |a| a.agent_is_on = false),
            &["running-agent-disabled"],
        );
        check(|all| drop(all.remove("web/a")), &["running-missing"]);
        check(
            |all| drop(all.insert("web/b".to_owned(), server())),
            &["running-missing"],
        );
    }

    fn change(all: &mut Running, change: impl FnOnce(&mut RunningServer)) {
        change(all.get_mut("web/a").unwrap());
    }
}
