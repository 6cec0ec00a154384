//! The first step: what asks is taken out, and remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::edit::{self, Edit, Edits, Tail};
use super::{Mode, RenderError, Value, Wish, agreed};
use crate::domain::haproxy::lint::{Readings, Row};
use crate::domain::haproxy::reading::{File, Reading};
use crate::domain::name::Name;
use crate::domain::request::Request;

/// Files without agent checks, as far as the wish is about them.
pub(super) struct Stripped {
    pub(super) files: Vec<File>,
    /// How servers asked, by their line.
    pub(super) known: BTreeMap<usize, Known>,
    pub(super) servers: BTreeSet<String>,
    pub(super) remarks: BTreeSet<String>,
}

/// How a server asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) agent: Option<SocketAddr>,
    pub(super) inter_ms: Option<u64>,
    pub(super) groups: Option<Vec<Name>>,
    pub(super) node: Option<Kept>,
    pub(super) zone: Option<Kept>,
}

/// A name or a variable; `Err`: the text of what is neither, such as `node=lb-${N}`.
pub(super) type Kept = Result<Value, String>;

pub(super) fn strip(readings: &Readings<'_>, wish: &Wish<'_>) -> Result<Stripped, RenderError> {
    let (mut known, mut servers, mut remarks) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let mut backends = BTreeSet::new();
    let files = agreed(readings, |reading, scene| {
        let mut edits = Edits::default();
        let of_backends = scene.of_backends();
        let rows = of_backends.flat_map(|rows| {
            let is_raised = is_raised(reading, rows, wish);
            rows.iter().map(move |row| (row, is_raised))
        });
        for (row, is_raised) in rows {
            backends.insert(row.proxy.name.clone());
            let Some(mode) = wish.mode(row) else {
                continue;
            };
            servers.insert(row.id());
            let line = &reading.lines[row.server.line];
            if !row.server.has_agent() {
                continue;
            }
            if !edit::is_plain(line) {
                remarks.insert(format!(
                    "{}: {} is left: its words are not all plain",
                    reading.place(row.server.line),
                    row.id()
                ));
                continue;
            }
            known.insert(row.server.line, Known::of(reading, row));
            let tail = Tail {
                weight: is_raised,
                disabled: is_followed(row) && row.is_canary(),
            };
            let cuts = edit::cuts(line, first(row), tail, loses_disabled(row, mode));
            edits.0.insert(
                row.server.line,
                Edit {
                    cuts,
                    ..Edit::default()
                },
            );
        }
        Ok(edits)
    })?;
    if let Some(gone) = wish.backends.keys().find(|name| !backends.contains(*name)) {
        return Err(RenderError::NoBackend(gone.clone()));
    }
    if servers.is_empty() {
        return Err(RenderError::NoServer);
    }
    Ok(Stripped {
        files,
        known,
        servers,
        remarks,
    })
}

/// The index of a server line's first word behind its address.
pub(super) fn first(row: &Row<'_>) -> usize {
    if row.server.is_template { 4 } else { 3 }
}

/// Whether the agent brought a server out of the maintenance that its line starts it in: nobody
/// else would.
fn loses_disabled(row: &Row<'_>, mode: Mode) -> bool {
    is_followed(row) && (mode != Mode::On || row.is_canary())
}

fn is_followed(row: &Row<'_>) -> bool {
    row.request.is_none_or(|request| !request.shadow)
}

/// Whether the weights behind the agent's words of a backend are there because all were raised
/// together. Any others are the file's own: without them the shares would change.
fn is_raised(reading: &Reading<'_>, rows: &[Row<'_>], wish: &Wish<'_>) -> bool {
    let weights = |row: &Row<'_>| {
        wish.mode(row)?;
        let line = reading.lines.get(row.server.line)?;
        let (before, behind) = edit::weights(line, first(row))?;
        let before = before.unwrap_or_else(|| row.proxy.common.server.weight());
        (0 < before && before < behind).then_some((before, behind))
    };
    let all_of = rows.first().and_then(weights);
    all_of.is_some() && rows.iter().all(|row| weights(row) == all_of)
}

impl Known {
    pub(super) fn of(reading: &Reading<'_>, row: &Row<'_>) -> Self {
        let options = row.options();
        let port = options.agent_port.as_ref();
        let port = port
            .and_then(|given| given.value.parse().ok())
            .filter(|port| *port > 0);
        let request = row.request.as_ref();
        let names = |request: &Request<'_>| {
            let groups = request.groups().iter();
            groups.filter_map(|group| Name::parse(group).ok()).collect()
        };
        Self {
            agent: row.agent_address().zip(port).map(SocketAddr::from),
            inter_ms: options.agent_inter.as_ref().map(|given| given.value),
            groups: request.map(names),
            node: value(reading, row, "node"),
            zone: value(reading, row, "zone"),
        }
    }
}

/// What a key of the request has in the file, where a variable is not put in yet.
fn value(reading: &Reading<'_>, row: &Row<'_>, key: &str) -> Option<Kept> {
    let send = row.options().agent_send.as_ref()?;
    row.request?;
    let line = reading.lines.get(send.line)?;
    let span = line.words.get(send.word)?.span.clone();
    let text = std::str::from_utf8(&reading.bytes(line)[span]).ok()?;
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
    words.find_map(|word| {
        let text = word.strip_prefix(key)?.strip_prefix('=')?;
        Some(text.parse().map_err(|_| word.to_owned()))
    })
}
