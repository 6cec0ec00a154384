//! What needs somebody, and what to do.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{FINDINGS_MAX, Parts, environment_flags, names};
use crate::domain::authority::{AuthorityName, Verdict};
use crate::domain::fleet::shared_name;
use crate::domain::key::{CANARY, DirectiveKey, Key, Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::snapshot::{Problem, ProblemKind};
use crate::domain::view::Served;

/// How long a node may poll without an answer until it is one of these: each change of authority
/// leaves a poll or two without.
const UNANSWERED_AFTER: Duration = Duration::from_secs(10);

/// What needs somebody, the heaviest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The heaviest ones.
    pub listed: Vec<Finding>,
    /// How many more there are.
    pub more: usize,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What, in few words.
    pub what: String,
    /// What exactly.
    pub text: String,
    /// What to do.
    pub advice: String,
    /// The command for it, where there is one.
    pub command: Option<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing is answered, or something stands still.
    Severe,
    /// Somebody should look.
    Warning,
    /// Good to know.
    Note,
}

/// Collects findings of one board.
struct Finder<'a> {
    parts: &'a Parts<'a>,
    flags: String,
    found: Vec<Finding>,
}

impl Findings {
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        let mut finder = Finder {
            parts,
            flags: environment_flags(parts.prefix),
            found: Vec::new(),
        };
        for (replica, verdict) in parts.verdicts {
            finder.authority(replica.as_ref(), verdict);
        }
        finder.keys();
        finder.replicas();
        finder.unseen();
        finder.nodes();
        finder.rows();
        finder.nowhere();
        let mut listed = finder.found;
        listed.sort_by_key(|finding| finding.weight);
        let more = listed.len().saturating_sub(FINDINGS_MAX);
        listed.truncate(FINDINGS_MAX);
        Self { listed, more }
    }
}

impl Finder<'_> {
    fn add(&mut self, weight: Weight, what: &str, text: String, advice: &str) -> &mut Finding {
        self.found.push(Finding {
            weight,
            what: what.to_owned(),
            text,
            advice: advice.to_owned(),
            command: None,
        });
        self.found.last_mut().expect("it was pushed")
    }

    fn authority(&mut self, replica: Option<&Name>, verdict: &Verdict) {
        let (who, reason) = match replica {
            None => ("This replica".to_owned(), verdict.reason.clone()),
            Some(name) => (
                format!("Replica {name}"),
                format!("{name}: {}", verdict.reason),
            ),
        };
        let silent = format!("{who} answers nothing");
        let held = "HAProxy keeps its state meanwhile. The reason says what to mend; a history \
                    that went back ends with an accepted one, which is shown before it is written.";
        let (weight, what, advice) = match verdict.name {
            AuthorityName::Current => return,
            AuthorityName::Relayed => (
                Weight::Note,
                "Confirmed by a peer only",
                "It is answered all the same. Look at what stands between this replica and its \
                 source.",
            ),
            AuthorityName::Agreed => (
                Weight::Warning,
                "The source is out of reach",
                "The last listing is answered, and nobody can change anything. Look at the source.",
            ),
            AuthorityName::Starting => (
                Weight::Severe,
                "Nothing is answered yet",
                "HAProxy keeps its state meanwhile.",
            ),
            AuthorityName::CutOff => (
                Weight::Severe,
                silent.as_str(),
                "HAProxy keeps its state meanwhile; other replicas may answer.",
            ),
            AuthorityName::Held => (Weight::Severe, silent.as_str(), held),
        };
        let command = format!("tidegate accept {} --dry-run", self.flags);
        let finding = self.add(weight, what, reason, advice);
        finding.command = (verdict.name == AuthorityName::Held).then_some(command);
    }

    fn keys(&mut self) {
        let Some(snapshot) = self.parts.snapshot else {
            return;
        };
        for problem in snapshot.problems_at(self.parts.view.at) {
            self.key(&problem);
        }
        for (stage, deploy) in self.parts.deploys {
            if let Err(error) = deploy {
                let text = format!("deploys/{stage}: {error}");
                let advice = "Commands that ask for the lock refuse until it is mended.";
                let command = format!("tidegate deploy finish {} {stage}", self.flags);
                let finding =
                    self.add(Weight::Warning, "A deploy lock is unreadable", text, advice);
                finding.command = Some(command);
            }
        }
    }

    fn key(&mut self, problem: &Problem) {
        let text = format!("{}: {}", problem.path, problem.text);
        let (weight, what, advice) = match problem.kind {
            ProblemKind::Directive => (
                Weight::Severe,
                "A key cannot be read",
                "It freezes what it covers: HAProxy keeps its state there. Write it anew.",
            ),
            ProblemKind::Guard => (
                Weight::Severe,
                "The guard refuses a key",
                "It freezes what it covers. Write it with the command, which asks for what the \
                 guard wants, or take it away.",
            ),
            ProblemKind::Settings => (
                Weight::Warning,
                "The settings hold a mistake",
                "Mend the key settings; docs/settings.md names all its fields.",
            ),
            ProblemKind::UnknownKey => (
                Weight::Note,
                "An unknown key",
                "Misspelt, or of a later version: delete it, or update this program.",
            ),
            ProblemKind::Overdue => (
                Weight::Warning,
                "A change is past its end",
                "Take it away, or write it anew with a later end.",
            ),
        };
        let command = match Key::parse(&problem.path) {
            Key::Directive(key) => mending(&key, &self.flags),
            Key::Meta | Key::Settings | Key::Deploy(_) | Key::Folder | Key::Unknown => None,
        };
        self.add(weight, what, text, advice).command = command;
    }

    fn replicas(&mut self) {
        for problem in self.parts.replica_problems {
            let advice = "See the replicas below.";
            self.add(Weight::Warning, "Replicas differ", problem.clone(), advice);
        }
        for missing in self.parts.missing {
            let text = format!("{}: {}", missing.replica, missing.why);
            let advice = "Rows that only it was asked for are missing here, or look silent. Look \
                          at its /readyz and its log.";
            self.add(Weight::Warning, "A replica has not reported", text, advice);
        }
    }

    /// What the view itself lacks: the store, replicas and sources of `HAProxy`'s word that a command
    /// asks. The page asks none of them.
    fn unseen(&mut self) {
        for missing in &self.parts.view.missing {
            let text = format!("{}: {}", missing.what, missing.why);
            let advice = "What only it knows is missing below, or as it was before.";
            self.add(Weight::Warning, "Cannot be seen", text, advice);
        }
    }

    fn nodes(&mut self) {
        let silent = &self.parts.view.silent;
        if let Some(first) = silent.first() {
            let all = names(silent.iter().map(|silent| &silent.node));
            let advice = "Each keeps its last state while it runs. Look at the machine and its way \
                          to this service; one that was taken away is forgotten by command.";
            let command = format!("tidegate forget {}", first.node);
            let what = counted(silent.len(), "node polls no more", "nodes poll no more");
            self.add(Weight::Warning, &what, all, advice).command = Some(command);
        }
        for (name, node) in &self.parts.fleet.nodes {
            let addresses = node.addresses.at_once(self.parts.view.at);
            if !addresses.is_empty() {
                let text = shared_name(name, &addresses);
                let advice = "What one of them has applied hides behind the other.";
                self.add(Weight::Warning, "A name is shared", text, advice);
            }
        }
    }

    /// Rows are many: each kind of trouble is one finding.
    fn rows(&mut self) {
        let view = self.parts.view;
        let mut unanswered = Vec::new();
        let mut misspelt = Vec::new();
        let mut differing = BTreeMap::<&str, Vec<&Name>>::new();
        for row in &view.rows {
            let Some(served) = row.served.as_ref().filter(|served| !served.silent) else {
                continue;
            };
            if is_unanswered(served) {
                unanswered.push(&row.node);
            } else if served.answer.as_deref() == Some("unknown-group") {
                misspelt.push(&row.node);
            } else if served.answer.as_deref() == Some("unknown-request") {
                differing
                    .entry("was told unknown-request")
                    .or_default()
                    .push(&row.node);
            } else if row.desired.as_ref().is_some_and(|desired| desired.disputed)
                && let Some(why) = &row.not_converged
            {
                differing.entry(why).or_default().push(&row.node);
            }
        }
        if !unanswered.is_empty() {
            let advice = "No replica that they ask may answer: see above, and the other replicas.";
            let what = counted(
                unanswered.len(),
                "row is not answered",
                "rows are not answered",
            );
            self.add(Weight::Severe, &what, by_node(unanswered), advice);
        }
        if !misspelt.is_empty() {
            let advice = "Their agent-send names a group that has no key: misspelt, or its key was \
                          deleted. HAProxy keeps its state there.";
            let what = counted(
                misspelt.len(),
                "row names an unknown group",
                "rows name an unknown group",
            );
            self.add(Weight::Severe, &what, by_node(misspelt), advice);
        }
        for (why, nodes) in differing {
            let advice = "Ask why such a row gets its answer with tidegate explain and its request \
                          line.";
            let what = counted(nodes.len(), "row differs", "rows differ");
            let text = format!("{why}: {}", by_node(nodes));
            self.add(Weight::Warning, &what, text, advice);
        }
    }

    fn nowhere(&mut self) {
        let nowhere = &self.parts.view.nowhere;
        if nowhere.is_empty() {
            return;
        }
        let shown: Vec<_> = nowhere
            .iter()
            .take(super::NAMES_MAX)
            .map(ServerId::as_str)
            .collect();
        let more = nowhere.len() - shown.len();
        let mut text = shown.join(", ");
        if more > 0 {
            text += &format!(" and {more} more");
        }
        let what = counted(
            nowhere.len(),
            "server of the settings is not polled for",
            "servers of the settings are not polled for",
        );
        let advice = "No node has asked for them yet: their agent-check is not set up, or the \
                      settings name what is gone.";
        self.add(Weight::Note, &what, text, advice);
    }
}

/// Whether its last polls were closed without an answer.
fn is_unanswered(served: &Served) -> bool {
    let since = |at: Timestamp| {
        let silence = served.last_poll.duration_since(at);
        Duration::try_from(silence).unwrap_or_default()
    };
    served.at.is_some_and(|at| since(at) > UNANSWERED_AFTER)
}

/// The nodes of rows, each once.
fn by_node(mut rows: Vec<&Name>) -> String {
    rows.sort_unstable();
    rows.dedup();
    names(rows)
}

/// The command that takes a key away, or writes it anew.
fn mending(key: &DirectiveKey, flags: &str) -> Option<String> {
    let scope = match &key.scope {
        Scope::Fleet => String::new(),
        Scope::Zone(zone) => format!(" -z {zone}"),
        Scope::Node(node) => format!(" --node {node}"),
    };
    match (&key.target, &key.scope) {
        (Target::Server(id), _) => Some(format!("tidegate clear {flags} {id}{scope}")),
        (Target::Group(group), Scope::Fleet) if group.as_str() == CANARY => {
            Some(format!("tidegate canary {flags} --drain --reason WHY"))
        }
        (Target::Group(group), Scope::Zone(_) | Scope::Node(_)) if group.as_str() == CANARY => {
            Some(format!("tidegate canary {flags} --clear{scope}"))
        }
        // No command writes other groups.
        (Target::Group(_), _) => None,
    }
}

fn counted(count: usize, one: &str, more: &str) -> String {
    let what = if count == 1 { one } else { more };
    format!("{count} {what}")
}
