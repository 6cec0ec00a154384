//! The listing compiled: which directive decides which poll.
//!
//! A snapshot is a function of its listing alone, an answer one of snapshot, request and time.
//! Nothing remembers an earlier good value: two replicas at one index would disagree.

pub use self::difference::Difference;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::iter::Peekable;
use std::slice;
use std::sync::Arc;

use jiff::Timestamp;

use super::answer::{Answer, Percent, State};
use super::directive::Directive;
use super::key::{CANARY, CANARY_STATE, DirectiveKey, Key, SETTINGS, Scope, Target};
use super::listing::{Entry, Listing};
use super::name::{Name, ServerId};
use super::request::Request;
use super::sentinel::{Generation, SentinelError};
use super::settings::Settings;

/// The listing compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The store's index of the listing.
    pub index: u64,
    /// How far its history is.
    pub generation: Generation,
    /// The settings; default where they are missing or cannot be read. The latter is a fault of
    /// theirs.
    pub settings: Settings,
    /// What is wrong with single keys, in the order of the keys.
    pub problems: Vec<Problem>,
    /// All directives, in the order of their paths.
    by_path: Vec<Arc<Placed>>,
    fleet: Level,
    zones: BTreeMap<Name, Level>,
    nodes: BTreeMap<Name, Level>,
    /// Whether some answer depends on which node asks.
    by_node: bool,
}

/// The directives of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Level {
    servers: BTreeMap<ServerId, Arc<Placed>>,
    groups: BTreeMap<Name, Arc<Placed>>,
}

/// What a listing before this one holds, walked along with it.
struct Known<'a> {
    entries: Peekable<btree_map::Iter<'a, String, Entry>>,
    placed: Peekable<slice::Iter<'a, Arc<Placed>>>,
}

/// A key that holds a directive, or should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where it stands.
    pub key: DirectiveKey,
    /// The path below the prefix; a ramp's seed where it has none.
    pub path: String,
    /// The store's index of its last change.
    pub modify_index: u64,
    /// The directive, or why it freezes what it covers: falling through to a weaker one would be
    /// a guess.
    pub directive: Result<Directive, String>,
}

/// Something wrong with one key. The others are not concerned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// The path below the prefix.
    pub path: String,
    /// What is wrong, for the person who can mend it.
    pub text: String,
}

/// Kinds of problems: a closed set, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A directive that cannot be read: it freezes what it covers.
    Directive,
    /// A directive that the guard refuses: it freezes what it covers.
    Guard,
    /// Settings that cannot be read, whole (the guard is off) or in part.
    Settings,
    /// A key that this version does not know: it is not looked at.
    UnknownKey,
    /// A directive that stands beyond its end.
    Overdue,
}

/// One place where a directive for a request may stand.
#[derive(Debug, Clone, Copy)]
pub struct Place<'s, 'r> {
    /// Whether it is of the server itself or of one of its groups.
    pub about: About<'r>,
    /// Which polls it is for.
    pub level: LevelName<'r>,
    /// What stands there.
    pub placed: Option<&'s Placed>,
}

/// What a place is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About<'a> {
    /// The server.
    Server(&'a str),
    /// A group of it.
    Group(&'a str),
}

/// The scope of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelName<'a> {
    /// The node that asks.
    Node(&'a str),
    /// Its zone.
    Zone(&'a str),
    /// Every poll.
    Fleet,
}

/// What is said to a request, and why.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// The answer.
    pub answer: Answer,
    /// The directive that decided; none when nothing stands for this server.
    pub winner: Option<&'a Placed>,
    /// The next moment at which the answer may change because of the time alone.
    pub until: Option<Timestamp>,
}

impl Snapshot {
    /// Compiles a listing. What is wrong with single keys becomes a problem.
    ///
    /// # Errors
    /// Without a good sentinel there is no snapshot: such a listing answers nothing.
    pub fn build(listing: &Listing) -> Result<Self, SentinelError> {
        Self::compile(listing, None)
    }

    /// The same, out of the listing before it and its snapshot: what stands there as it stood is
    /// not read again. Of 100,000 directives a change touches one.
    ///
    /// # Errors
    /// See [`Snapshot::build`].
    pub fn build_after(
        listing: &Listing,
        before: (&Listing, &Self),
    ) -> Result<Self, SentinelError> {
        // The guard stands in the settings: under others, each directive is judged anew.
        let same_settings = listing.entries.get(SETTINGS) == before.0.entries.get(SETTINGS);
        Self::compile(
            listing,
            same_settings.then(|| Known::new(before.0, before.1)),
        )
    }

    fn compile(listing: &Listing, mut known: Option<Known<'_>>) -> Result<Self, SentinelError> {
        let mut snapshot = Self {
            index: listing.index,
            generation: Generation::read(listing)?,
            settings: Settings::default(),
            problems: Vec::new(),
            by_path: Vec::new(),
            fleet: Level::default(),
            zones: BTreeMap::new(),
            nodes: BTreeMap::new(),
            by_node: false,
        };
        if let Some(entry) = listing.entries.get(SETTINGS) {
            snapshot.read_settings(&entry.value);
        }
        for (path, entry) in &listing.entries {
            if let Some(placed) = known.as_mut().and_then(|known| known.find(path, entry)) {
                snapshot.insert(Arc::clone(placed));
                continue;
            }
            match Key::parse(path) {
                Key::Directive(key) => {
                    let placed = snapshot.place(key, path, entry.modify_index, &entry.value);
                    snapshot.insert(Arc::new(placed));
                }
                Key::Unknown => {
                    let text = "this version knows no such key; it is not looked at".to_owned();
                    snapshot.problem(ProblemKind::UnknownKey, path, text);
                }
                Key::Meta | Key::Settings | Key::Deploy(_) | Key::Folder => {}
            }
        }
        let ramps = snapshot.placed().any(|it| {
            let directive = it.directive.as_ref();
            directive.is_ok_and(Directive::is_by_nodes)
        });
        snapshot.by_node = ramps || !snapshot.nodes.is_empty();
        Ok(snapshot)
    }

    /// Whether some answer depends on which node asks, apart from what its request says otherwise.
    #[must_use]
    pub const fn is_by_node(&self) -> bool {
        self.by_node
    }

    /// What is said to a request from `node` at `now`.
    ///
    /// The first directive that is present and not lifted decides. A group without a key on the
    /// way there freezes: it may be misspelt, and the right one may be stronger.
    #[must_use]
    pub fn decide(&self, request: &Request<'_>, node: &str, now: Timestamp) -> Decision<'_> {
        for about in About::of(request) {
            let mut known = matches!(about, About::Server(_));
            for placed in self
                .places(about, request.zone, node)
                .filter_map(|p| p.placed)
            {
                known = true;
                match &placed.directive {
                    Err(_) => return Decision::frozen(Answer::UnknownDirective, Some(placed)),
                    Ok(directive) if directive.is_lifted(now) => {}
                    Ok(directive) => return Decision::by(placed, directive, request, node, now),
                }
            }
            if !known {
                return Decision::frozen(Answer::UnknownGroup, None);
            }
        }
        // No directive: deleting an override must undo it.
        let full = State::Ready(Percent::FULL);
        let answer = Answer::for_state(full, request.base, request.shadow);
        Decision {
            answer,
            winner: None,
            until: None,
        }
    }

    /// The places where a directive about this may stand, the strongest first.
    pub fn places<'s, 'r>(
        &'s self,
        about: About<'r>,
        zone: Option<&'r str>,
        node: &'r str,
    ) -> impl Iterator<Item = Place<'s, 'r>> {
        let levels = [
            Some((LevelName::Node(node), self.nodes.get(node))),
            zone.map(|zone| (LevelName::Zone(zone), self.zones.get(zone))),
            Some((LevelName::Fleet, Some(&self.fleet))),
        ];
        levels
            .into_iter()
            .flatten()
            .map(move |(level, found)| Place {
                about,
                level,
                placed: found.and_then(|found| found.get(about)),
            })
    }

    /// Every key that holds a directive or should, scope by scope.
    pub fn placed(&self) -> impl Iterator<Item = &Placed> {
        let levels = std::iter::once(&self.fleet).chain(self.zones.values());
        levels
            .chain(self.nodes.values())
            .flat_map(|level| level.groups.values().chain(level.servers.values()))
            .map(|placed| &**placed)
    }

    /// The directives that count before the one of this key, for some of its polls: the same target
    /// in a narrower scope, and the overrides of the known servers of a group.
    pub fn stronger<'a>(&'a self, key: &'a DirectiveKey) -> impl Iterator<Item = &'a Placed> {
        let narrower = |scope: &Scope| match key.scope {
            Scope::Fleet => *scope != Scope::Fleet,
            Scope::Zone(_) => matches!(scope, Scope::Node(_)),
            Scope::Node(_) => false,
        };
        self.placed()
            .filter(move |placed| match (&key.target, &placed.key.target) {
                (wanted, standing) if wanted == standing => narrower(&placed.key.scope),
                (Target::Group(group), Target::Server(id)) => {
                    let row = self.settings.rows.get(id);
                    row.is_some_and(|row| row.groups.contains(group))
                }
                (Target::Group(_) | Target::Server(_), _) => false,
            })
    }

    /// All problems at `now`: those of the keys, and directives beyond their end.
    #[must_use]
    pub fn problems_at(&self, now: Timestamp) -> Vec<Problem> {
        let overdue = self.placed().filter_map(|placed| {
            let directive = placed
                .directive
                .as_ref()
                .ok()
                .filter(|d| d.is_overdue(now))?;
            let until = directive.expiry.map(|e| e.until)?;
            let text = format!("it was to end at {until} and still stands: renew or clear it");
            Some(Problem {
                kind: ProblemKind::Overdue,
                path: placed.path.clone(),
                text,
            })
        });
        self.problems.iter().cloned().chain(overdue).collect()
    }

    fn read_settings(&mut self, value: &[u8]) {
        match Settings::parse(value) {
            Ok((settings, unknown)) => {
                for fault in &settings.faults {
                    let text = format!("{fault}; the commands write nothing until it is mended");
                    self.problem(ProblemKind::Settings, SETTINGS, text);
                }
                self.settings = settings;
                for field in unknown {
                    let text =
                        format!("this version knows no field {field:?}; it is not looked at");
                    self.problem(ProblemKind::Settings, SETTINGS, text);
                }
            }
            // The guard is off then. To freeze every drain instead would open drained servers at
            // the next reload: the worse of two wrongs.
            Err(error) => {
                let text = format!(
                    "cannot be read, so the guard is off and the commands write nothing until it \
                     is mended: {error}"
                );
                self.settings.faults.push(error);
                self.problem(ProblemKind::Settings, SETTINGS, text);
            }
        }
    }

    fn place(&mut self, key: DirectiveKey, path: &str, modify_index: u64, value: &[u8]) -> Placed {
        let read = Directive::parse(value)
            .map_err(|error| (ProblemKind::Directive, error.to_string()))
            .and_then(|directive| match self.settings.refusal(&key, &directive) {
                None => Ok(directive),
                Some(why) => Err((ProblemKind::Guard, why)),
            });
        let directive = read.map_err(|(kind, text)| {
            self.problem(kind, path, text.clone());
            text
        });
        Placed {
            key,
            path: path.to_owned(),
            modify_index,
            directive,
        }
    }

    /// Paths come in their order.
    fn insert(&mut self, placed: Arc<Placed>) {
        self.by_path.push(Arc::clone(&placed));
        let level = match &placed.key.scope {
            Scope::Fleet => &mut self.fleet,
            Scope::Zone(zone) => self.zones.entry(zone.clone()).or_default(),
            Scope::Node(node) => self.nodes.entry(node.clone()).or_default(),
        };
        match placed.key.target.clone() {
            Target::Server(id) => level.servers.insert(id, placed),
            Target::Group(group) => level.groups.insert(group, placed),
        };
    }

    fn problem(&mut self, kind: ProblemKind, path: &str, text: String) {
        self.problems.push(Problem {
            kind,
            path: path.to_owned(),
            text,
        });
    }
}

impl<'a> Known<'a> {
    fn new(listing: &'a Listing, snapshot: &'a Snapshot) -> Self {
        Self {
            entries: listing.entries.iter().peekable(),
            placed: snapshot.by_path.iter().peekable(),
        }
    }

    /// The directive that stood at `path`, if the entry is the same and it could be read: what is
    /// wrong is told anew. Paths are asked for in their order.
    fn find(&mut self, path: &str, entry: &Entry) -> Option<&'a Arc<Placed>> {
        while self.entries.next_if(|(at, _)| at.as_str() < path).is_some() {}
        let (_, before) = self.entries.next_if(|(at, _)| at.as_str() == path)?;
        if before != entry {
            return None;
        }
        while self.placed.next_if(|at| at.path.as_str() < path).is_some() {}
        let placed = self.placed.next_if(|at| at.path == path)?;
        placed.directive.is_ok().then_some(placed)
    }
}

impl Place<'_, '_> {
    /// The key's path below the prefix, whether it is there or not.
    #[must_use]
    pub fn path(&self) -> String {
        let scope = match self.level {
            LevelName::Node(node) => format!("nodes/{node}/"),
            LevelName::Zone(zone) => format!("zones/{zone}/"),
            LevelName::Fleet => String::new(),
        };
        match self.about {
            About::Server(id) => format!("{scope}server-overrides/{id}"),
            About::Group(CANARY) => format!("{scope}{CANARY_STATE}"),
            About::Group(group) => format!("{scope}group-states/{group}"),
        }
    }
}

impl Level {
    fn get(&self, about: About<'_>) -> Option<&Placed> {
        match about {
            About::Server(id) => self.servers.get(id).map(|placed| &**placed),
            About::Group(group) => self.groups.get(group).map(|placed| &**placed),
        }
    }
}

impl<'a> About<'a> {
    /// What a request is about, the strongest first: its server, then its groups in their order.
    pub fn of(request: &'a Request<'a>) -> impl Iterator<Item = Self> {
        let groups = request.groups().iter().map(|group| About::Group(group));
        std::iter::once(About::Server(request.server)).chain(groups)
    }
}

impl<'a> Decision<'a> {
    const fn frozen(answer: Answer, winner: Option<&'a Placed>) -> Self {
        Self {
            answer,
            winner,
            until: None,
        }
    }

    fn by(
        placed: &'a Placed,
        directive: &Directive,
        request: &Request<'_>,
        node: &str,
        now: Timestamp,
    ) -> Self {
        let state = directive.state(now, node, &placed.path);
        Self {
            answer: Answer::for_state(state, request.base, request.shadow),
            winner: Some(placed),
            until: directive.next_change(now),
        }
    }
}

impl ProblemKind {
    /// All kinds, for metrics.
    pub const ALL: [Self; 5] = [
        Self::Directive,
        Self::Guard,
        Self::Settings,
        Self::UnknownKey,
        Self::Overdue,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Directive => "directive",
            Self::Guard => "guard",
            Self::Settings => "settings",
            Self::UnknownKey => "unknown_key",
            Self::Overdue => "overdue",
        }
    }
}

impl fmt::Display for LevelName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::Fleet => f.write_str("fleet"),
        }
    }
}

mod difference;
#[cfg(test)]
mod tests;
