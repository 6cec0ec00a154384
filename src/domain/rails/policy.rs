//! The rails that look at the write itself: how much at once, with which words, how long.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::evaluation::{scope, target};
use super::survey::{Change, Survey};
use super::{Comparison, Context, Flag, Override, Rail, Refusal};
use crate::domain::deploy::Deploy;
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::{CANARY, Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::settings::{RailSettings, ReasonRule, TtlRule};
use crate::domain::snapshot::Difference;

/// What these rails refuse.
pub(super) fn refusals(
    comparison: &Comparison<'_>,
    survey: &Survey<'_>,
    differences: &[Difference<'_>],
    context: &Context<'_>,
) -> Vec<Refusal> {
    let rails = &comparison.before.settings.rails;
    let mut refusals = deploy_locks(rails, survey, context);
    refusals.extend(ttl(&rails.ttl, differences, context.now));
    let single = [
        faults(comparison),
        too_far_ahead(survey),
        many_rows(comparison, survey),
        maint_from_ready(survey, context.now),
        reason(rails.reason, survey, differences, context),
    ];
    refusals.extend(single.into_iter().flatten());
    refusals
}

/// A slip in `settings` must not open what its rails close, and must not keep a canary in traffic
/// while somebody mends it: with a flag the rails go on with the defaults of what was not read.
fn faults(comparison: &Comparison<'_>) -> Option<Refusal> {
    let faults = &comparison.before.settings.faults;
    (!faults.is_empty()).then(|| Refusal {
        rail: Rail::Settings,
        rows: Vec::new(),
        text: format!(
            "the key cannot be read whole, mend it first: {}",
            faults.join("; ")
        ),
        overridden_by: Some(Override::Flag(Flag::Force)),
    })
}

fn too_far_ahead(survey: &Survey<'_>) -> Option<Refusal> {
    let rows = owned(survey.cut.iter().copied());
    (!rows.is_empty()).then(|| Refusal {
        rail: Rail::TooFarAhead,
        rows,
        text: format!(
            "more than {} changes lie ahead of one row: use fewer steps, or clear other directives",
            super::CHANGES_AHEAD_MAX
        ),
        overridden_by: None,
    })
}

/// The canary does not count: draining it whole is an everyday act, and others carry its traffic.
fn many_rows(comparison: &Comparison<'_>, survey: &Survey<'_>) -> Option<Refusal> {
    let rails = &comparison.before.settings.rails;
    let topology = comparison.topology;
    let reduced: Vec<&Change<'_>> = survey.reductions().filter(|c| !c.canary).collect();
    let servers = owned(reduced.iter().map(|change| change.server));
    let on_nodes: usize = reduced.iter().map(|change| change.nodes.len()).sum();
    let followers = || {
        let rows = topology.rows().iter();
        rows.filter(|(_, row)| row.agent && !row.is_of(CANARY))
    };
    let mut of: usize = 0;
    for kind in topology.kinds() {
        let placed = followers().filter(|(id, _)| topology.placement(kind.node, id).is_some());
        of += placed.count() * kind.nodes.len();
    }
    let (count, all) = (servers.len(), followers().count());
    let why = if on_nodes * 2 > of {
        "more than half of the rows".to_owned()
    } else if count > rails.many_rows {
        format!(
            "more than {} servers (settings.rails.many_rows)",
            rails.many_rows
        )
    } else {
        return None;
    };
    let sentence = format!("take traffic from {count} of {all} servers");
    let unattended = if rails.unattended {
        "without a terminal --yes with --reason stands for it"
    } else {
        "without a terminal it cannot be written: settings.rails.unattended does not allow it"
    };
    Some(Refusal {
        rail: Rail::ManyRows,
        rows: servers,
        text: format!("this is {why}; type: {sentence} ({unattended})"),
        overridden_by: Some(Override::Sentence(sentence)),
    })
}

fn maint_from_ready(survey: &Survey<'_>, now: Timestamp) -> Option<Refusal> {
    let hard = || {
        survey
            .changes()
            .filter_map(|c| Some((c.server, c.maint_from_ready?)))
    };
    let first = hard().map(|(_, at)| at).min()?;
    let when = if first > now {
        format!(" (from {first})")
    } else {
        String::new()
    };
    Some(Refusal {
        rail: Rail::MaintFromReady,
        rows: owned(hard().map(|(server, _)| server)),
        text: format!(
            "maintenance straight from ready{when} cuts what is running: drain first, wait, then maint"
        ),
        overridden_by: Some(Override::Flag(Flag::Now)),
    })
}

/// The three lines that the canary command has always printed.
fn deploy_locks(rails: &RailSettings, survey: &Survey<'_>, context: &Context<'_>) -> Vec<Refusal> {
    let lock = |(stage, groups): (&Name, &BTreeSet<Name>)| {
        let deploy = context.deploys.get(stage)?;
        let link = lock_words(stage, deploy, context.now)?;
        let of_stage = survey
            .reductions()
            .filter(|change| change.row.groups.iter().any(|group| groups.contains(group)));
        let rows = owned(of_stage.map(|change| change.server));
        let names: Vec<_> = groups.iter().map(Name::as_str).collect();
        let name = names.join(", ");
        (!rows.is_empty()).then(|| Refusal {
            rail: Rail::DeployLock,
            rows,
            text: format!(
                "Cannot set the {name} state because of a linked {name} deploy in progress: {link}\n\
                 Draining {name} during a deploy causes errors for users.\n\
                 Use --ignore-deployment-check if you are sure."
            ),
            overridden_by: Some(Override::Flag(Flag::IgnoreDeploymentCheck)),
        })
    };
    rails.stages.iter().filter_map(lock).collect()
}

/// What locks a stage; a value that cannot be read may say so.
fn lock_words(stage: &Name, deploy: &Result<Deploy, String>, now: Timestamp) -> Option<String> {
    match deploy {
        Ok(deploy) if !deploy.locks(now) => None,
        Ok(deploy) => Some(match (&deploy.url, &deploy.by) {
            (Some(url), _) => url.clone(),
            (None, Some(by)) => format!("deploys/{stage}, by {by}"),
            (None, None) => format!("deploys/{stage}"),
        }),
        Err(error) => Some(format!("deploys/{stage} cannot be read ({error})")),
    }
}

fn ttl(rule: &TtlRule, differences: &[Difference<'_>], now: Timestamp) -> Option<Refusal> {
    let max = rule.max.and_then(|max| SignedDuration::try_from(max).ok());
    let wrong = differences.iter().filter_map(|difference| {
        let directive = difference.after?.directive.as_ref().ok()?;
        let why = end_refused(rule, max, directive, now)?;
        (!is_lasting(difference)).then(|| (difference, format!("{}: {why}", difference.path())))
    });
    let wrong: Vec<_> = wrong.collect();
    let servers = wrong
        .iter()
        .filter_map(|(difference, _)| match target(difference) {
            Some(Target::Server(id)) => Some(id),
            Some(Target::Group(_)) | None => None,
        });
    let texts: Vec<_> = wrong.iter().map(|(_, text)| text.as_str()).collect();
    (!wrong.is_empty()).then(|| Refusal {
        rail: Rail::Ttl,
        rows: owned(servers),
        text: texts.join("\n"),
        overridden_by: None,
    })
}

fn end_refused(
    rule: &TtlRule,
    max: Option<SignedDuration>,
    directive: &Directive,
    now: Timestamp,
) -> Option<String> {
    if !keeps_away(directive) {
        return None;
    }
    match (directive.expiry, max) {
        (None, _) if rule.required => {
            Some("it needs an end: --ttl (settings.rails.ttl)".to_owned())
        }
        (Some(expiry), Some(max)) if expiry.until.duration_since(now) > max => Some(format!(
            "it would stand until {}, settings.rails.ttl.max allows {max:#}",
            expiry.until
        )),
        (None | Some(_), _) => None,
    }
}

/// Whether a directive leaves somebody without traffic until it is changed. A ramp over nodes that
/// goes on by itself does not: it is how a drain ends.
fn keeps_away(directive: &Directive) -> bool {
    let goes_on = match &directive.desired {
        Desired::Ready { ramp, .. } => ramp.as_ref().is_some_and(|ramp| ramp.every.is_some()),
        Desired::Drain | Desired::Maint => false,
    };
    directive.takes_away() && (!goes_on || directive.then.is_some())
}

/// A group's directive for the whole fleet is its lasting state.
fn is_lasting(difference: &Difference<'_>) -> bool {
    matches!(target(difference), Some(Target::Group(_)))
        && matches!(scope(difference), Some(Scope::Fleet))
}

fn reason(
    rule: ReasonRule,
    survey: &Survey<'_>,
    differences: &[Difference<'_>],
    context: &Context<'_>,
) -> Option<Refusal> {
    let takes_away = |difference: &Difference<'_>| {
        let directive = difference
            .after
            .and_then(|placed| placed.directive.as_ref().ok());
        directive.is_some_and(keeps_away)
    };
    let needed = match rule {
        ReasonRule::Never => false,
        ReasonRule::Reductions => {
            survey.reductions().next().is_some() || differences.iter().any(takes_away)
        }
        ReasonRule::Always => true,
    };
    let rows = || owned(survey.changes().map(|change| change.server));
    (needed && context.reason().is_none()).then(|| without_reason(rows()))
}

/// What is refused of a write that changes no answer, such as a deploy lock.
pub(super) fn refusal_of_no_change(rule: ReasonRule, context: &Context<'_>) -> Option<Refusal> {
    match rule {
        ReasonRule::Always if context.reason().is_none() => Some(without_reason(Vec::new())),
        ReasonRule::Always | ReasonRule::Reductions | ReasonRule::Never => None,
    }
}

fn without_reason(rows: Vec<ServerId>) -> Refusal {
    Refusal {
        rail: Rail::Reason,
        rows,
        text: "settings.rails.reason demands a reason: --reason".to_owned(),
        overridden_by: None,
    }
}

/// Each server once, in order.
fn owned<'a>(servers: impl IntoIterator<Item = &'a ServerId>) -> Vec<ServerId> {
    let servers: BTreeSet<_> = servers.into_iter().collect();
    servers.into_iter().cloned().collect()
}
