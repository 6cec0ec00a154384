//! What happens at a start or reload, and what a version of HAProxy lacks.

use super::Findings;
use super::agent::lacks_fixes;
use super::rules;
use super::scene::{OneBackend, Scene};

/// The longest window after a start that loses no more than a few requests, in milliseconds.
pub(in crate::domain::haproxy) const WINDOW_MS_MAX: u64 = 300;
/// The first branch whose agents cannot override a failed health check.
const BRANCH_MIN: (u16, u16) = (2, 4);

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    let Some(first) = scene.enrolled().next() else {
        return;
    };
    let whole = scene.configuration.global.line.unwrap_or(first.server.line);
    window(scene, whole, found);
    for row in scene.enrolled() {
        if let Some(given) = row.options().disabled.as_ref().filter(|given| given.value)
            && !row.is_canary()
        {
            let message = format!("{} is disabled and no canary", row.id());
            found.add(&rules::DISABLED, given.line, message);
        }
        let init_state = row.options().init_state.as_ref();
        if let Some(given) = init_state.filter(|given| given.value != "none") {
            let message = format!("init-state {}", given.value);
            found.add(&rules::INIT_STATE, given.line, message);
        }
    }
    for OneBackend { proxy, .. } in scene.enrolled_backends() {
        let state_file = proxy.common.state_file.as_ref();
        if let Some(given) = state_file.filter(|given| given.value != "none") {
            let message = format!("load-server-state-from-file {}", given.value);
            found.add(&rules::STATE_FILE, given.line, message);
        }
    }
    version(scene, whole, found);
}

fn window(scene: &Scene<'_>, whole: usize, found: &mut Findings) {
    let global = &scene.configuration.global;
    let mut open = scene.enrolled().filter(|row| !row.server.is_disabled());
    let Some(first) = open.next() else {
        return;
    };
    let others = open.count();
    match &global.max_spread_checks {
        Some(given) if given.value <= WINDOW_MS_MAX => {
            let spread = global.spread_checks.as_ref();
            if others > 0 && spread.is_none_or(|given| given.value == "0") {
                let message = format!("max-spread-checks {} ms alone", given.value);
                found.add(&rules::SPREAD, given.line, message);
            }
        }
        max => {
            let line = max.as_ref().map_or(whole, |given| given.line);
            let message = format!("{} and {others} others are not disabled", first.id());
            found.add(&rules::START_WINDOW, line, message);
        }
    }
}

fn version(scene: &Scene<'_>, whole: usize, found: &mut Findings) {
    let Some(version) = scene.evidence.version else {
        return;
    };
    if version.branch < BRANCH_MIN {
        found.add(&rules::VERSION_OLD, whole, format!("HAProxy {version}"));
    } else if lacks_fixes(version) {
        found.add(&rules::VERSION_FIXES, whole, format!("HAProxy {version}"));
    }
    if !matches!(version.branch, (3, 3 | 4)) {
        return;
    }
    for row in scene.enrolled() {
        let own = row.options().agent_check.as_ref();
        if own.is_some_and(|given| given.line == row.server.line) {
            let message = format!("agent-check of {} is its own", row.id());
            found.add(&rules::DEFAULT_SERVER, row.server.line, message);
        }
    }
}
