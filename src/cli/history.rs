//! `tidegate history`, and reading what it is made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;

use super::context::ConfigArgs;
use super::output::{Output, json};
use super::{Context, Exit, Failure, print, selector};
use crate::config::Flags;
use crate::domain::history::{Changed, Part, Record, Value, no_change};
use crate::domain::key::{DirectiveKey, Scope};
use crate::domain::migration::SocketChange;
use crate::domain::selector::{KeyMatcher, Selector};
use crate::domain::settings::Settings;
use crate::domain::snapshot::Snapshot;
use crate::kv::Kv as _;

/// How many changes are shown, unless somebody says.
const SHOWN: usize = 20;

/// Show who changed what, when, and why; the newest first.
#[derive(Debug, Args)]
pub(super) struct History {
    /// One change by its id, or only changes of these keys: a part of the path, or tags with regular
    /// expressions that must fit whole. backend=, server= and group= mean overrides of such servers
    /// and directives of their groups (the key settings says which); zone=, node= and role= what
    /// was written for such nodes alone.
    #[arg(value_name = "SELECTOR | ID")]
    words: Vec<String>,
    /// The most changes to show.
    #[arg(long, value_name = "NUMBER", default_value_t = SHOWN)]
    limit: usize,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    config: ConfigArgs,
}

/// All records, the oldest first, and what could not be read.
pub(super) struct Records {
    pub(super) records: Vec<Record>,
    pub(super) unreadable: Vec<String>,
}

impl History {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        let selector = selector::read(&self.words)?;
        let context = self.config.open(flags)?;
        let Records {
            mut records,
            unreadable,
        } = Records::of(&context)?;
        let mut incomplete = incomplete(&records);
        if let Some(selector) = &selector {
            self.select(&context, &mut records, selector)?;
        }
        incomplete.retain(|change, _| records.iter().any(|record| record.change == *change));
        records.reverse();
        let left_out = records.len().saturating_sub(self.limit);
        records.truncate(self.limit);
        if self.output == Output::Json {
            return print(&json(&records));
        }
        let mut text: String = records.iter().map(shown).collect();
        for (change, Part { number, of }) in incomplete {
            let _ = writeln!(
                text,
                "WARNING: change {change} has {number} of {of} parts so far. If its command has \
                 ended, run it again for the others, or `tidegate undo {change}`"
            );
        }
        if text.is_empty() {
            text += "no change is known\n";
        }
        if left_out > 0 {
            let _ = writeln!(text, "{left_out} older ones: --limit");
        }
        for error in unreadable {
            let _ = writeln!(text, "WARNING: {error}");
        }
        print(&text)
    }

    /// Keeps to the records that are meant.
    fn select(
        &self,
        context: &Context,
        records: &mut Vec<Record>,
        selector: &Selector,
    ) -> Result<(), Failure> {
        let usage = |text: String| Failure::new(Exit::Usage, text);
        let is_named = |record: &Record| {
            let words = self.words.iter();
            words
                .into_iter()
                .any(|w| record.id == *w || record.change == *w)
        };
        // Names alone need nothing of the store.
        let settings = if selector.has_tags() {
            let listing = context.block_on(context.source.list(&context.prefix))?;
            let snapshot = Snapshot::build(&listing);
            snapshot
                .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?
                .settings
        } else {
            Settings::default()
        };
        let all = records.iter().flat_map(|record| &record.changed);
        let scopes: Vec<_> = all
            .filter_map(|changed| DirectiveKey::parse(&changed.path))
            .map(|key| key.scope)
            .collect();
        let zones = scopes.iter().filter_map(|scope| match scope {
            Scope::Zone(zone) => Some(zone),
            Scope::Fleet | Scope::Node(_) => None,
        });
        let keys = KeyMatcher::new(selector, &settings, zones);
        let keys = keys.map_err(|error| usage(error.to_string()))?;
        let is_meant = |changed: &Changed| keys.matches(&changed.path);
        let by_socket = |change: &SocketChange| keys.matches(&change.key().to_string());
        records.retain(|record| {
            is_named(record)
                || record.changed.iter().any(is_meant)
                || record.sockets.iter().any(by_socket)
        });
        if records.is_empty() {
            return Err(usage(format!(
                "no change of {selector:?} is known",
                selector = selector.to_string()
            )));
        }
        Ok(())
    }
}

impl Records {
    /// Reads the whole history.
    pub(super) fn of(context: &Context) -> Result<Self, Failure> {
        let listing = context.block_on(context.list(&context.history))?;
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for (path, entry) in &listing.entries {
            match Record::parse(&entry.value) {
                Ok(record) => records.push(record),
                Err(error) => {
                    let key = context.history.key(path);
                    unreadable.push(format!("{}: {error}", key.escape_debug()));
                }
            }
        }
        records.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self {
            records,
            unreadable,
        })
    }

    /// The records of one change, in the order of their parts.
    pub(super) fn of_change(&self, id: &str) -> Result<Vec<&Record>, Failure> {
        let found: Vec<_> = self.records.iter().filter(|r| r.change == id).collect();
        if found.is_empty() {
            return Err(Failure::new(Exit::Usage, no_change(id)));
        }
        Ok(found)
    }
}

/// Changes whose last parts are not written, and the last one that is. First parts may have been
/// taken away as old.
fn incomplete(records: &[Record]) -> BTreeMap<String, Part> {
    let mut last: BTreeMap<String, Part> = BTreeMap::new();
    for record in records {
        if let Some(part) = record.part {
            let known = last.entry(record.change.clone()).or_insert(part);
            known.number = known.number.max(part.number);
        }
    }
    last.retain(|_, part| part.number < part.of);
    last
}

/// One record for people.
fn shown(record: &Record) -> String {
    let part = record.part.map_or_else(String::new, |part| {
        format!(", part {} of {} of {}", part.number, part.of, record.change)
    });
    let mut text = format!(
        "{} {:.0} {}{part}: {}\n",
        record.id,
        record.at,
        record.by.escape_debug(),
        record.command.escape_debug()
    );
    if let Some(reason) = &record.reason {
        let _ = writeln!(text, "  why: {}", reason.escape_debug());
    }
    for changed in &record.changed {
        text += &change_line(changed);
    }
    for change in &record.sockets {
        let SocketChange {
            node,
            server,
            before,
            after,
        } = change;
        let _ = writeln!(
            text,
            "  {server} on {node}, by its socket: {before} -> {after}"
        );
    }
    text
}

/// `  path: before -> after`.
pub(super) fn change_line(changed: &Changed) -> String {
    let before = value_shown(changed.before.as_ref());
    let after = value_shown(changed.after.as_ref());
    format!("  {}: {before} -> {after}\n", changed.path.escape_debug())
}

/// What stood somewhere, for people.
pub(super) fn value_shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "(nothing)".to_owned(), Value::shown)
}
