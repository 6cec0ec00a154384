//! What a command changes, and in which order it is written.

use bytes::Bytes;

use super::directive::Directive;
use super::key::{DirectiveKey, META};
use super::listing::{Entry, Listing};

/// One path below the prefix, and what shall stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The path.
    pub path: String,
    /// What stood there when it was looked at.
    pub before: Option<Entry>,
    /// The value; `None`: nothing.
    pub after: Option<Bytes>,
}

/// In which order edits are written that do not fit one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Takes traffic away: first, so that no server is opened before what shall be closed with it.
    Closes,
    /// Changes no answer by itself.
    Neither,
    /// Gives traffic: last.
    Opens,
}

impl Edit {
    /// An edit of what stands in this listing. `None` when it would change no byte.
    #[must_use]
    pub fn of(listing: &Listing, path: impl Into<String>, after: Option<Bytes>) -> Option<Self> {
        let path = path.into();
        let before = listing.entries.get(&path).cloned();
        let same = before.as_ref().map(|entry| &entry.value) == after.as_ref();
        (!same).then_some(Self {
            path,
            before,
            after,
        })
    }

    /// How many operations of a transaction it takes: a delete at an index needs a check as well.
    #[must_use]
    pub const fn operations(&self) -> usize {
        if self.after.is_some() { 1 } else { 2 }
    }

    /// The directive that it writes, if it is one.
    #[must_use]
    pub fn directive(&self) -> Option<(DirectiveKey, Directive)> {
        let directive = Directive::parse(self.after.as_ref()?).ok()?;
        Some((DirectiveKey::parse(&self.path)?, directive))
    }

    fn turn(&self) -> Turn {
        if DirectiveKey::parse(&self.path).is_none() {
            return Turn::Neither;
        }
        match &self.after {
            Some(value) => match Directive::parse(value) {
                Ok(directive) if directive.takes_away() => Turn::Closes,
                Ok(_) => Turn::Opens,
                Err(_) => Turn::Neither,
            },
            None => Turn::Opens,
        }
    }
}

/// The edits in parts of at most so many operations each, what takes traffic away first.
#[must_use]
pub fn parts(mut edits: Vec<Edit>, operations_max: usize) -> Vec<Vec<Edit>> {
    edits.sort_by(|a, b| (a.turn(), &a.path).cmp(&(b.turn(), &b.path)));
    let mut parts: Vec<Vec<Edit>> = Vec::new();
    let mut room = 0;
    for edit in edits {
        let needs = edit.operations();
        if let Some(part) = parts.last_mut().filter(|_| needs <= room) {
            room -= needs;
            part.push(edit);
        } else {
            room = operations_max.saturating_sub(needs);
            parts.push(vec![edit]);
        }
    }
    parts
}

/// The listing as it is after these edits. Its sentinel stays.
#[must_use]
pub fn applied<'a>(listing: &Listing, edits: impl IntoIterator<Item = &'a Edit>) -> Listing {
    let mut listing = listing.clone();
    listing.index += 1;
    for edit in edits.into_iter().filter(|edit| edit.path != META) {
        match &edit.after {
            Some(value) => {
                let entry = Entry {
                    value: value.clone(),
                    modify_index: listing.index,
                };
                listing.entries.insert(edit.path.clone(), entry);
            }
            None => {
                listing.entries.remove(&edit.path);
            }
        }
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(listing: &Listing, wanted: &[(&str, Option<&'static str>)]) -> Vec<Edit> {
        let edit = |(path, after): &(&str, Option<&'static str>)| {
            Edit::of(listing, *path, after.map(Bytes::from))
        };
        wanted.iter().filter_map(edit).collect()
    }

    fn paths(part: &[Edit]) -> Vec<&str> {
        part.iter().map(|edit| edit.path.as_str()).collect()
    }

    #[test]
    fn what_closes_comes_first_and_what_opens_last() {
        let listing = Listing::with_sentinel(7, &[("server-overrides/web/a", "drain")]);
        let edits = edits(
            &listing,
            &[
                ("server-overrides/web/a", None),
                ("server-overrides/web/b", Some("ready")),
                ("deploys/main", Some("{}")),
                ("server-overrides/web/c", Some("maint")),
                ("canary-state", Some("drain")),
            ],
        );
        let parts = parts(edits, 2);
        let shown: Vec<_> = parts.iter().map(|part| paths(part)).collect();
        assert_eq!(
            shown,
            [
                vec!["canary-state", "server-overrides/web/c"],
                vec!["deploys/main"],
                vec!["server-overrides/web/a"],
                vec!["server-overrides/web/b"],
            ]
        );
    }

    #[test]
    fn what_stands_already_is_no_edit() {
        let listing = Listing::with_sentinel(7, &[("canary-state", "drain")]);
        let wanted = [("canary-state", Some("drain")), ("settings", None)];
        assert_eq!(edits(&listing, &wanted), []);
    }

    #[test]
    fn edits_are_applied_and_the_sentinel_stays() {
        let listing = Listing::with_sentinel(7, &[("canary-state", "drain"), ("settings", "{}")]);
        let wanted = [("canary-state", None), ("settings", Some(r#"{"v":2}"#))];
        let mut edits = edits(&listing, &wanted);
        edits.push(Edit {
            path: META.to_owned(),
            before: None,
            after: None,
        });
        let after = applied(&listing, &edits);
        let expected = Listing::with_sentinel(8, &[("settings", r#"{"v":2}"#)]);
        let values = |listing: &Listing| -> Vec<_> {
            let entries = listing.entries.iter();
            entries.map(|(p, e)| (p.clone(), e.value.clone())).collect()
        };
        assert_eq!(values(&after), values(&expected));
        assert_eq!(after.entries["settings"].modify_index, 8);
    }
}
