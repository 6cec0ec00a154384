//! `agent-send`: what HAProxy says when it asks.

use std::collections::BTreeMap;

use super::Findings;
use super::rules::{self, Rule};
use super::scene::{Row, Scene};
use crate::domain::haproxy::reading::Line;
use crate::domain::haproxy::server::Given;
use crate::domain::request::{REQUEST_BYTES_MAX, Request};

pub(super) fn judge(scene: &Scene<'_>, found: &mut Findings) {
    let mut senders: BTreeMap<&str, usize> = BTreeMap::new();
    for send in scene
        .enrolled()
        .filter_map(|row| row.options().agent_send.as_ref())
    {
        *senders.entry(&send.value).or_default() += 1;
    }
    for row in scene.enrolled() {
        let (server, id) = (row.server, row.id());
        if server.is_template {
            found.add(
                &rules::TEMPLATE,
                server.line,
                format!("the servers {id}* ask as one"),
            );
            continue;
        }
        let Some(send) = &row.options().agent_send else {
            found.add(
                &rules::SEND_MISSING,
                server.line,
                format!("{id} has no agent-send"),
            );
            continue;
        };
        let line = &scene.reading.lines[send.line];
        if let Some((rule, message)) = in_text(line, send) {
            found.add(rule, send.line, message);
            continue;
        }
        match Request::parse(send.value.as_bytes()) {
            Err(error) => found.add(&rules::SEND_REQUEST, send.line, error.to_string()),
            Ok(request) => asked(row, send, &request, senders[send.value.as_str()], found),
        }
    }
}

/// What is wrong before anybody reads the request.
fn in_text(line: &Line, send: &Given<String>) -> Option<(&'static Rule, String)> {
    let text = send.value.as_str();
    for variable in line
        .variables
        .iter()
        .filter(|variable| variable.word == send.word)
    {
        let name = &variable.name;
        match &variable.default {
            Some(default) if default.contains('$') => {
                let message = format!("the default of {name} is the text {default:?}");
                return Some((&rules::SEND_NESTED, message));
            }
            None if !variable.is_set => {
                return Some((
                    &rules::SEND_VARIABLE,
                    format!("the variable {name} is not set"),
                ));
            }
            Some(_) | None => {}
        }
    }
    let (first, behind) = text
        .split_once('\n')
        .map_or((text, None), |(f, b)| (f, Some(b)));
    let is_last = line.arguments().len() == send.word + 1;
    match behind {
        None if first.trim_end().ends_with("\\n") => {
            return Some((
                &rules::SEND_LITERAL,
                "a backslash and an n are sent".to_owned(),
            ));
        }
        None if is_last && line.comment.is_some() => {
            return Some((&rules::SEND_COMMENT, format!("only {first:?} is sent")));
        }
        None => return Some((&rules::SEND_NEWLINE, format!("{first:?} is sent"))),
        Some("") => {}
        Some(behind) => return Some((&rules::SEND_LINES, format!("{behind:?} is not read"))),
    }
    if text.len() > REQUEST_BYTES_MAX {
        let message = format!("{} bytes are sent", text.len());
        return Some((&rules::SEND_LENGTH, message));
    }
    let percent = first.find('%')?;
    let format = first[percent..].split(' ').next().unwrap_or_default();
    Some((&rules::SEND_FORMAT, format!("{format:?} is sent")))
}

fn asked(
    row: &Row<'_>,
    send: &Given<String>,
    request: &Request<'_>,
    senders: usize,
    found: &mut Findings,
) {
    let (id, weight) = (row.id(), row.options().weight());
    if request.server != id {
        if send.line != row.server.line {
            let message = "one agent-send for several servers";
            found.add(&rules::SEND_SHARED, send.line, message);
        } else if senders > 1 {
            let message = format!("{id} asks what {senders} servers ask: {}", request.server);
            found.add(&rules::SEND_TWICE, send.line, message);
        } else {
            let message = format!("{id} asks about {}", request.server);
            found.add(&rules::SEND_SERVER, send.line, message);
        }
    } else if let Some(base) = request.base.filter(|base| *base != weight && weight > 0) {
        let configured = match &row.options().weight {
            Some(_) => format!("its weight is {weight}"),
            None => format!("it has no weight, which is {weight} for HAProxy"),
        };
        let message = format!("{id} says base={base}, and {configured}");
        found.add(&rules::SEND_BASE, send.line, message);
    }
}
