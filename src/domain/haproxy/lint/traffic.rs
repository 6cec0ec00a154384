//! Where the traffic goes when a server is drained, and what is seen of it.

use std::collections::BTreeSet;

use super::Findings;
use super::rules;
use super::scene::{OneBackend, Row, Scene};
use crate::domain::haproxy::configuration::Proxy;
use crate::domain::haproxy::server::Options;

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    for backend in scene.enrolled_backends() {
        reached(backend.proxy, &backend.enrolled, found);
        left(&backend, found);
        for row in backend.enrolled {
            let marked = row.options().on_marked_down.as_ref();
            if let Some(given) = marked.filter(|given| given.value == "shutdown-sessions") {
                found.add(&rules::MARKED_DOWN, given.line, "shutdown-sessions");
            }
        }
    }
    unlogged(scene, found);
    srv_is_up(scene, found);
}

/// What still reaches a drained server.
fn reached(proxy: &Proxy, rows: &[&Row<'_>], found: &mut Findings) {
    if let Some(cookie) = &proxy.common.cookie {
        found.add(
            &rules::COOKIE,
            cookie.line,
            format!("cookie {}", cookie.value),
        );
    }
    if let Some(line) = proxy.stick {
        found.add(&rules::STICK, line, format!("{} sticks", proxy.name));
    }
    for (line, server) in &proxy.use_servers {
        let is_chosen = server.contains('%');
        if is_chosen || rows.iter().any(|row| row.server.name == *server) {
            let message = format!("use-server {server}");
            found.add(&rules::USE_SERVER, *line, message);
        }
    }
}

/// What is left when servers are drained.
fn left(of: &OneBackend<'_, '_>, found: &mut Findings) {
    let OneBackend {
        proxy,
        all,
        enrolled: rows,
    } = of;
    let (active, backup): (Vec<_>, Vec<_>) = all.iter().partition(|row| !row.server.is_backup());
    if let ([row], [], false) = (&rows[..], &backup[..], active.len() > 1)
        && !row.is_canary()
        && !row.server.is_template
    {
        let message = format!("{} is all that {} has", row.server.name, proxy.name);
        found.add(&rules::LAST_SERVER, row.server.line, message);
    }
    let Some(canary) = rows
        .iter()
        .find(|row| row.is_canary() && !row.server.is_backup())
    else {
        return;
    };
    let others = active.iter().filter(|row| !row.is_canary()).count();
    if active.len() == 1 && !canary.server.is_template {
        let message = format!("{} is the only active server", canary.id());
        found.add(&rules::RAMP_ALONE, canary.server.line, message);
    } else if others == 1 && !backup.is_empty() {
        let message = format!("{} stands beside one active server", canary.id());
        found.add(&rules::CANARY_TAKES_ALL, canary.server.line, message);
    }
}

fn unlogged(scene: &Scene<'_>, found: &mut Findings) {
    let is_unlogged = |proxy: &&Proxy| !Options::is_on(proxy.common.log_health_checks.as_ref());
    let backends = scene.enrolled_backends().map(|backend| backend.proxy);
    let mut unlogged = backends.filter(is_unlogged);
    if let Some(first) = unlogged.next() {
        let message = match unlogged.count() {
            0 => format!("{} does not log them", first.name),
            others => format!("{} and {others} other backends do not log them", first.name),
        };
        found.add(&rules::LOG_CHECKS, first.line, message);
    }
}

fn srv_is_up(scene: &Scene<'_>, found: &mut Findings) {
    let enrolled: BTreeSet<String> = scene.enrolled().map(Row::id).collect();
    for proxy in &scene.configuration.proxies {
        for &at in &proxy.srv_is_up {
            let line = &scene.reading.lines[at];
            for word in line.arguments() {
                for asked in word.text.split("srv_is_up(").skip(1) {
                    let name = asked.split(')').next().unwrap_or_default();
                    let own = format!("{}/{name}", proxy.name);
                    if enrolled.contains(name) || enrolled.contains(&own) {
                        found.add(&rules::SRV_IS_UP, at, format!("srv_is_up({name})"));
                    }
                }
            }
        }
    }
}
