//! A selector among what is known: which servers and LB nodes it means.

use std::collections::{BTreeMap, BTreeSet};

use super::{CandidateNode, SelectionError, Selector, Tag, Term};
use crate::domain::name::{Name, ServerId};

/// What a selector means among the known rows and zones.
#[derive(Debug)]
pub struct Matcher<'a> {
    selector: &'a Selector,
    /// Words that are the whole name of a known row: they mean that row alone, although they are
    /// also a part of others' names.
    whole: Vec<&'a str>,
    /// The other words.
    parts: Vec<&'a str>,
    /// The zones that each expression means.
    zones: BTreeSet<(&'a str, &'a Name)>,
}

impl<'a> Matcher<'a> {
    /// Looks at the known zones of LB nodes, and asks which words are known rows.
    ///
    /// # Errors
    /// [`SelectionError::ZoneOfSeveral`].
    pub fn new(
        selector: &'a Selector,
        zones: &BTreeSet<&'a Name>,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<Self, SelectionError> {
        let words = selector.words.iter().map(String::as_str);
        let (whole, parts) = words.partition(|word| is_known(word));
        let mut meant = BTreeSet::new();
        for term in selector.terms.iter().filter(|term| term.tag == Tag::Zone) {
            for zone in zones_meant(term, zones)? {
                meant.insert((term.pattern.as_str(), zone));
            }
        }
        Ok(Self {
            selector,
            whole,
            parts,
            zones: meant,
        })
    }

    /// Whether a server is selected, on whichever node.
    #[must_use]
    pub fn matches_server(&self, server: &ServerId, groups: &[Name]) -> bool {
        self.names(server.as_str()) && self.terms_match_server(server, groups)
    }

    /// The same without the words.
    pub(super) fn terms_match_server(&self, server: &ServerId, groups: &[Name]) -> bool {
        let (backend, name) = server.parts();
        let term = |term: &Term| match term.tag {
            Tag::Backend => term.pattern.is_match(backend),
            Tag::Server => term.pattern.is_match(name),
            Tag::Group => groups.iter().any(|g| term.pattern.is_match(g.as_str())),
            Tag::Zone | Tag::Node | Tag::Role => true,
        };
        self.selector.terms.iter().all(term)
    }

    /// Whether a group is meant by its name, and no server.
    pub(super) fn terms_match_group(&self, group: &Name) -> bool {
        self.selector.terms.iter().all(|term| match term.tag {
            Tag::Backend | Tag::Server => false,
            Tag::Group => term.pattern.is_match(group.as_str()),
            Tag::Zone | Tag::Node | Tag::Role => true,
        })
    }

    /// Whether a zone is meant, whichever nodes stand in it.
    pub(super) fn matches_zone(&self, zone: &Name) -> bool {
        let mut zones = self
            .selector
            .terms
            .iter()
            .filter(|term| term.tag == Tag::Zone);
        zones.all(|term| self.zones.contains(&(term.pattern.as_str(), zone)))
    }

    /// Whether a node is selected, whichever servers it has.
    #[must_use]
    pub fn matches_node(&self, node: &CandidateNode<'_>) -> bool {
        let named = |term: &Term, name: Option<&Name>| {
            name.is_some_and(|name| term.pattern.is_match(name.as_str()))
        };
        self.selector.terms.iter().all(|term| match term.tag {
            Tag::Backend | Tag::Server | Tag::Group => true,
            Tag::Zone => node.zone.is_some_and(|zone| self.matches_zone(zone)),
            Tag::Node => named(term, Some(node.name)),
            Tag::Role => named(term, node.role),
        })
    }

    fn names(&self, text: &str) -> bool {
        self.selector.words.is_empty()
            || self.whole.contains(&text)
            || self.parts.iter().any(|part| text.contains(part))
    }
}

/// The zones that an expression matches whole; if there is none, those whose last part it matches.
fn zones_meant<'a>(
    term: &Term,
    zones: &BTreeSet<&'a Name>,
) -> Result<Vec<&'a Name>, SelectionError> {
    let whole = zones.iter().copied();
    let whole: Vec<_> = whole
        .filter(|z| term.pattern.is_match(z.as_str()))
        .collect();
    if !whole.is_empty() {
        return Ok(whole);
    }
    let mut by_end: BTreeMap<&str, &Name> = BTreeMap::new();
    for zone in zones.iter().copied() {
        let end = zone.as_str().rsplit('-').next().unwrap_or_default();
        if !term.pattern.is_match(end) {
            continue;
        }
        if let Some(other) = by_end.insert(end, zone) {
            return Err(SelectionError::ZoneOfSeveral {
                pattern: end.to_owned(),
                one: other.clone(),
                other: zone.clone(),
            });
        }
    }
    Ok(by_end.into_values().collect())
}
