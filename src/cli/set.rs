//! `tidegate set`.

use std::collections::BTreeSet;

use clap::Args;

use super::look::LookArgs;
use super::selector;
use super::write::{Change, Manner, ScopeArgs, Standing, TtlArgs, WriteArgs, listed};
use super::{Exit, Failure, print};
use crate::config::Flags;
use crate::domain::directive::{Desired, Directive};
use crate::domain::key::{DirectiveKey, Scope, Target};
use crate::domain::name::{Name, ServerId};
use crate::domain::selector::{
    KeyMatcher, SelectedRow, Selection, SelectionError, Selector, SelectorError,
};
use crate::domain::topology::Topology;

/// How many of the scopes of one server's keys are named.
const SCOPES_SHOWN_MAX: usize = 4;

/// Set the state of servers.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// ready, drain, maint, or a percentage of the configured weight such as 40%.
    #[arg(value_name = "STATE", value_parser = state)]
    state: Desired,
    #[command(flatten)]
    ttl: TtlArgs,
    #[command(flatten)]
    rows: ServerRows,
}

/// Overrides of servers, and what it takes to change them.
#[derive(Debug, Args)]
pub(super) struct ServerRows {
    /// Servers as backend/server; a part of that; or tags with regular expressions that must fit
    /// whole: backend=api server=.*-cny-.* group=canary zone=us-east1-b node=lb-1 role=main.
    #[arg(value_name = "SELECTOR", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    look: LookArgs,
}

impl Set {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        // One change, one id, whichever number of servers.
        let directive = self.ttl.on(self.rows.write.directive(self.state.clone()))?;
        self.rows.apply(flags, Some(&directive))
    }
}

impl ServerRows {
    /// Writes the same override for every server, or takes each away.
    pub(super) fn apply(
        &self,
        flags: &Flags,
        directive: Option<&Directive>,
    ) -> Result<(), Failure> {
        let change = |key| Change {
            key,
            directive: directive.cloned(),
        };
        self.scope.check()?;
        let wanted = self.wanted()?;
        let look = self.look.open(flags)?;
        let manner = Manner { asks: true };
        self.write.apply_changes(&look, manner, |standing| {
            let keys = self.keys(&wanted, standing, directive.is_none())?;
            Ok(keys.into_iter().map(change).collect())
        })
    }

    /// Single servers by their whole names, or a selector.
    fn wanted(&self) -> Result<Wanted, Failure> {
        let usage = |text: String| Failure::new(Exit::Usage, text);
        let is_name = |text: &String| text.contains('/') && !text.contains('=');
        if self.servers.iter().all(is_name) {
            let id = |text: &String| {
                ServerId::parse(text).map_err(|error| usage(format!("{text:?}: {error}")))
            };
            let ids: Result<Vec<_>, _> = self.servers.iter().map(id).collect();
            return ids.map(Wanted::Servers);
        }
        let selector = selector::read(&self.servers)?;
        selector
            .map(Wanted::Selector)
            .ok_or_else(|| usage(SelectorError::Empty.to_string()))
    }

    /// The keys of the overrides, each once. What is to be cleared is found although neither the
    /// settings nor a poll know its server any more.
    fn keys(
        &self,
        wanted: &Wanted,
        standing: &Standing,
        clears: bool,
    ) -> Result<Vec<DirectiveKey>, Failure> {
        let scope = self.scope.within(standing)?;
        let selector = match wanted {
            Wanted::Servers(ids) => return named(ids, &scope, standing),
            Wanted::Selector(selector) => selector,
        };
        let left = if clears {
            left_over(selector, &scope, standing)?
        } else {
            Vec::new()
        };
        let selection = match Selection::new(selector, &standing.topology) {
            Err(SelectionError::NothingKnown | SelectionError::NoServer { .. })
                if !left.is_empty() =>
            {
                return Ok(left);
            }
            selection => selection.map_err(|error| usage(&error))?,
        };
        print(&selected(&selection, &standing.topology))?;
        let mut keys = selection.keys();
        if scope != Scope::Fleet {
            if selector.is_about_nodes() {
                let text = "--zone and --node say the same as zone= and node=: use one of them";
                return Err(Failure::new(Exit::Usage, text));
            }
            for key in &mut keys {
                key.scope = scope.clone();
            }
        }
        keys.extend(left);
        Ok(keys)
    }
}

/// The overrides that a selector means of servers that nobody knows, each with a note.
fn left_over(
    selector: &Selector,
    scope: &Scope,
    standing: &Standing,
) -> Result<Vec<DirectiveKey>, Failure> {
    let paths = standing.listing.entries.keys();
    let all: Vec<_> = paths.filter_map(|path| DirectiveKey::parse(path)).collect();
    let zones = all.iter().filter_map(|key| match &key.scope {
        Scope::Zone(zone) => Some(zone),
        Scope::Fleet | Scope::Node(_) => None,
    });
    let matcher = KeyMatcher::new(selector, &standing.snapshot.settings, zones)
        .map_err(|error| usage(&error))?;
    let is_unknown = |key: &&DirectiveKey| match &key.target {
        Target::Server(id) => !standing.topology.rows().contains_key(id),
        Target::Group(_) => false,
    };
    let in_scope = |key: &&DirectiveKey| selector.is_about_nodes() || key.scope == *scope;
    let meant = |key: &&DirectiveKey| matcher.matches_override(key);
    let left: Vec<_> = all
        .iter()
        .filter(is_unknown)
        .filter(in_scope)
        .filter(meant)
        .cloned()
        .collect();
    let notes = left
        .iter()
        .map(|key| format!("note: {key} is of a server that nobody knows any more\n"));
    print(&notes.collect::<String>())?;
    Ok(left)
}

fn usage(error: &SelectionError) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

/// What a selector means, row by row, and how many of what.
fn selected(selection: &Selection, topology: &Topology) -> String {
    let line = |row: &SelectedRow| {
        let zones: BTreeSet<_> = row
            .nodes
            .iter()
            .filter_map(|name| topology.nodes().get(name)?.zone.as_ref())
            .collect();
        let zones: Vec<_> = zones.into_iter().map(Name::as_str).collect();
        let written: Vec<_> = row.scopes.iter().map(scope_words).collect();
        [
            row.server.to_string(),
            row.nodes.len().to_string(),
            zones.join(", "),
            few(&written),
        ]
    };
    let lines: Vec<_> = selection.rows.iter().map(line).collect();
    let table = listed(["SELECTED", "NODES", "THEIR ZONES", "WRITTEN FOR"], &lines);
    format!("{table}selected: {}\n", selection.counts)
}

fn scope_words(scope: &Scope) -> String {
    match scope {
        Scope::Fleet => "all nodes".to_owned(),
        Scope::Zone(zone) => format!("zone {zone}"),
        Scope::Node(node) => format!("node {node}"),
    }
}

/// The first of them, and how many more.
fn few(texts: &[String]) -> String {
    let shown = texts.len().min(SCOPES_SHOWN_MAX);
    let mut text = texts[..shown].join(", ");
    if texts.len() > shown {
        text += &format!(" and {} more", texts.len() - shown);
    }
    text
}

/// What was asked for.
enum Wanted {
    Servers(Vec<ServerId>),
    Selector(Selector),
}

/// Whole names may be written before anything knows them.
fn named(
    ids: &[ServerId],
    scope: &Scope,
    standing: &Standing,
) -> Result<Vec<DirectiveKey>, Failure> {
    let mut keys = Vec::new();
    for id in ids {
        let key = DirectiveKey {
            scope: scope.clone(),
            target: Target::Server(id.clone()),
        };
        if keys.contains(&key) {
            continue;
        }
        if !standing.topology.rows().contains_key(id) {
            print(&format!(
                "note: {id} is in no settings.rows, and no node is known to poll it\n"
            ))?;
        }
        keys.push(key);
    }
    Ok(keys)
}

/// A state in the words of a bare directive.
fn state(text: &str) -> Result<Desired, String> {
    let directive = Directive::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    if directive == Directive::bare(directive.desired.clone()) && !text.contains('{') {
        Ok(directive.desired)
    } else {
        Err("write ready, drain, maint, or a percentage such as 40%".to_owned())
    }
}
