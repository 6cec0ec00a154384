//! The canary: its state, its ramp as a bar, who and why.

use super::line::{Line, Span, Tone, flow, indented};
use super::{Frame, INDENT, counted, heading, said};
use crate::domain::answer::State;
use crate::domain::board::{Canary, Course};
use crate::domain::deploy::Deploy;
use crate::domain::group::{GroupError, GroupState};
use crate::domain::key::Scope;
use crate::domain::name::Name;

/// The widest bar: a wider one is no easier to read.
const BAR_COLUMNS_MAX: usize = 72;
/// What a percentage below its step takes, with the space behind it.
const LABEL_COLUMNS: usize = 5;
/// How many lines of names are shown of each side of a ramp.
const NAMES_LINES_MAX: usize = 2;

/// The section.
pub(super) fn lines(frame: &Frame<'_>, columns: usize) -> Vec<Line> {
    let canary = &frame.board.canary;
    let of = canary.ramp.as_ref().map_or("", |ramp| match ramp.by {
        "nodes" => " of the nodes",
        _ => " of the weight",
    });
    let state = Span::new(tone(canary), format!("{}{of}", canary.word()));
    let mut lines = heading("Canary", Some(state), columns);
    if let Some(course) = &canary.ramp {
        lines.extend(ramp(frame, course, columns));
    }
    lines.extend(about(frame, canary, columns));
    for (stage, deploy) in &canary.deploys {
        let spans = [Span::new(Tone::Held, deploy_line(frame, stage, deploy))];
        lines.extend(indented(&spans, columns, INDENT));
    }
    lines.extend(exceptions(canary, columns));
    lines
}

fn tone(canary: &Canary) -> Tone {
    match (&canary.state, &canary.ramp) {
        (None | Some(Err(_)), _) => Tone::Bad,
        (Some(Ok(state)), None) if state.state == "ready" => Tone::Good,
        (Some(Ok(_)), _) => Tone::Held,
    }
}

fn about(frame: &Frame<'_>, canary: &Canary, columns: usize) -> Vec<Line> {
    let text = match &canary.state {
        None => "No listing could be read.".to_owned(),
        Some(Err(GroupError::Unknown)) => "No key stands for the group: its polls are told \
                                           unknown-group, and HAProxy keeps its state."
            .to_owned(),
        Some(Err(GroupError::Frozen(why))) => format!("HAProxy keeps its state: {}", said(why)),
        Some(Ok(state)) => who(frame, canary, state),
    };
    let mut lines = indented(&[Span::plain(text)], columns, INDENT);
    if let Some((then, at)) = canary.then {
        let then = match then {
            State::Ready(_) => "ready",
            State::Drain => "drain",
            State::Maint => "maint",
        };
        let text = format!("becomes {then} by itself {}", frame.ahead(at));
        lines.extend(indented(&[Span::plain(text)], columns, INDENT));
    }
    lines
}

fn who(frame: &Frame<'_>, canary: &Canary, state: &GroupState) -> String {
    let reason = match (&state.reason, &state.by) {
        (Some(reason), _) => said(reason),
        (None, Some(_)) => "no reason is given".to_owned(),
        (None, None) => "written by hand, without author or reason".to_owned(),
    };
    let parts = [
        Some(reason),
        state.by.as_ref().map(|by| format!("by {}", said(by))),
        frame.when("written", state.since),
        frame.ends(canary.until),
        state
            .change
            .as_ref()
            .map(|id| format!("change {}", said(id))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

/// How far it is, as words and as a bar, and which nodes are in.
fn ramp(frame: &Frame<'_>, course: &Course, columns: usize) -> Vec<Line> {
    let count = course.steps.len() + 1;
    let step = format!("step {} of {count}", course.at + 1);
    let target = course.steps.get(course.at + 1).unwrap_or(&course.goal);
    let mut text = match course.next {
        None => format!("{step}, held: it goes no further by itself"),
        Some(next) => format!("{step}, next {target}% {}", frame.ahead(next)),
    };
    if let Some(end) = course.end.filter(|end| Some(*end) != course.next) {
        text += &format!(", all of it {}", frame.ahead(end));
    }
    let mut lines = bar(frame, course, columns);
    lines.extend(indented(&[Span::plain(text)], columns, INDENT));
    if course.by == "nodes" {
        let (inside, outside) = (&course.inside, &course.outside);
        let total = inside.len() + outside.len();
        if total == 0 {
            let text = "no node is known yet: nobody has polled for a canary server";
            lines.extend(indented(&[Span::plain(text)], columns, INDENT));
        } else {
            let nodes = counted(total, "node", "nodes");
            let head = format!("in {} of {nodes}: ", inside.len());
            lines.extend(names(Tone::Good, &head, inside, columns));
            let head = format!("out {}: ", outside.len());
            lines.extend(names(Tone::Held, &head, outside, columns));
        }
    }
    lines
}

/// Each step as wide as the others: `[=====|==>..|.....]`. One that holds ends in `!`.
fn bar(frame: &Frame<'_>, course: &Course, columns: usize) -> Vec<Line> {
    let count = course.steps.len() + 1;
    let room = columns.saturating_sub(INDENT + 2).min(BAR_COLUMNS_MAX);
    let width = (room + 1) / count;
    if width < 2 {
        // Too many steps for their borders: the whole as one.
        let done = course.at * 1_000 + usize::from(course.permille(frame.now).unwrap_or(0));
        let (done, held) = (room * done / (count * 1_000), course.every.is_none());
        let text = filled(room, done, held);
        return vec![Line::from(vec![Span::plain(format!("  [{text}]"))])];
    }
    let width = width - 1;
    let mut spans = vec![Span::plain("  [")];
    for at in 0..count {
        let (tone, text) = match at.cmp(&course.at) {
            std::cmp::Ordering::Less => (Tone::Good, "=".repeat(width)),
            std::cmp::Ordering::Greater => (Tone::Quiet, ".".repeat(width)),
            std::cmp::Ordering::Equal => {
                let gone = course.permille(frame.now).map(usize::from);
                let done = gone.map_or(width, |gone| width * gone / 1_000);
                (Tone::Held, filled(width, done, gone.is_none()))
            }
        };
        spans.push(Span::new(tone, text));
        spans.push(Span::plain(if at + 1 < count { "|" } else { "]" }));
    }
    let mut lines = vec![Line::from(spans)];
    if width + 1 >= LABEL_COLUMNS {
        lines.push(labels(course, width));
    }
    lines
}

/// So much of it is over; the end of that is where it is now.
fn filled(width: usize, done: usize, held: bool) -> String {
    let done = done.min(width.saturating_sub(1));
    let mark = if held { "!" } else { ">" };
    let begin = "=".repeat(if held { width.saturating_sub(1) } else { done });
    let rest = width.saturating_sub(begin.len() + 1);
    format!("{begin}{mark}{}", ".".repeat(rest))
}

/// The percentage of each step below its begin.
fn labels(course: &Course, width: usize) -> Line {
    let mut spans = vec![Span::plain("   ")];
    let all = course.steps.iter().chain([&course.goal]);
    for (at, percent) in all.enumerate() {
        let tone = if at == course.at {
            Tone::Strong
        } else {
            Tone::Quiet
        };
        let label = format!("{percent}%");
        let last = at == course.steps.len();
        let full = if last { 0 } else { width + 1 };
        spans.push(Span::new(tone, format!("{label:<full$}")));
    }
    Line::from(spans)
}

/// As many names as fit, and how many more there are.
fn names(tone: Tone, head: &str, names: &[Name], columns: usize) -> Vec<Line> {
    let room = columns.saturating_sub(INDENT * 2).max(1) * NAMES_LINES_MAX;
    let mut used = head.len();
    let fits = names.iter().take_while(|name| {
        used += name.as_str().len() + 2;
        // Room for the count of the others.
        used + 14 <= room
    });
    let fits: Vec<_> = fits.map(Name::as_str).collect();
    let more = names.len() - fits.len();
    let text = match (fits.join(", "), more) {
        (shown, 0) if shown.is_empty() => "none".to_owned(),
        (shown, 0) => shown,
        (shown, more) if shown.is_empty() => format!("{more} that do not fit here"),
        (shown, more) => format!("{shown} and {more} more"),
    };
    let spans = [
        Span::plain(" ".repeat(INDENT)),
        Span::new(tone, head),
        Span::plain(text),
    ];
    flow(&spans, columns, INDENT * 2)
}

fn deploy_line(frame: &Frame<'_>, stage: &str, deploy: &Result<Deploy, String>) -> String {
    let stage = said(stage);
    let Ok(deploy) = deploy else {
        return format!("deploy to {stage} is locked by what cannot be read");
    };
    let parts = [
        Some(format!("deploy to {stage} is running")),
        deploy.by.as_ref().map(|by| format!("by {}", said(by))),
        frame.when("its lock ends", deploy.until),
        deploy.url.as_deref().map(said),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn exceptions(canary: &Canary, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for exception in &canary.exceptions {
        let scope = match &exception.scope {
            Scope::Fleet => "everywhere".to_owned(),
            Scope::Zone(zone) => format!("nodes of zone {zone}"),
            Scope::Node(node) => format!("node {node}"),
        };
        let says = match &exception.says {
            Ok(words) => Span::new(Tone::Held, words),
            Err(error) => Span::new(Tone::Bad, format!("frozen: {}", said(error))),
        };
        let spans = [Span::plain(format!("elsewhere, {scope}: ")), says];
        lines.extend(indented(&spans, columns, INDENT));
    }
    if canary.exceptions_more > 0 {
        let text = format!("and elsewhere, {} more", canary.exceptions_more);
        lines.extend(indented(&[Span::plain(text)], columns, INDENT));
    }
    lines
}
