//! The key `settings`: what the fleet looks like, and what a careless hand may not do.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::directive::Directive;
use super::key::{CANARY, DirectiveKey, Scope, Target};
use super::name::{Name, ServerId};

/// Fleet-wide settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Rule of the snapshot against one careless write.
    pub guard: Option<Guard>,
    /// Known rows: each server and the groups it belongs to.
    pub rows: BTreeMap<ServerId, BTreeSet<Name>>,
}

/// What needs `by`, `reason` and `force` in a JSON directive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// Groups that are not to be drained lightly.
    pub groups: BTreeSet<Name>,
    /// The most rows that one directive may take away.
    pub rows_max: Option<usize>,
}

#[derive(Deserialize)]
struct Wire {
    guard: Option<WireGuard>,
    #[serde(default)]
    rows: Vec<WireRow>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireGuard {
    #[serde(default)]
    groups: Vec<String>,
    rows_max: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRow {
    server: String,
    #[serde(default)]
    groups: Vec<String>,
}

impl Settings {
    /// Reads the value, and names the fields that this version does not know: they may be rails of
    /// a later command line, and are no reason to give up the guard.
    ///
    /// # Errors
    /// Text for the person who wrote the value.
    pub fn parse(value: &[u8]) -> Result<(Self, Vec<String>), String> {
        let wire: Wire = serde_json::from_slice(value).map_err(|error| error.to_string())?;
        let guard = wire.guard.map(|guard| -> Result<_, String> {
            Ok(Guard {
                groups: names("guard.groups", &guard.groups)?,
                rows_max: guard.rows_max,
            })
        });
        let mut rows = BTreeMap::new();
        for row in &wire.rows {
            let bad = |error| format!("rows: server {:?}: {error}", row.server);
            let server = ServerId::parse(&row.server).map_err(bad)?;
            if rows
                .insert(server, names("rows: groups", &row.groups)?)
                .is_some()
            {
                return Err(format!("rows: server {:?} stands there twice", row.server));
            }
        }
        let settings = Self {
            guard: guard.transpose()?,
            rows,
        };
        Ok((settings, wire.others.into_keys().collect()))
    }

    /// Why the guard refuses a directive; `None` when it does not.
    #[must_use]
    pub fn refusal(&self, key: &DirectiveKey, directive: &Directive) -> Option<String> {
        let guard = self.guard.as_ref()?;
        let author = &directive.author;
        let told = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.trim().is_empty());
        let known = directive.force && told(&author.by) && told(&author.reason);
        if known || is_canary_state(key) || !directive.takes_away() {
            return None;
        }
        let why = self.guarded(guard, &key.target)?;
        Some(format!(
            "{why}: taking it out needs a JSON directive with by, reason and force"
        ))
    }

    fn guarded(&self, guard: &Guard, target: &Target) -> Option<String> {
        let rows = match target {
            Target::Group(group) if guard.groups.contains(group) => {
                return Some(format!("the group {group} is protected by settings.guard"));
            }
            Target::Group(group) => self
                .rows
                .values()
                .filter(|groups| groups.contains(group))
                .count(),
            Target::Server(id) => {
                let groups = self.rows.get(id);
                let protected = groups.and_then(|gs| gs.iter().find(|g| guard.groups.contains(*g)));
                if let Some(group) = protected {
                    return Some(format!(
                        "{id} is of the group {group}, protected by settings.guard"
                    ));
                }
                usize::from(groups.is_some())
            }
        };
        let rows_max = guard.rows_max.filter(|&max| rows > max)?;
        Some(format!(
            "it covers {rows} rows, settings.guard.rows_max is {rows_max}"
        ))
    }
}

/// `canary-state` itself is never guarded: it is what people change in an emergency.
fn is_canary_state(key: &DirectiveKey) -> bool {
    let canary = matches!(&key.target, Target::Group(group) if group.as_str() == CANARY);
    canary && key.scope == Scope::Fleet
}

fn names(field: &str, texts: &[String]) -> Result<BTreeSet<Name>, String> {
    let name = |text: &String| Name::parse(text).map_err(|e| format!("{field}: {text:?}: {e}"));
    texts.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: &str = r#"{"guard":{"groups":["main"],"rows_max":1},"floors":{},
        "rows":[{"server":"web/a","groups":["main"]},{"server":"web/b","groups":["ci"]},
                {"server":"web/c","groups":["ci"]},{"server":"web/d","groups":["canary"]},
                {"server":"web/e","groups":["canary"]}]}"#;

    fn check(path: &str, value: &str, refused: Option<&str>) {
        let (settings, _) = Settings::parse(SETTINGS.as_bytes()).unwrap();
        let key = DirectiveKey::parse(path).unwrap();
        let refusal = settings.refusal(&key, &Directive::parse(value.as_bytes()).unwrap());
        match (refused, &refusal) {
            (None, None) => {}
            (Some(text), Some(got)) if got.contains(text) => {}
            _ => panic!("{path} = {value}: expected {refused:?}, got {refusal:?}"),
        }
    }

    #[test]
    fn the_guard_refuses_what_takes_protected_rows_away() {
        check(
            "group-states/main",
            "drain",
            Some("group main is protected"),
        );
        check(
            "zones/b/group-states/main",
            "maint",
            Some("group main is protected"),
        );
        check("group-states/main", "ready", None);
        check("group-states/main", "40%", None);
        check(
            "group-states/ci",
            "drain",
            Some("covers 2 rows, settings.guard.rows_max is 1"),
        );
        check("group-states/elsewhere", "drain", None);
        check(
            "server-overrides/web/a",
            "drain",
            Some("web/a is of the group main"),
        );
        check("server-overrides/web/b", "drain", None);
        check("canary-state", "drain", None);
        check("canary-state", r#"{"state":"maint"}"#, None);
        check("zones/b/canary-state", "drain", Some("covers 2 rows"));
    }

    #[test]
    fn a_ramp_by_nodes_and_a_plan_take_away_too() {
        let ramp = r#"{"state":"ready","ramp":{"by":"nodes","steps":[5]}}"#;
        check("group-states/main", ramp, Some("protected"));
        let plan = r#"{"state":"ready","then":{"state":"maint","after":"1h"},"since":"2026-01-01T00:00:00Z"}"#;
        check("group-states/main", plan, Some("protected"));
    }

    #[test]
    fn knowingly_needs_by_reason_and_force() {
        for fields in [
            r#""force":true"#,
            r#""by":"a","reason":"b""#,
            r#""by":"a","force":true"#,
            r#""by":"","reason":"","force":true"#,
            r#""by":"a","reason":" ","force":true"#,
        ] {
            check(
                "group-states/main",
                &format!("{{\"state\":\"drain\",{fields}}}"),
                Some("protected"),
            );
        }
        check(
            "group-states/main",
            r#"{"state":"drain","by":"a","reason":"b","force":true}"#,
            None,
        );
    }

    #[test]
    fn unknown_fields_are_named_and_bad_ones_refused() {
        assert_eq!(Settings::parse(SETTINGS.as_bytes()).unwrap().1, ["floors"]);
        for (value, text) in [
            ("", "EOF"),
            (r#"{"guard":{"group":["a"]}}"#, "unknown field `group`"),
            (r#"{"guard":{"groups":["a b"]}}"#, "guard.groups: \"a b\""),
            (r#"{"rows":[{"server":"web"}]}"#, "rows: server \"web\""),
            (r#"{"rows":[{"server":"a/b"},{"server":"a/b"}]}"#, "twice"),
        ] {
            let error = Settings::parse(value.as_bytes()).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Settings::parse(&bytes);
        }
    }
}
