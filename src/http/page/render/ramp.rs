//! A ramp as a picture: its steps, the nodes that are in and out, and the time to the next step.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::domain::board::{Course, NODES_MAX};
use crate::domain::name::Name;
use crate::http::page::text::{counted, moment};

/// Up to so many steps each one has its label.
const LABELS_MAX: usize = 8;

pub(super) fn ramp(course: &Course, now: Timestamp) -> Markup {
    let count = course.steps.len() + 1;
    html! {
        div .ramp {
            ol .stairs aria-label=(format!("Step {} of {count}", course.at + 1)) {
                @for (at, percent) in course.steps.iter().copied().chain([course.goal]).enumerate() {
                    (step(course, at, percent, now))
                }
            }
            (next(course, now))
            @if course.by == "nodes" { (nodes(course)) }
        }
    }
}

/// One column. Its size is in the picture: a policy without inline style allows no other.
fn step(course: &Course, at: usize, percent: u8, now: Timestamp) -> Markup {
    let (class, word) = match at.cmp(&course.at) {
        std::cmp::Ordering::Less => ("done", "done"),
        std::cmp::Ordering::Equal if course.every.is_none() => ("now held", "held here"),
        std::cmp::Ordering::Equal => ("now", "now"),
        std::cmp::Ordering::Greater => ("ahead", "ahead"),
    };
    let top = 100 - percent;
    let labelled = course.steps.len() < LABELS_MAX || at == course.at || at == course.steps.len();
    let gone = course.permille(now).filter(|_| at == course.at);
    html! {
        li .(class) aria-current=[(at == course.at).then_some("step")] {
            svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                rect .column x="0" y=(top) width="1000" height=(percent) {}
                @if let Some(gone) = gone {
                    rect #gone .gone x="0" y=(top) width=(gone) height=(percent) {}
                }
            }
            span .label[labelled] .unseen[!labelled] { (percent) "%" }
            span .unseen { " " (word) }
        }
    }
}

fn next(course: &Course, now: Timestamp) -> Markup {
    let target = course.steps.get(course.at + 1).copied();
    let target = target.unwrap_or(course.goal);
    let Some(next) = course.next else {
        return html! { p .next { b { "Held." } " It goes no further by itself." } };
    };
    let began = course
        .every
        .and_then(|every| jiff::SignedDuration::try_from(every).ok())
        .and_then(|every| next.checked_sub(every).ok());
    html! {
        p .next data-from=[began] data-to=(next) {
            "Next step "
            b { (target) "%" }
            " " (moment(next, now))
            @if let Some(end) = course.end.filter(|end| *end != next) {
                span .quiet { ", all of it " (moment(end, now)) }
            }
        }
    }
}

fn nodes(course: &Course) -> Markup {
    let (inside, outside) = (course.inside.len(), course.outside.len());
    let total = inside + outside;
    if total == 0 {
        return html! { p .quiet { "No node is known yet: nobody has polled for a canary server." } };
    }
    html! {
        p .share {
            b { (inside) } " of " (counted(total, "node has", "nodes have")) " it; "
            b { (outside) } " still " @if outside == 1 { "has" } @else { "have" } " what was before."
        }
        @if total <= NODES_MAX {
            div .dots aria-hidden="true" {
                @for node in &course.inside { span .dot .in title=(node) {} }
                @for node in &course.outside { span .dot .out title=(node) {} }
            }
            details {
                summary { "Which nodes" }
                p { b { "In: " } (listed(&course.inside)) }
                p { b { "Out: " } (listed(&course.outside)) }
            }
        } @else {
            svg .share-bar viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                rect .out x="0" y="0" width="1000" height="10" {}
                rect .in x="0" y="0" width=(inside * 1_000 / total) height="10" {}
            }
        }
    }
}

fn listed(nodes: &[Name]) -> String {
    if nodes.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<_> = nodes.iter().map(Name::as_str).collect();
    names.join(", ")
}
