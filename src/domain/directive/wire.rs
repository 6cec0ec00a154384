//! A directive as JSON.

use std::time::Duration;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Author, Desired, Directive, DirectiveError, Expiry, OnExpiry, Plan};
use crate::domain::answer::{Percent, State};
use crate::domain::name::Name;
use crate::domain::ramp::{By, EVERY_MIN, Nodes, Order, Ramp, Rest, SPAN_MAX, STEPS_MAX};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u64>,
    state: Word,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp: Option<WireRamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<WirePlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_expiry: Option<WireExpiry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    #[serde(skip_serializing)]
    #[expect(dead_code, reason = "free for other tools: accepted, never read")]
    meta: Option<IgnoredAny>,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Word {
    Ready,
    Drain,
    Maint,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireExpiry {
    Alert,
    Lift,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
pub(crate) struct WireRamp {
    by: WireBy,
    steps: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<WireRest>,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireBy {
    Weight,
    Nodes,
}

#[derive(Deserialize, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireRest {
    Drain,
    Maint,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[serde(expecting = "an object")]
struct WirePlan {
    state: Word,
    after: String,
}

pub(super) fn read(text: &str) -> Result<Directive, DirectiveError> {
    let wire: Wire =
        serde_json::from_str(text).map_err(|error| DirectiveError::Json(error.to_string()))?;
    if let Some(version) = wire.v.filter(|&v| v != 1) {
        return Err(DirectiveError::Version(version));
    }
    let since = wire.since.map(|text| moment("since", text)).transpose()?;
    let desired = read_desired(wire.state, wire.weight, wire.ramp)?;
    let then = wire.then.map(read_plan).transpose()?;
    if since.is_none() {
        let counts = match (&desired, &then) {
            (_, Some(_)) => Some("then"),
            (
                Desired::Ready {
                    ramp: Some(Ramp { every: Some(_), .. }),
                    ..
                },
                None,
            ) => Some("ramp.every"),
            (Desired::Ready { .. } | Desired::Drain | Desired::Maint, None) => None,
        };
        if let Some(field) = counts {
            return Err(DirectiveError::Needs {
                field,
                needs: "since, from which it counts",
            });
        }
    }
    Ok(Directive {
        desired,
        then,
        since,
        expiry: read_expiry(wire.until, wire.on_expiry)?,
        author: Author {
            by: wire.by,
            reason: wire.reason,
            change: wire.change,
            trace: wire.trace,
        },
        force: wire.force.unwrap_or(false),
    })
}

fn read_desired(
    word: Word,
    weight: Option<u64>,
    ramp: Option<WireRamp>,
) -> Result<Desired, DirectiveError> {
    let desired = match word {
        Word::Ready => {
            let weight = match weight {
                None => Percent::FULL,
                Some(weight) => Percent::new(weight).ok_or(DirectiveError::Weight(weight))?,
            };
            let ramp = ramp.map(|ramp| read_ramp(ramp, weight)).transpose()?;
            return Ok(Desired::Ready { weight, ramp });
        }
        Word::Drain => Desired::Drain,
        Word::Maint => Desired::Maint,
    };
    if weight.is_some() {
        return Err(DirectiveError::Needs {
            field: "weight",
            needs: "state ready",
        });
    }
    if ramp.is_some() {
        return Err(DirectiveError::Needs {
            field: "ramp",
            needs: "state ready",
        });
    }
    Ok(desired)
}

pub(crate) fn read_ramp(wire: WireRamp, weight: Percent) -> Result<Ramp, DirectiveError> {
    let steps = read_steps(&wire.steps)?;
    let every = wire
        .every
        .map(|text| span("ramp.every", text))
        .transpose()?;
    let by = match wire.by {
        WireBy::Weight => {
            for (field, there) in [
                ("ramp.nodes", wire.nodes.is_some()),
                ("ramp.seed", wire.seed.is_some()),
                ("ramp.rest", wire.rest.is_some()),
            ] {
                if there {
                    return Err(DirectiveError::Needs {
                        field,
                        needs: "ramp.by nodes",
                    });
                }
            }
            if let Some(above) = steps.iter().find(|&&step| step > weight) {
                let text = format!("{} is above the weight {}", above.get(), weight.get());
                return Err(DirectiveError::Steps(text));
            }
            By::Weight
        }
        WireBy::Nodes => By::Nodes(Nodes {
            order: read_order(&wire.nodes.unwrap_or_default())?,
            seed: wire.seed,
            rest: match wire.rest {
                None | Some(WireRest::Drain) => Rest::Drain,
                Some(WireRest::Maint) => Rest::Maint,
            },
        }),
    };
    Ok(Ramp { by, steps, every })
}

fn read_steps(wire: &[u64]) -> Result<Vec<Percent>, DirectiveError> {
    let refuse = |text: String| Err(DirectiveError::Steps(text));
    if wire.is_empty() || wire.len() > STEPS_MAX {
        return refuse(format!(
            "{} steps, allowed are 1 to {STEPS_MAX}",
            wire.len()
        ));
    }
    if let Some((low, high)) = wire.iter().zip(&wire[1..]).find(|(low, high)| low >= high) {
        return refuse(format!("{high} does not grow from {low}"));
    }
    let step = |&step| {
        let text = format!("{step} is no percentage of 1 to 100");
        Percent::new(step).ok_or(DirectiveError::Steps(text))
    };
    wire.iter().map(step).collect()
}

fn read_order(wire: &[String]) -> Result<Order, DirectiveError> {
    let names: Result<Vec<_>, _> = wire
        .iter()
        .map(|text| Name::parse(text).map_err(|e| DirectiveError::Nodes(format!("{text:?}: {e}"))))
        .collect();
    Order::new(names?).ok_or_else(|| DirectiveError::Nodes("a node stands there twice".to_owned()))
}

fn read_plan(wire: WirePlan) -> Result<Plan, DirectiveError> {
    let state = match wire.state {
        Word::Ready => State::Ready(Percent::FULL),
        Word::Drain => State::Drain,
        Word::Maint => State::Maint,
    };
    Ok(Plan {
        state,
        after: span("then.after", wire.after)?,
    })
}

fn read_expiry(
    until: Option<String>,
    on_expiry: Option<WireExpiry>,
) -> Result<Option<Expiry>, DirectiveError> {
    let Some(until) = until else {
        return match on_expiry {
            None => Ok(None),
            Some(_) => Err(DirectiveError::Needs {
                field: "on_expiry",
                needs: "until",
            }),
        };
    };
    let on_expiry = match on_expiry {
        None | Some(WireExpiry::Alert) => OnExpiry::Alert,
        Some(WireExpiry::Lift) => OnExpiry::Lift,
    };
    Ok(Some(Expiry {
        until: moment("until", until)?,
        on_expiry,
    }))
}

fn moment(field: &'static str, value: String) -> Result<Timestamp, DirectiveError> {
    let error = |error: jiff::Error| error.to_string();
    value
        .parse()
        .map_err(error)
        .map_err(|error| DirectiveError::Time {
            field,
            value,
            error,
        })
}

fn span(field: &'static str, value: String) -> Result<Duration, DirectiveError> {
    let read = humantime::parse_duration(&value).map_err(|error| error.to_string());
    read.and_then(|span| {
        let fits = (EVERY_MIN..=SPAN_MAX).contains(&span);
        fits.then_some(span)
            .ok_or_else(|| "allowed are 1s to 366days".to_owned())
    })
    .map_err(|error| DirectiveError::Time {
        field,
        value,
        error,
    })
}

pub(super) fn write(directive: &Directive) -> String {
    let (state, weight, ramp) = match &directive.desired {
        Desired::Ready { weight, ramp } => (
            Word::Ready,
            Some(u64::from(weight.get())),
            ramp.as_ref().map(write_ramp),
        ),
        Desired::Drain => (Word::Drain, None, None),
        Desired::Maint => (Word::Maint, None, None),
    };
    let wire = Wire {
        v: Some(1),
        state,
        weight,
        ramp,
        then: directive.then.as_ref().map(write_plan),
        since: directive.since.map(|moment| moment.to_string()),
        until: directive.expiry.map(|expiry| expiry.until.to_string()),
        on_expiry: directive.expiry.map(|expiry| match expiry.on_expiry {
            OnExpiry::Alert => WireExpiry::Alert,
            OnExpiry::Lift => WireExpiry::Lift,
        }),
        by: directive.author.by.clone(),
        reason: directive.author.reason.clone(),
        change: directive.author.change.clone(),
        trace: directive.author.trace.clone(),
        force: directive.force.then_some(true),
        meta: None,
    };
    serde_json::to_string(&wire).expect("strings and numbers always serialise")
}

fn write_plan(plan: &Plan) -> WirePlan {
    let state = match plan.state {
        State::Ready(_) => Word::Ready,
        State::Drain => Word::Drain,
        State::Maint => Word::Maint,
    };
    WirePlan {
        state,
        after: humantime::format_duration(plan.after).to_string(),
    }
}

fn write_ramp(ramp: &Ramp) -> WireRamp {
    let (by, nodes) = match &ramp.by {
        By::Weight => (WireBy::Weight, None),
        By::Nodes(nodes) => (WireBy::Nodes, Some(nodes)),
    };
    let order = nodes
        .map(|nodes| nodes.order.names())
        .filter(|names| !names.is_empty());
    WireRamp {
        by,
        steps: ramp
            .steps
            .iter()
            .map(|step| u64::from(step.get()))
            .collect(),
        every: ramp
            .every
            .map(|every| humantime::format_duration(every).to_string()),
        nodes: order.map(|names| names.into_iter().map(ToString::to_string).collect()),
        seed: nodes.and_then(|nodes| nodes.seed.clone()),
        rest: nodes.map(|nodes| match nodes.rest {
            Rest::Drain => WireRest::Drain,
            Rest::Maint => WireRest::Maint,
        }),
    }
}
