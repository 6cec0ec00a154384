//! Writing directives: one check-and-set transaction with the sentinel.

use std::collections::BTreeSet;
use std::env;

use bytes::Bytes;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::context::Context;
use super::{Exit, Failure, print};
use crate::clock;
use crate::domain::directive::{Author, Desired, Directive};
use crate::domain::key::{DirectiveKey, META, Prefix, Scope};
use crate::domain::listing::Listing;
use crate::domain::name::Name;
use crate::domain::snapshot::{Placed, Snapshot};
use crate::kv::{Expect, Kv, KvError, OPERATIONS_MAX, Operation, Outcome};

/// Who writes, and why.
#[derive(Debug, Args)]
pub(super) struct AuthorArgs {
    /// Why; kept with the change.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Who; by default the CI job's user, or the one who is logged in.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    by: Option<String>,
}

/// What every command takes that changes directives.
#[derive(Debug, Args)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    author: AuthorArgs,
    /// Knowingly against the guard of the settings; needs --reason.
    #[arg(long, requires = "reason")]
    force: bool,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// For which polls a directive is written.
#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
    /// Only for the polls of the nodes in this zone.
    #[arg(long, value_name = "ZONE", conflicts_with = "node")]
    zone: Option<String>,
    /// Only for the polls of this node.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

/// One key, and what shall stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: DirectiveKey,
    /// `None`: nothing.
    pub(super) directive: Option<Directive>,
}

/// The last line of a dry run.
pub(super) const DRY_RUN: &str = "dry run: nothing was written\n";

/// Where the author's name is looked for: a CI job says who started it.
const AUTHOR_VARIABLES: [&str; 3] = ["GITLAB_USER_LOGIN", "USER", "LOGNAME"];

impl AuthorArgs {
    /// Who writes.
    pub(super) fn name(&self) -> String {
        let variable = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
        let found = self
            .by
            .clone()
            .or_else(|| AUTHOR_VARIABLES.iter().find_map(variable));
        found.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }

    /// A directive with its author and a change id of its own, counted from now.
    pub(super) fn directive(&self, desired: Desired) -> Directive {
        Directive {
            since: Some(clock::now()),
            author: Author {
                by: Some(self.name()),
                reason: self.reason.clone(),
                change: Some(ulid::Ulid::generate().to_string()),
                trace: None,
            },
            ..Directive::bare(desired)
        }
    }
}

impl WriteArgs {
    /// A directive with its author and a change id of its own, counted from now.
    pub(super) fn directive(&self, desired: Desired) -> Directive {
        Directive {
            force: self.force,
            ..self.author.directive(desired)
        }
    }

    /// Writes what differs, and prints what was done.
    pub(super) fn apply(&self, context: &Context, changes: Vec<Change>) -> Result<(), Failure> {
        let listing = context.block_on(context.source.list(&context.prefix))?;
        let snapshot = Snapshot::build(&listing)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", context.prefix)))?;
        check_guard(&snapshot, &changes)?;
        let generation = snapshot.generation;
        let changes = differing(&listing, changes);
        if changes.is_empty() {
            return print("nothing to change: it is already so\n");
        }
        let mut text = String::new();
        for change in &changes {
            let value = change.directive.as_ref().map(Directive::to_json);
            let value = value.unwrap_or_else(|| "(deleted)".to_owned());
            text += &format!("{} = {value}\n", context.prefix.key(&change.key));
        }
        text += &outvoted(&snapshot, &changes);
        if self.dry_run {
            return print(&format!("{text}{DRY_RUN}"));
        }
        let next = generation.next();
        let meta = next.to_json(clock::now(), &self.author.name());
        let operations = operations(&context.prefix, &listing, &changes, &meta)?;
        context.block_on(commit(&context.source, &operations, &context.prefix, &meta))?;
        print(&format!(
            "{text}written to {} as generation {next}\n",
            context.environment
        ))
    }
}

impl ScopeArgs {
    pub(super) fn scope(&self) -> Result<Scope, Failure> {
        let name = |flag: &str, text: &str| {
            Name::parse(text).map_err(|e| Failure::new(Exit::Usage, format!("{flag}: {e}")))
        };
        match (&self.zone, &self.node) {
            (Some(zone), _) => name("--zone", zone).map(Scope::Zone),
            (None, Some(node)) => name("--node", node).map(Scope::Node),
            (None, None) => Ok(Scope::Fleet),
        }
    }
}

/// Sends a transaction; one whose outcome is not known is looked up before anything is said.
pub(super) async fn commit<K: Kv>(
    kv: &K,
    operations: &[Operation],
    prefix: &Prefix,
    meta: &str,
) -> Result<(), Failure> {
    match kv.transact(operations).await {
        Ok(Outcome::Committed { .. }) => Ok(()),
        Ok(Outcome::Conflict { key }) => {
            let key = key.map(|key| format!(" ({key})")).unwrap_or_default();
            let text =
                format!("somebody else wrote meanwhile{key}; nothing was written: look again");
            Err(Failure::new(Exit::Conflict, text))
        }
        Err(KvError::OutcomeUnknown(error)) => {
            let written = kv.get(&prefix.key(META)).await;
            if written.is_ok_and(|entry| entry.is_some_and(|e| e.value == meta.as_bytes())) {
                return Ok(());
            }
            let text = format!(
                "the store: {error}. It is not written so far, and may still be: look before you \
                 repeat it"
            );
            Err(Failure::new(Exit::Unreachable, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses what the guard would: it would freeze what it covers, and nobody would follow it.
fn check_guard(snapshot: &Snapshot, changes: &[Change]) -> Result<(), Failure> {
    let refusal = |change: &Change| {
        let directive = change.directive.as_ref()?;
        let why = snapshot.settings.refusal(&change.key, directive)?;
        Some(format!("{}: {why}", change.key))
    };
    let refusals: Vec<_> = changes.iter().filter_map(refusal).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}\nnothing was written; --force with --reason does it knowingly",
        refusals.join("\n")
    );
    Err(Failure::new(Exit::Refused, text))
}

/// What stands and counts before a change: without it a drain looks done that is not.
fn outvoted(snapshot: &Snapshot, changes: &[Change]) -> String {
    let standing = |placed: &&Placed| changes.iter().all(|change| change.key != placed.key);
    let stronger = changes
        .iter()
        .flat_map(|change| snapshot.stronger(&change.key))
        .filter(standing);
    let lines: BTreeSet<String> = stronger
        .map(|placed| {
            format!(
                "note: {} counts before it: {}\n",
                placed.path,
                placed.text()
            )
        })
        .collect();
    lines.into_iter().collect()
}

/// The changes that would change something: running a command twice restarts no ramp or plan.
fn differing(listing: &Listing, changes: Vec<Change>) -> Vec<Change> {
    let differs = |change: &Change| {
        let standing = listing.entries.get(&change.key.to_string());
        match (standing, &change.directive) {
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
            (Some(entry), Some(wanted)) => Directive::parse(&entry.value)
                .map_or(true, |standing| !standing.asks_the_same(wanted)),
        }
    };
    changes.into_iter().filter(differs).collect()
}

fn operations(
    prefix: &Prefix,
    listing: &Listing,
    changes: &[Change],
    meta: &str,
) -> Result<Vec<Operation>, Failure> {
    let changes_max = OPERATIONS_MAX - 1;
    if changes.len() > changes_max {
        let text = format!("{} changes at once, at most {changes_max}", changes.len());
        return Err(Failure::new(Exit::Usage, text));
    }
    let expect = |path: &str| {
        let entry = listing.entries.get(path);
        entry.map_or(Expect::Missing, |entry| Expect::Index(entry.modify_index))
    };
    let sentinel = Operation::Set {
        key: prefix.key(META),
        value: Bytes::copy_from_slice(meta.as_bytes()),
        expect: expect(META),
    };
    let change = |change: &Change| {
        let (key, expect) = (prefix.key(&change.key), expect(&change.key.to_string()));
        match &change.directive {
            Some(directive) => Operation::Set {
                key,
                value: directive.to_json().into(),
                expect,
            },
            None => Operation::Delete { key, expect },
        }
    };
    Ok(std::iter::once(sentinel)
        .chain(changes.iter().map(change))
        .collect())
}
