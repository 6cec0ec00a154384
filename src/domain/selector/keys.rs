//! Which keys a selector is about: for the history.

use std::collections::BTreeSet;

use super::{CandidateNode, Matcher, SelectionError, Selector, Tag};
use crate::domain::key::{DirectiveKey, Scope, Target};
use crate::domain::name::Name;
use crate::domain::settings::Settings;

/// A selector among the keys of a prefix.
///
/// - `backend` and `server`: the overrides of such servers, and the directives of the groups that
///   such a row of the settings is of.
/// - `group`: the group's own directives, and the overrides of its rows.
/// - `zone`, `node`, `role`: what is written for the polls of that zone or node alone, as it is
///   with `set`.
/// - a word: a part of the path.
#[derive(Debug)]
pub struct KeyMatcher<'a> {
    selector: &'a Selector,
    matcher: Matcher<'a>,
    settings: &'a Settings,
}

impl<'a> KeyMatcher<'a> {
    /// Looks at the zones of the settings' nodes, and at these.
    ///
    /// # Errors
    /// [`SelectionError::ZoneOfSeveral`].
    pub fn new(
        selector: &'a Selector,
        settings: &'a Settings,
        zones: impl Iterator<Item = &'a Name>,
    ) -> Result<Self, SelectionError> {
        let of_nodes = settings
            .nodes
            .values()
            .filter_map(|node| node.zone.as_ref());
        let zones: BTreeSet<_> = of_nodes.chain(zones).collect();
        Ok(Self {
            selector,
            matcher: Matcher::new(selector, &zones, |_| false)?,
            settings,
        })
    }

    /// Whether the selector is about this path below the prefix.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let words = &self.selector.words;
        let named = words.is_empty() || words.iter().any(|word| path.contains(word.as_str()));
        if !named || self.selector.terms.is_empty() {
            return named;
        }
        DirectiveKey::parse(path)
            .is_some_and(|key| self.is_of(&key.target) && self.is_for(&key.scope))
    }

    /// Whether the selector is about this directive of one server. A word is a part of the server's
    /// id here, not of the path.
    #[must_use]
    pub fn matches_override(&self, key: &DirectiveKey) -> bool {
        let Target::Server(id) = &key.target else {
            return false;
        };
        let words = &self.selector.words;
        let named = words.is_empty() || words.iter().any(|word| id.as_str().contains(&**word));
        let has_terms = !self.selector.terms.is_empty();
        named && (!has_terms || (self.is_of(&key.target) && self.is_for(&key.scope)))
    }

    fn is_of(&self, target: &Target) -> bool {
        match target {
            Target::Server(id) => {
                let row = self.settings.rows.get(id);
                let groups = row.map_or(&[][..], |row| row.groups.as_slice());
                self.matcher.terms_match_server(id, groups)
            }
            Target::Group(group) => {
                let groups = std::slice::from_ref(group);
                self.matcher.terms_match_group(group)
                    || self.settings.rows.iter().any(|(id, row)| {
                        row.groups.contains(group) && self.matcher.terms_match_server(id, groups)
                    })
            }
        }
    }

    fn is_for(&self, scope: &Scope) -> bool {
        let nodes = &self.settings.nodes;
        match scope {
            Scope::Fleet => !self.selector.is_about_nodes(),
            Scope::Node(name) => {
                let node = nodes.get(name);
                self.matcher.matches_node(&CandidateNode {
                    name,
                    zone: node.and_then(|node| node.zone.as_ref()),
                    role: node.and_then(|node| node.role.as_ref()),
                })
            }
            // It says neither a node nor a role.
            Scope::Zone(zone) => {
                let uses = |tag| self.selector.terms.iter().any(|term| term.tag == tag);
                !uses(Tag::Node) && !uses(Tag::Role) && self.matcher.matches_zone(zone)
            }
        }
    }
}
