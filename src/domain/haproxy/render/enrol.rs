//! The second step: what shall ask is put in.

use std::collections::{BTreeMap, BTreeSet};

use super::edit::{self, Edit, Edits};
use super::strip::{Kept, Known};
use super::{AgentWords, BASE_DEFAULT, Mode, RenderError, RequestText, Value, Wish, agreed, start};
use super::{groups, is_the_canary, local_peer};
use crate::domain::haproxy::lint::{Readings, Row};
use crate::domain::haproxy::reading::{File, Reading};
use crate::domain::haproxy::server::AGENT_INTER_MS_DEFAULT;
use crate::domain::name::ServerId;

/// Files with agent checks.
pub(super) struct Enrolled {
    pub(super) files: Vec<File>,
    pub(super) remarks: BTreeSet<String>,
}

pub(super) fn enrol(
    readings: &Readings<'_>,
    wish: &Wish<'_>,
    known: &BTreeMap<usize, Known>,
) -> Result<Enrolled, RenderError> {
    let mut remarks = BTreeSet::new();
    let files = agreed(readings, |reading, scene| {
        let mut edits = Edits::default();
        let mut asks = false;
        let rows = scene.of_backends().flat_map(|rows| {
            let raised = raised(reading, rows, wish);
            rows.iter().map(move |row| (row, raised))
        });
        for (row, raised) in rows {
            let mode = wish.mode(row);
            match text(reading, row, raised, wish, known)? {
                Outcome::Words(words) => {
                    let at = edit::words_end(reading, &reading.lines[row.server.line]);
                    let insert = Some((at, format!(" {words}")));
                    edits.0.insert(
                        row.server.line,
                        Edit {
                            insert,
                            ..Edit::default()
                        },
                    );
                    asks |= mode != Some(Mode::Off);
                }
                Outcome::AsItIs => asks |= row.server.has_agent(),
                Outcome::Left(why) => {
                    let place = reading.place(row.server.line);
                    remarks.insert(format!("{place}: {} is left as it is: {why}", row.id()));
                    asks |= row.server.has_agent();
                }
            }
        }
        start::settle(reading, scene, asks, &mut edits);
        Ok(edits)
    })?;
    Ok(Enrolled { files, remarks })
}

enum Outcome {
    Words(String),
    AsItIs,
    Left(String),
}

/// The words that a server gets.
fn text(
    reading: &Reading<'_>,
    row: &Row<'_>,
    raised: Option<u16>,
    wish: &Wish<'_>,
    known: &BTreeMap<usize, Known>,
) -> Result<Outcome, RenderError> {
    let left = |why: &str| Ok(Outcome::Left(why.to_owned()));
    let Some(mode) = wish.mode(row) else {
        return Ok(Outcome::AsItIs);
    };
    if mode == Mode::Off {
        // What is left comes from a default-server.
        let still = row.server.has_agent();
        return Ok(if still {
            Outcome::Words("no-agent-check".to_owned())
        } else {
            Outcome::AsItIs
        });
    }
    if row.server.is_template {
        return left("all servers of a template ask as one, and cannot be told apart");
    }
    if !edit::is_plain(&reading.lines[row.server.line]) {
        return left("an empty word, or a variable that is several words, stands in its line");
    }
    let id = match ServerId::parse(&row.id()) {
        Ok(id) => id,
        Err(error) => return left(&error.to_string()),
    };
    // What a default-server gives counts for those that do not ask yet.
    let known = known.get(&row.server.line).cloned();
    let known = known.unwrap_or_else(|| Known::of(reading, row));
    let words = words(row, raised, id, mode, wish, known)?;
    Ok(Outcome::Words(words.to_string()))
}

fn words(
    row: &Row<'_>,
    raised: Option<u16>,
    id: ServerId,
    mode: Mode,
    wish: &Wish<'_>,
    known: Known,
) -> Result<AgentWords, RenderError> {
    let asking = &wish.asking;
    let no_agent = || RenderError::NoAgent(id.to_string());
    let agent = asking.agent.or(known.agent).ok_or_else(no_agent)?;
    let groups = groups(&id, wish, known.groups.as_ref());
    let is_canary = row.is_canary() || groups.iter().any(is_the_canary);
    let weight = raised.unwrap_or_else(|| row.options().weight());
    let inter = asking.inter_ms.or(known.inter_ms);
    let kept = |known: Option<Kept>| {
        let unkept = |text| RenderError::Unkept(id.to_string(), text);
        known.transpose().map_err(unkept)
    };
    let node = match &asking.node {
        Some(node) => node.clone(),
        None => kept(known.node)?.unwrap_or_else(local_peer),
    };
    let zone = match asking.zone.clone().or_else(|| zone_of_settings(wish)) {
        Some(zone) => Some(zone),
        None => kept(known.zone)?,
    };
    Ok(AgentWords {
        request: RequestText {
            server: id,
            groups,
            node,
            zone,
            base: (weight > 0).then_some(weight),
            mode,
        },
        agent,
        inter_ms: inter.unwrap_or(AGENT_INTER_MS_DEFAULT),
        weight: raised,
        disabled: mode == Mode::On && is_canary,
    })
}

/// The weight that the servers of a backend get where all have one smaller weight and are raised
/// together: their shares stay as they are. Nothing that is only shown changes a weight.
fn raised(reading: &Reading<'_>, rows: &[Row<'_>], wish: &Wish<'_>) -> Option<u16> {
    let base = wish.asking.base.unwrap_or(BASE_DEFAULT);
    let weight = rows.first()?.options().weight();
    let fits = |row: &Row<'_>| {
        row.options().weight() == weight
            && wish.mode(row) == Some(Mode::On)
            && !row.server.is_template
            && edit::is_plain(&reading.lines[row.server.line])
    };
    (rows.iter().all(fits) && weight > 0 && weight < base).then_some(base)
}

/// The zone of a node that is called by its name.
fn zone_of_settings(wish: &Wish<'_>) -> Option<Value> {
    let Some(Value::Name(node)) = &wish.asking.node else {
        return None;
    };
    let zone = wish.settings?.nodes.get(node)?.zone.clone()?;
    Some(Value::Name(zone))
}
