//! The canary: its state, its ramp, who and why, and the commands for what comes next.

use maud::{Markup, html};

use super::ramp::ramp;
use super::{badge, command, ends, kind_of, when};
use crate::domain::answer::State;
use crate::domain::board::{Canary, Kind, environment_flags};
use crate::domain::deploy::Deploy;
use crate::domain::group::{GroupError, GroupState};
use crate::domain::key::Scope;
use crate::http::page::look::Look;
use crate::http::page::text::{moment, said};

/// The section.
pub(in crate::http::page) fn canary(look: &Look) -> Markup {
    let canary = &look.board.canary;
    html! {
        div .hero {
            p .state .(kind(canary)) {
                span .mark aria-hidden="true" {}
                strong #canary-state { (canary.word()) }
                @if let Some(ramp) = &canary.ramp {
                    span .quiet {
                        @if ramp.by == "nodes" { "of the nodes" } @else { "of the weight" }
                    }
                }
            }
            (about(look, canary))
        }
        @if let Some(course) = &canary.ramp { (ramp(course, look.board.at)) }
        (deploys(look, canary))
        (exceptions(canary))
        (actions(look, canary))
    }
}

fn kind(canary: &Canary) -> &'static str {
    match &canary.state {
        None | Some(Err(_)) => Kind::Frozen.as_str(),
        Some(Ok(state)) => match &canary.ramp {
            Some(ramp) if ramp.every.is_none() => "held",
            Some(_) => "ramp",
            None => kind_of_state(state).as_str(),
        },
    }
}

fn kind_of_state(state: &GroupState) -> Kind {
    match state.state {
        "drain" => Kind::Drain,
        "maint" => Kind::Maint,
        // The third word of `GroupState`.
        _ => Kind::Ready,
    }
}

fn about(look: &Look, canary: &Canary) -> Markup {
    let state = match &canary.state {
        None => return html! { p { "No listing is believed yet." } },
        Some(Err(GroupError::Unknown)) => {
            return html! {
                p { "No key stands for the group: its polls are told unknown-group, and HAProxy keeps its state." }
            };
        }
        Some(Err(GroupError::Frozen(why))) => {
            return html! { p { "HAProxy keeps its state: " (said(why)) } };
        }
        Some(Ok(state)) => state,
    };
    html! {
        div .about {
            @match (&state.reason, &state.by) {
                (Some(reason), _) => p .reason { (said(reason)) },
                (None, Some(_)) => p .reason .quiet { "No reason is given." },
                (None, None) => p .reason .quiet { "Written by hand, without author or reason." },
            }
            p .who {
                @if let Some(by) = &state.by { span { "by " b { (said(by)) } } }
                (when("written", state.since, look))
                (ends(canary.until, look))
                @if let Some(change) = &state.change { span { "change " code { (said(change)) } } }
            }
            @if let Some((then, at)) = canary.then {
                p { "Becomes " (becomes(then)) " " (moment(at, look.board.at)) ", by itself." }
            }
        }
    }
}

fn becomes(state: State) -> Markup {
    let kind = kind_of(state);
    badge(kind.as_str(), kind.as_str())
}

fn deploys(look: &Look, canary: &Canary) -> Markup {
    html! {
        @for (stage, deploy) in &canary.deploys {
            p .notice {
                b { "Deploy to " (stage) }
                @match deploy {
                    Ok(deploy) => (running(look, deploy)),
                    Err(_) => " is locked by what cannot be read: see below.",
                }
            }
        }
    }
}

fn running(look: &Look, deploy: &Deploy) -> Markup {
    html! {
        " is running"
        @if let Some(by) = &deploy.by { ", by " (said(by)) }
        @if let Some(until) = deploy.until { ", its lock ends " (moment(until, look.board.at)) }
        @if let Some(url) = &deploy.url { ": " code { (said(url)) } }
    }
}

fn exceptions(canary: &Canary) -> Markup {
    html! {
        @if !canary.exceptions.is_empty() {
            h3 { "Elsewhere it is something else" }
            ul .plain {
                @for exception in &canary.exceptions {
                    li {
                        @match &exception.scope {
                            Scope::Fleet => "everywhere",
                            Scope::Zone(zone) => { "nodes of zone " b { (zone) } },
                            Scope::Node(node) => { "node " b { (node) } },
                        }
                        ": "
                        @match &exception.says {
                            Ok(words) => (words),
                            Err(error) => { (badge("frozen", "frozen")) " " (said(error)) },
                        }
                    }
                }
                @if canary.exceptions_more > 0 { li { "and " (canary.exceptions_more) " more" } }
            }
        }
    }
}

/// The commands that make sense now.
fn actions(look: &Look, canary: &Canary) -> Markup {
    let flags = environment_flags(&look.prefix);
    html! {
        h3 { "Commands" }
        dl .actions {
            @for (what, words) in canary.actions() {
                div { dt { (what) } dd { (command(&format!("tidegate canary {flags} {words}"))) } }
            }
        }
    }
}
