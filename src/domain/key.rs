//! Paths of the KV: where a directive stands and what it is for.

use std::fmt;
use std::sync::Arc;

use super::name::{Name, NameError, ServerId};

/// The sentinel's path below the prefix.
pub const META: &str = "_meta";
/// The settings' path below the prefix.
pub const SETTINGS: &str = "settings";
/// The group whose directive stands at `canary-state`.
pub const CANARY: &str = "canary";
/// The path of the canary's directive below its scope.
pub const CANARY_STATE: &str = "canary-state";
/// A path below which nobody writes: a read of a path below it that was never written carries the
/// table-wide index (measured on Consul 1.8.7).
pub const EPOCH_PROBE: &str = "_epoch_probe_/";

/// The watched prefix `<root>/<env>/`. It always ends in a slash: without it `frontend/gprd`
/// would also match `frontend/gprd2/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefix(Arc<str>);

/// Which polls a directive is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every poll.
    Fleet,
    /// The polls of the nodes that stand in this zone.
    Zone(Name),
    /// The polls of this node.
    Node(Name),
}

/// What a directive is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// One server of one backend.
    Server(ServerId),
    /// A named set of servers.
    Group(Name),
}

/// Where a directive stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectiveKey {
    /// Which polls it is for.
    pub scope: Scope,
    /// What it is about.
    pub target: Target,
}

/// A path below the prefix, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// `_meta`.
    Meta,
    /// `settings`.
    Settings,
    /// `deploys/<stage>`.
    Deploy(Name),
    /// A directive.
    Directive(DirectiveKey),
    /// A folder marker: the path ends in `/`, as Consul's web page makes them.
    Folder,
    /// Nothing that this version knows.
    Unknown,
}

impl Prefix {
    /// The prefix of one environment.
    ///
    /// # Errors
    /// When the environment, or a segment of the root, is no [`Name`].
    pub fn new(root: &str, environment: &str) -> Result<Self, NameError> {
        for segment in root.split('/') {
            Name::parse(segment)?;
        }
        Name::parse(environment)?;
        Ok(Self(format!("{root}/{environment}/").into()))
    }

    /// Reads `<root>/<environment>/`.
    ///
    /// # Errors
    /// As [`Prefix::new`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let (root, environment) = path.rsplit_once('/').unwrap_or(("", path));
        Self::new(root, environment)
    }

    /// The root, and the environment below it.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        let path = self.0.strip_suffix('/').unwrap_or(&self.0);
        path.rsplit_once('/').unwrap_or(("", path))
    }

    /// The text, with its closing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full KV key of a path below the prefix.
    #[must_use]
    pub fn key(&self, path: impl fmt::Display) -> String {
        format!("{}{path}", self.0)
    }
}

impl Key {
    /// Reads a path relative to the prefix.
    #[must_use]
    pub fn parse(path: &str) -> Self {
        match path {
            META => return Self::Meta,
            SETTINGS => return Self::Settings,
            _ if path.ends_with('/') => return Self::Folder,
            _ => {}
        }
        if let Some(stage) = path.strip_prefix("deploys/") {
            return Name::parse(stage).map_or(Self::Unknown, Self::Deploy);
        }
        DirectiveKey::parse(path).map_or(Self::Unknown, Self::Directive)
    }
}

impl DirectiveKey {
    /// A directive for every poll.
    #[must_use]
    pub const fn fleet(target: Target) -> Self {
        Self {
            scope: Scope::Fleet,
            target,
        }
    }

    /// Reads a path relative to the prefix; `None` when no directive stands there.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let (scope, rest) = if let Some(rest) = path.strip_prefix("zones/") {
            let (zone, rest) = rest.split_once('/')?;
            (Scope::Zone(Name::parse(zone).ok()?), rest)
        } else if let Some(rest) = path.strip_prefix("nodes/") {
            let (node, rest) = rest.split_once('/')?;
            (Scope::Node(Name::parse(node).ok()?), rest)
        } else {
            (Scope::Fleet, path)
        };
        Some(Self {
            scope,
            target: Target::parse(rest)?,
        })
    }
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        if path == CANARY_STATE {
            return Name::parse(CANARY).ok().map(Self::Group);
        }
        if let Some(group) = path.strip_prefix("group-states/") {
            // One place for each directive: the canary has its own key.
            return Name::parse(group)
                .ok()
                .filter(|g| g.as_str() != CANARY)
                .map(Self::Group);
        }
        ServerId::parse(path.strip_prefix("server-overrides/")?)
            .ok()
            .map(Self::Server)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DirectiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Fleet => {}
            Scope::Zone(zone) => write!(f, "zones/{zone}/")?,
            Scope::Node(node) => write!(f, "nodes/{node}/")?,
        }
        match &self.target {
            Target::Server(id) => write!(f, "server-overrides/{id}"),
            Target::Group(group) if group.as_str() == CANARY => f.write_str(CANARY_STATE),
            Target::Group(group) => write!(f, "group-states/{group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_read_as_what_it_is() {
        let name = |text| Name::parse(text).unwrap();
        let canary = Target::Group(name("canary"));
        let server = Target::Server(ServerId::parse("web/gke-cny-web").unwrap());
        for (path, key) in [
            ("_meta", Key::Meta),
            ("settings", Key::Settings),
            ("deploys/cny", Key::Deploy(name("cny"))),
            (
                "canary-state",
                Key::Directive(DirectiveKey::fleet(canary.clone())),
            ),
            (
                "group-states/ci",
                Key::Directive(DirectiveKey::fleet(Target::Group(name("ci")))),
            ),
            (
                "server-overrides/web/gke-cny-web",
                Key::Directive(DirectiveKey::fleet(server.clone())),
            ),
            (
                "zones/us-east1-b/canary-state",
                Key::Directive(DirectiveKey {
                    scope: Scope::Zone(name("us-east1-b")),
                    target: canary.clone(),
                }),
            ),
            (
                "nodes/lb-1/server-overrides/web/gke-cny-web",
                Key::Directive(DirectiveKey {
                    scope: Scope::Node(name("lb-1")),
                    target: server,
                }),
            ),
            ("server-overrides/", Key::Folder),
            ("zones/", Key::Folder),
            ("server-overrides//x", Key::Unknown),
            ("server-overrides/web", Key::Unknown),
            ("server-overrides/web/a/b", Key::Unknown),
            ("server-overrides/../x", Key::Unknown),
            ("group-states/canary", Key::Unknown),
            ("zones/b/settings", Key::Unknown),
            ("zones/b/zones/c/canary-state", Key::Unknown),
            ("canary-states", Key::Unknown),
            ("deploys/a/b", Key::Unknown),
            ("", Key::Unknown),
        ] {
            assert_eq!(Key::parse(path), key, "{path:?}");
        }
    }

    #[test]
    fn a_prefix_ends_in_a_slash_and_refuses_odd_roots() {
        let prefix = Prefix::new("frontend", "gprd").unwrap();
        assert_eq!(prefix.as_str(), "frontend/gprd/");
        assert_eq!(prefix.key(META), "frontend/gprd/_meta");
        assert_eq!(
            Prefix::new("infra/lb", "gstg").unwrap().as_str(),
            "infra/lb/gstg/"
        );
        for (root, environment) in [("", "gprd"), ("a//b", "gprd"), ("a/", "gprd"), ("a", "g/p")] {
            assert!(
                Prefix::new(root, environment).is_err(),
                "{root:?} {environment:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_directive_key_round_trips(path in "(zones/[a-z]{1,3}/|nodes/[a-z.]{1,3}/)?(canary-state|group-states/[a-z]{1,4}|server-overrides/[a-z]{1,3}/[a-z:]{1,3})") {
            if let Some(key) = DirectiveKey::parse(&path) {
                prop_assert_eq!(key.to_string(), path);
            }
        }

        #[test]
        fn any_path_is_read_without_a_panic(path in ".{0,80}") {
            if let Key::Directive(key) = Key::parse(&path) {
                prop_assert_eq!(key.to_string(), path);
            }
        }
    }
}
