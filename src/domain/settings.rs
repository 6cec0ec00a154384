//! The key `settings`: what the fleet looks like, and what a careless hand may not do.
//!
//! The replicas follow the guard, so a fault elsewhere must not switch it off: `nodes`, `rails` and
//! the shape of a row are read apart, and what is wrong there is a [fault](Settings::faults). The
//! commands write nothing until it is mended.

use std::collections::{BTreeMap, BTreeSet};

use super::directive::Directive;
use super::key::{CANARY, DirectiveKey, Scope, Target};
use super::name::{Name, ServerId};

pub use self::rails::{Floors, History, MANY_ROWS, RailSettings, ReasonRule, TtlRule};

mod rails;
mod wire;

/// HAProxy's largest configured weight.
pub const WEIGHT_MAX: u16 = 256;
/// A row's configured weight where the settings do not say it.
pub const WEIGHT_DEFAULT: u16 = 100;

/// Fleet-wide settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Rule of the snapshot against one careless write.
    pub guard: Option<Guard>,
    /// Known rows.
    pub rows: BTreeMap<ServerId, Row>,
    /// Known HAProxy nodes.
    pub nodes: BTreeMap<Name, NodeSettings>,
    /// What the commands refuse.
    pub rails: RailSettings,
    /// What cannot be read, for the person who wrote it: these parts are as if they were not there.
    pub faults: Vec<String>,
}

/// What needs `by`, `reason` and `force` in a JSON directive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// Groups that are not to be drained lightly.
    pub groups: BTreeSet<Name>,
    /// The most rows that one directive may take away.
    pub rows_max: Option<usize>,
}

/// One server of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its groups, in the order in which its `agent-send` names them; default none.
    pub groups: Vec<Name>,
    /// The zone that the server stands in; default none: everywhere.
    pub zone: Option<Name>,
    /// Its configured weight, 0 to [`WEIGHT_MAX`]; default [`WEIGHT_DEFAULT`]. A server of weight 0
    /// gets no new traffic, whatever its state.
    pub weight: u16,
    /// The same for the nodes of single roles.
    pub role_weights: BTreeMap<Name, u16>,
    /// On which nodes it is a `backup` server; default [`Backup::OtherZones`] with a zone, otherwise
    /// [`Backup::Never`].
    pub backup: Backup,
    /// The roles of the nodes that have this row; default none: all nodes.
    pub roles: BTreeSet<Name>,
    /// Whether its agent check follows this program; false for a row that is not enrolled or asks
    /// with `mode=shadow`. Default true.
    pub agent: bool,
}

/// On which nodes a server is a `backup` server: it serves only when no active one can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backup {
    /// On none.
    Never,
    /// On the nodes of every zone but its own.
    OtherZones,
    /// On all.
    Always,
}

/// One HAProxy node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct NodeSettings {
    /// The zone that it stands in.
    pub zone: Option<Name>,
    /// What it is for, such as `main` or `ci`.
    pub role: Option<Name>,
}

impl Settings {
    /// Reads the value, and names the fields that this version does not know: they may be rails of
    /// a later command line, and are no reason to give up the guard.
    ///
    /// # Errors
    /// Text for the person who wrote the value, when the guard, or the servers and groups of the
    /// rows, cannot be read.
    pub fn parse(value: &[u8]) -> Result<(Self, Vec<String>), String> {
        wire::read(value)
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
                .filter(|row| row.groups.contains(group))
                .count(),
            Target::Server(id) => {
                let row = self.rows.get(id);
                let protected =
                    row.and_then(|row| row.groups.iter().find(|g| guard.groups.contains(*g)));
                if let Some(group) = protected {
                    return Some(format!(
                        "{id} is of the group {group}, protected by settings.guard"
                    ));
                }
                usize::from(row.is_some())
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

impl Default for Row {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            zone: None,
            weight: WEIGHT_DEFAULT,
            role_weights: BTreeMap::new(),
            backup: Backup::Never,
            roles: BTreeSet::new(),
            agent: true,
        }
    }
}

impl Row {
    /// Whether it is of a group.
    #[must_use]
    pub fn is_of(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known.as_str() == group)
    }

    /// Its configured weight on the nodes of a role.
    #[must_use]
    pub fn weight_on(&self, role: Option<&Name>) -> u16 {
        let own = role.and_then(|role| self.role_weights.get(role));
        own.copied().unwrap_or(self.weight)
    }

    /// Whether it is an active server, not a backup, on the nodes of a zone.
    #[must_use]
    pub fn is_active_in(&self, zone: Option<&Name>) -> bool {
        match self.backup {
            Backup::Never => true,
            Backup::OtherZones => self.zone.is_some() && self.zone.as_ref() == zone,
            Backup::Always => false,
        }
    }
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

    #[test]
    fn rows_nodes_and_rails_have_the_documented_defaults() {
        let name = |text| Name::parse(text).unwrap();
        let value = r#"{"rows":[
            {"server":"web/b","zone":"us-b","groups":["z","a","z"]},
            {"server":"web/cny","groups":["canary"],"weight":5,"role_weights":{"ci":0},"roles":["main","ci"]},
            {"server":"web/old","zone":"us-b","backup":"always","agent":false,"colour":1}],
            "nodes":[{"name":"lb-1","zone":"us-b","role":"ci","rack":7},{"name":"lb-2"}],
            "rails":{"floors":{"backends":{"web":2}},"ttl":{"max":"7d"},"speed":3}}"#;
        let (settings, unknown) = Settings::parse(value.as_bytes()).unwrap();
        assert_eq!(settings.faults, Vec::<String>::new());
        let expected = [
            "rows: server \"web/old\": colour",
            "nodes: \"lb-1\": rack",
            "rails.speed",
        ];
        assert_eq!(unknown, expected);
        let [main, canary, old] = ["web/b", "web/cny", "web/old"].map(|id| &settings.rows[id]);
        assert_eq!(main.groups, [name("z"), name("a")], "the order counts");
        assert_eq!(main.weight_on(Some(&name("ci"))), WEIGHT_DEFAULT);
        assert!(main.is_active_in(Some(&name("us-b"))) && !main.is_active_in(None));
        assert_eq!(canary.weight_on(Some(&name("ci"))), 0);
        assert_eq!(canary.weight_on(Some(&name("main"))), 5);
        assert!(canary.is_active_in(None) && canary.agent && !old.agent);
        assert!(!old.is_active_in(Some(&name("us-b"))));
        assert_eq!(settings.nodes["lb-1"].role, Some(name("ci")));
        let floors = &settings.rails.floors;
        let floor = |backend, canary_only| floors.of(backend, canary_only);
        assert_eq!(
            [floor("web", true), floor("api", false), floor("api", true)],
            [2, 1, 0]
        );
        assert_eq!(
            settings.rails.ttl.max,
            Some(std::time::Duration::from_hours(7 * 24))
        );
        assert!(settings.rails.stages["cny"].contains("canary"));
    }

    #[test]
    fn a_fault_beside_the_guard_leaves_the_guard_standing() {
        for (field, text) in [
            (r#""nodes":{}"#, "nodes: invalid type"),
            (
                r#""nodes":[{"name":"a"},{"name":"a"}]"#,
                "\"a\" stands there twice",
            ),
            (r#""nodes":[{"name":"a","zone":"b c"}]"#, "zone: \"b c\""),
            (
                r#""rails":{"floors":{"web":1}}"#,
                "rails: unknown field `web`",
            ),
            (
                r#""rails":{"many_rows":0}"#,
                "many_rows is 0, allowed is 1 or more",
            ),
            (r#""rails":{"reason":"often"}"#, "unknown variant `often`"),
            (
                r#""rails":{"ttl":{"max":"long"}}"#,
                "rails.ttl.max is \"long\"",
            ),
            (r#""rails":{"ttl":{"max":"9y"}}"#, "allowed is 1s to a year"),
            (r#""rails":{"history":{"changes":100001}}"#, "1 to 100000"),
            (
                r#""rails":{"stages":{"cny":["a b"]}}"#,
                "rails.stages.cny: \"a b\"",
            ),
            (
                r#""rows":[{"server":"a/b","weight":257}]"#,
                "weight 257 is none of 0 to 256",
            ),
            (
                r#""rows":[{"server":"a/b","backup":"some"}]"#,
                "unknown variant `some`",
            ),
            (
                r#""rows":[{"server":"a/b","backup":"other-zones"}]"#,
                "needs the row's zone",
            ),
        ] {
            let value = format!(r#"{{"guard":{{"groups":["main"]}},{field}}}"#);
            let (settings, _) = Settings::parse(value.as_bytes()).unwrap();
            assert!(settings.guard.is_some());
            let faults = &settings.faults;
            assert!(faults.len() == 1 && faults[0].contains(text), "{faults:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Settings::parse(&bytes);
        }
    }
}
