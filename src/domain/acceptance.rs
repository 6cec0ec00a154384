//! What changes when the store's state is believed as it stands.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::key::{DirectiveKey, Key, META, Target};
use super::listing::{Entry, Listing};
use super::name::{Name, ServerId};
use super::request::{GROUPS_MAX, Request};
use super::sentinel::Generation;
use super::snapshot::{Placed, Snapshot};

/// The most characters of a value that is no directive.
const VALUE_CHARS_MAX: usize = 200;

/// What is said of a row whose groups are not known.
const BY_ITS_GROUPS: &str = "as its groups say (settings.rows does not name them)";

/// A server as one node polls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolledRow {
    /// The server.
    pub server: ServerId,
    /// The node.
    pub node: Name,
    /// The zone that it stands in.
    pub zone: Option<Name>,
    /// The words of its last answer, if it ever had one.
    pub told: Option<String>,
}

/// What changes, in the order of paths and rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// The keys.
    pub keys: Vec<KeyChange>,
    /// The rows.
    pub rows: Vec<RowChange>,
}

/// A key with another meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    /// The path below the prefix.
    pub path: String,
    /// What is believed; `None`: nothing stands there.
    pub believed: Option<String>,
    /// What the store holds.
    pub stored: Option<String>,
}

/// A row with another answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowChange {
    /// The server.
    pub server: String,
    /// The node that polls it; `None`: no node was seen, the settings alone name this row.
    pub node: Option<String>,
    /// The last answer, or where there was none what is believed; `None`: nothing is known.
    pub before: Option<String>,
    /// The answer from then on.
    pub after: String,
}

/// The sentinel that ends a broken history: above all that is `known`, and at least `now` in Unix
/// seconds, so that no replica out of sight is likely to know a higher one. `None` when an epoch is
/// known that nothing is above.
#[must_use]
pub fn next_history(
    now: Timestamp,
    known: impl IntoIterator<Item = Generation>,
) -> Option<Generation> {
    let now = u64::try_from(now.as_second()).unwrap_or(0);
    let (mut epoch, mut r#gen) = (0, 0);
    for generation in known {
        epoch = generation.epoch.max(epoch);
        r#gen = generation.r#gen.max(r#gen);
    }
    Some(Generation {
        epoch: now.max(epoch.checked_add(1)?),
        r#gen: r#gen.saturating_add(1),
    })
}

impl Effect {
    /// Compares what is believed with what the store holds, which has a good sentinel, for every
    /// row that the settings or the fleet know.
    #[must_use]
    pub fn new(
        believed: Option<&Listing>,
        stored: &Listing,
        polled: &[PolledRow],
        now: Timestamp,
    ) -> Self {
        let nothing = Listing::default();
        let before = believed.and_then(|listing| Snapshot::build(listing).ok());
        let Ok(after) = Snapshot::build(stored) else {
            return Self::default();
        };
        let mut keys = other_keys(believed.unwrap_or(&nothing), stored);
        keys.extend(directives(before.as_ref(), &after));
        keys.sort_by(|a, b| a.path.cmp(&b.path));
        let groups_differ = keys.iter().any(|change| is_of_a_group(&change.path));
        let comparison = Comparison {
            before,
            after,
            groups_differ,
            now,
        };
        let rows = comparison.rows(polled);
        Self { keys, rows }
    }
}

struct Comparison {
    before: Option<Snapshot>,
    after: Snapshot,
    groups_differ: bool,
    now: Timestamp,
}

impl Comparison {
    fn rows(&self, polled: &[PolledRow]) -> Vec<RowChange> {
        let seen: BTreeSet<_> = polled.iter().map(|row| &row.server).collect();
        let of_before = self.before.iter().flat_map(|s| s.settings.rows.keys());
        let known: BTreeSet<_> = self.after.settings.rows.keys().chain(of_before).collect();
        let unpolled = known.into_iter().filter(|server| !seen.contains(server));
        let unpolled = unpolled.filter_map(|server| self.row(server, None));
        let polled = polled
            .iter()
            .filter_map(|row| self.row(&row.server, Some(row)));
        let mut rows: Vec<_> = unpolled.chain(polled).collect();
        rows.sort_by(|a, b| (&a.server, &a.node).cmp(&(&b.server, &b.node)));
        rows
    }

    fn row(&self, server: &ServerId, polled: Option<&PolledRow>) -> Option<RowChange> {
        let told = polled.and_then(|row| row.told.as_deref());
        let line = self.line(server, polled);
        let decide = |snapshot: &Snapshot| self.decide(snapshot, &line, server);
        let (believed, after) = (self.before.as_ref().map(decide), decide(&self.after));
        let same = match &believed {
            Some(believed) => *believed == after && (after != BY_ITS_GROUPS || !self.groups_differ),
            None => told == Some(after.as_str()),
        };
        let told_so = told.is_none_or(|told| told == after || after == BY_ITS_GROUPS);
        if same && told_so {
            return None;
        }
        Some(RowChange {
            server: server.to_string(),
            node: polled.map(|row| row.node.to_string()),
            before: told.map(ToOwned::to_owned).or(believed),
            after,
        })
    }

    /// The words of the answer to a request line.
    fn decide(&self, snapshot: &Snapshot, line: &str, server: &ServerId) -> String {
        let Ok(request) = Request::parse(line.as_bytes()) else {
            return "a request that cannot be read".to_owned();
        };
        let decision = snapshot.decide(&request, request.node.unwrap_or(""), self.now);
        if decision.winner.is_none() && self.groups(server).is_none() {
            return BY_ITS_GROUPS.to_owned();
        }
        decision.answer.words()
    }

    /// The request as this row sends it, so far as it is known: the weight that it states is not.
    fn line(&self, server: &ServerId, polled: Option<&PolledRow>) -> String {
        let mut line = server.to_string();
        for group in self.groups(server).into_iter().flatten().take(GROUPS_MAX) {
            line += &format!(" {group}");
        }
        let Some(row) = polled else { return line };
        line += &format!(" node={}", row.node);
        if let Some(zone) = &row.zone {
            line += &format!(" zone={zone}");
        }
        if row
            .told
            .as_ref()
            .is_some_and(|told| told.starts_with("shadow-"))
        {
            line += " mode=shadow";
        }
        line
    }

    fn groups(&self, server: &ServerId) -> Option<&[Name]> {
        let of = |snapshot: &'_ Snapshot| snapshot.settings.rows.contains_key(server);
        let snapshots = std::iter::once(&self.after).chain(&self.before);
        let snapshot = snapshots.into_iter().find(|snapshot| of(snapshot))?;
        Some(&snapshot.settings.rows.get(server)?.groups)
    }
}

fn directives(before: Option<&Snapshot>, after: &Snapshot) -> Vec<KeyChange> {
    let text = |placed: Option<&Placed>| placed.map(Placed::text);
    let change = |path: &str, before: Option<&Placed>, after: Option<&Placed>| KeyChange {
        path: path.to_owned(),
        believed: text(before),
        stored: text(after),
    };
    match before {
        Some(before) => {
            let differences = after.differences(before).into_iter();
            differences
                .map(|d| change(d.path(), d.before, d.after))
                .collect()
        }
        None => after
            .placed()
            .map(|placed| change(&placed.path, None, Some(placed)))
            .collect(),
    }
}

/// Settings and deploys; the sentinel is what accepting writes, and other keys mean nothing.
fn other_keys(believed: &Listing, stored: &Listing) -> Vec<KeyChange> {
    let meant = |listing: &Listing| -> BTreeMap<String, String> {
        let meant = listing
            .entries
            .iter()
            .filter(|(path, _)| match Key::parse(path) {
                Key::Settings | Key::Deploy(_) => true,
                Key::Meta | Key::Directive(_) | Key::Folder | Key::Unknown => false,
            });
        meant
            .map(|(path, entry)| (path.clone(), shown(entry)))
            .collect()
    };
    let (before, after) = (meant(believed), meant(stored));
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let value =
        |listing: &Listing, path: &String| listing.entries.get(path).map(|e| e.value.clone());
    paths
        .into_iter()
        .filter(|path| value(believed, path) != value(stored, path))
        .map(|path| KeyChange {
            path: path.clone(),
            believed: before.get(path).cloned(),
            stored: after.get(path).cloned(),
        })
        .collect()
}

fn shown(entry: &Entry) -> String {
    let text = String::from_utf8_lossy(&entry.value);
    let text = text.trim();
    let mut shown: String = text
        .chars()
        .take(VALUE_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(VALUE_CHARS_MAX).is_some() {
        shown += "...";
    }
    shown
}

fn is_of_a_group(path: &str) -> bool {
    match Key::parse(path) {
        Key::Directive(DirectiveKey { target, .. }) => matches!(target, Target::Group(_)),
        Key::Meta | Key::Settings | Key::Deploy(_) | Key::Folder | Key::Unknown => false,
    }
}

/// The same listing with this sentinel.
#[must_use]
pub fn with_sentinel(listing: &Listing, meta: &str) -> Listing {
    let mut listing = listing.clone();
    let entry = Entry {
        value: meta.to_owned().into(),
        modify_index: listing.index,
    };
    listing.entries.insert(META.to_owned(), entry);
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: (&str, &str) = (
        "settings",
        r#"{"rows":[{"server":"web/a","groups":["canary"]},{"server":"web/b"}]}"#,
    );

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn polled(server: &str, node: &str, told: Option<&str>) -> PolledRow {
        PolledRow {
            server: ServerId::parse(server).unwrap(),
            node: name(node),
            zone: Some(name("b")),
            told: told.map(ToOwned::to_owned),
        }
    }

    /// What changes, one line for each key and each row.
    fn check(
        believed: Option<&[(&str, &str)]>,
        stored: &[(&str, &str)],
        polled: &[PolledRow],
        expected: &[&str],
    ) {
        let believed = believed.map(|entries| Listing::with_sentinel(9, entries));
        let stored = Listing::with_sentinel(5, stored);
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let effect = Effect::new(believed.as_ref(), &stored, polled, now);
        let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let keys = effect.keys.iter().map(|change| {
            let (before, after) = (said(&change.believed), said(&change.stored));
            format!("{}: {before} -> {after}", change.path)
        });
        let rows = effect.rows.iter().map(|change| {
            let (node, before) = (said(&change.node), said(&change.before));
            format!("{} on {node}: {before} -> {}", change.server, change.after)
        });
        assert_eq!(keys.chain(rows).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn keys_and_the_rows_that_they_decide_are_told() {
        let drain = r#"{"v":1,"state":"drain"}"#;
        check(
            Some(&[ROWS, ("canary-state", "drain")]),
            &[
                ROWS,
                ("canary-state", "40%"),
                ("zones/b/canary-state", "drain"),
            ],
            &[polled("web/a", "lb-1", Some("drain"))],
            &[
                r#"canary-state: {"v":1,"state":"drain"} -> {"v":1,"state":"ready","weight":40}"#,
                &format!("zones/b/canary-state: - -> {drain}"),
            ],
        );
        check(
            Some(&[
                ROWS,
                ("canary-state", "drain"),
                ("server-overrides/web/b", "maint"),
            ]),
            &[ROWS, ("canary-state", "40%")],
            &[polled("web/b", "lb-1", Some("maint"))],
            &[
                r#"canary-state: {"v":1,"state":"drain"} -> {"v":1,"state":"ready","weight":40}"#,
                r#"server-overrides/web/b: {"v":1,"state":"maint"} -> -"#,
                "web/a on -: drain -> ready 40%",
                "web/b on lb-1: maint -> ready 100%",
            ],
        );
        check(
            Some(&[ROWS]),
            &[ROWS],
            &[polled("web/b", "lb-1", None)],
            &[],
        );
    }

    #[test]
    fn a_last_answer_that_differs_is_told_although_the_keys_are_the_same() {
        check(
            Some(&[ROWS]),
            &[ROWS],
            &[polled("web/b", "lb-1", Some("drain"))],
            &["web/b on lb-1: drain -> ready 100%"],
        );
        check(
            None,
            &[ROWS],
            &[
                polled("web/b", "lb-1", Some("shadow-ready-100")),
                polled("web/b", "lb-2", Some("maint")),
            ],
            &[
                r#"settings: - -> {"rows":[{"server":"web/a","groups":["canary"]},{"server":"web/b"}]}"#,
                "web/a on -: - -> unknown-group",
                "web/b on lb-2: maint -> ready 100%",
            ],
        );
    }

    #[test]
    fn of_a_row_whose_groups_are_not_known_no_answer_is_made_up() {
        let by_groups = format!("web/x on lb-1: drain -> {BY_ITS_GROUPS}");
        check(
            Some(&[("canary-state", "drain")]),
            &[("canary-state", "ready"), ("deploys/main", "{}")],
            &[polled("web/x", "lb-1", Some("drain"))],
            &[
                r#"canary-state: {"v":1,"state":"drain"} -> {"v":1,"state":"ready","weight":100}"#,
                "deploys/main: - -> {}",
                &by_groups,
            ],
        );
        check(
            Some(&[]),
            &[("server-overrides/web/x", "maint")],
            &[polled("web/x", "lb-1", Some("drain"))],
            &[
                r#"server-overrides/web/x: - -> {"v":1,"state":"maint"}"#,
                "web/x on lb-1: drain -> maint",
            ],
        );
    }

    #[test]
    fn a_new_history_is_above_all_that_is_known() {
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let known = |epoch, r#gen| Generation { epoch, r#gen };
        let seconds = 1_796_032_800;
        for (all, expected) in [
            (vec![], Some(known(seconds, 1))),
            (vec![known(1, 9), known(2, 3)], Some(known(seconds, 10))),
            (vec![known(seconds, 1)], Some(known(seconds + 1, 2))),
            (vec![known(1 << 40, 1)], Some(known((1 << 40) + 1, 2))),
            (vec![known(u64::MAX, 1)], None),
        ] {
            assert_eq!(next_history(now, all), expected);
        }
    }
}
