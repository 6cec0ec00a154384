//! Whether a percentage does what it says.

use std::collections::BTreeSet;

use super::Findings;
use super::rules::{self, Rule};
use super::scene::{OneBackend, Row, Scene};
use crate::domain::haproxy::configuration::Proxy;

/// The weight from which every percentage is a weight of its own.
const WEIGHT_WHOLE: u16 = 100;

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    for OneBackend {
        proxy, enrolled, ..
    } in scene.enrolled_backends()
    {
        let is_ramped = enrolled.iter().any(|row| row.shares);
        let refused = balance(proxy).filter(|_| is_ramped);
        if let (Some(rule), Some(given)) = (refused, &proxy.common.balance) {
            found.add(rule, given.line, format!("balance {}", given.value));
        }
        let is_static = refused == Some(&rules::BALANCE_STATIC);
        for row in enrolled {
            weight(row, is_static, found);
            let slowstart = row.options().slowstart.as_ref();
            if let Some(given) = slowstart.filter(|given| given.value > 0) {
                let message = format!("slowstart of {} ms", given.value);
                found.add(&rules::SLOWSTART, given.line, message);
            }
        }
    }
    track(scene, found);
}

fn weight(row: &Row<'_>, is_static: bool, found: &mut Findings) {
    if row.server.is_template {
        return;
    }
    let (id, weight) = (row.id(), row.options().weight());
    let given = row.options().weight.as_ref();
    let line = given.map_or(row.server.line, |given| given.line);
    if weight == 0 {
        found.add(&rules::WEIGHT_ZERO, line, format!("{id} has weight 0"));
        return;
    }
    let Some(request) = row.request.filter(|_| weight < WEIGHT_WHOLE) else {
        return;
    };
    let configured = match given {
        Some(_) => format!("weight {weight}"),
        None => format!("no weight, which is {weight} for HAProxy"),
    };
    if request.base.is_none() {
        let message = format!("{id} has {configured}, and no base=");
        found.add(&rules::WEIGHT_BASE, line, message);
    } else if request.base == Some(weight) && row.shares && !is_static && !request.shadow {
        // What is only shown is no ramp.
        found.add(&rules::WEIGHT_LOW, line, format!("{id} has {configured}"));
    }
}

/// What is wrong with the algorithm; `roundrobin` where none is given.
fn balance(proxy: &Proxy) -> Option<&'static Rule> {
    let algorithm = proxy.common.balance.as_ref()?.value.as_str();
    let name = algorithm.split('(').next().unwrap_or_default();
    let consistent = proxy.common.hash_type.as_ref();
    let consistent = consistent.is_some_and(|given| given.value == "consistent");
    match name {
        "static-rr" => Some(&rules::BALANCE_STATIC),
        "first" => Some(&rules::BALANCE_FIRST),
        "leastconn" => Some(&rules::BALANCE_LEASTCONN),
        "source" | "uri" | "url_param" | "hdr" | "rdp-cookie" | "hash" if !consistent => {
            Some(&rules::BALANCE_STATIC)
        }
        _ => None,
    }
}

fn track(scene: &Scene<'_>, found: &mut Findings) {
    let enrolled: BTreeSet<String> = scene.enrolled().map(Row::id).collect();
    for row in &scene.rows {
        let Some(track) = &row.options().track else {
            continue;
        };
        // Without a backend its own is meant.
        let tracked = if track.value.contains('/') {
            track.value.clone()
        } else {
            format!("{}/{}", row.proxy.name, track.value)
        };
        if enrolled.contains(&tracked) {
            let message = format!("{} tracks {tracked}", row.id());
            found.add(&rules::TRACK, track.line, message);
        }
    }
}
