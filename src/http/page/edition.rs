//! The page at one moment, in sections: only those that changed are sent to who looks.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use jiff::Timestamp;

use super::look::Look;
use super::render;
use crate::domain::name::Name;

/// How long the nodes stand as they were shown while nothing but their last polls is new.
const POLLS_EVERY: Duration = Duration::from_secs(5);

/// The page at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edition {
    /// Grows with each one of this process.
    pub(super) number: u64,
    /// As of when.
    pub(super) at: Timestamp,
    /// Its title.
    pub(super) title: String,
    /// Its parts in their order.
    pub(super) sections: Vec<Section>,
}

/// A part of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The element that holds it.
    pub(super) id: &'static str,
    /// What the element holds.
    pub(super) html: String,
    /// The edition that it is of.
    pub(super) number: u64,
    /// When it was made.
    made: Timestamp,
    /// What it says, the times of polls left out.
    essence: u64,
}

impl Edition {
    /// What follows `before`.
    pub(super) fn of(look: &Look, before: Option<&Self>, first: u64) -> Self {
        let number = before.map_or(first, |before| before.number + 1);
        let section = |(id, html, essence): (&'static str, String, Option<u64>)| {
            let new = Section {
                id,
                essence: essence.unwrap_or_else(|| hashed(&html)),
                html,
                number,
                made: look.board.at,
            };
            let known = before.and_then(|before| before.sections.iter().find(|s| s.id == id));
            match known {
                Some(known) if known.stands_for(&new) => known.clone(),
                Some(_) | None => new,
            }
        };
        let sections = [
            ("top", render::top(look), None),
            ("canary", render::canary(look), None),
            ("problems", render::problems(look), None),
            ("replicas", render::replicas(look), None),
            ("servers", render::servers(look), None),
            ("nodes", render::nodes(look), Some(essence(look))),
            ("stands", render::stands(look), None),
        ];
        let sections = sections.into_iter();
        let sections = sections.map(|(id, html, essence)| (id, html.into_string(), essence));
        Self {
            number,
            at: look.board.at,
            title: render::title(look),
            sections: sections.map(section).collect(),
        }
    }
}

impl Section {
    fn stands_for(&self, new: &Self) -> bool {
        let age = Duration::try_from(new.made.duration_since(self.made)).unwrap_or_default();
        self.html == new.html || (self.essence == new.essence && age < POLLS_EVERY)
    }
}

fn hashed(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    html.hash(&mut hasher);
    hasher.finish()
}

/// What the nodes say beside their last polls.
fn essence(look: &Look) -> u64 {
    let mut hasher = DefaultHasher::new();
    let nodes = &look.board.nodes;
    (nodes.total, nodes.more, nodes.silent, nodes.waiting).hash(&mut hasher);
    for line in &nodes.listed {
        let place = (line.name.as_str(), line.zone.as_ref().map(Name::as_str));
        let counts = (line.applied, line.rows, line.silent, line.waiting);
        (place, counts).hash(&mut hasher);
    }
    hasher.finish()
}
