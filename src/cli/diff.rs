//! `tidegate diff`.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::history::{Records, value_shown};
use super::look::LookArgs;
use super::output::{Output, json};
use super::{Exit, Failure, print, selector};
use crate::config::Flags;
use crate::domain::history::{Difference, Differences};
use crate::domain::selector::Selector;
use crate::kv::Kv as _;

/// Show what differs.
#[derive(Debug, Args)]
pub(super) struct Diff {
    /// A selector, as `status` takes it; or the id of a change; or two of them, ID..ID.
    #[arg(value_name = "SELECTOR | ID | ID..ID")]
    what: Vec<String>,
    /// How to print it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    look: LookArgs,
}

/// What is compared.
enum What<'a> {
    Rows(Option<Selector>),
    /// What a change left, and what stands now.
    Since(&'a str),
    Between(&'a str, &'a str),
}

#[derive(Serialize)]
struct Shown<'a> {
    from: &'a str,
    /// `null`: now.
    to: Option<&'a str>,
    #[serde(flatten)]
    found: &'a Differences,
}

impl Diff {
    pub(super) fn run(&self, flags: &Flags) -> Result<(), Failure> {
        match self.what()? {
            What::Rows(selector) => self.rows(flags, selector.as_ref()),
            What::Since(id) => self.history(flags, id, None),
            What::Between(first, second) => self.history(flags, first, Some(second)),
        }
    }

    /// Ids are told by their form, and never stand beside something else.
    fn what(&self) -> Result<What<'_>, Failure> {
        if let [one] = &self.what[..] {
            match one.split_once("..") {
                None if is_id(one) => return Ok(What::Since(one)),
                Some((first, second)) if is_id(first) && is_id(second) => {
                    return Ok(What::Between(first, second));
                }
                None | Some(_) => {}
            }
        }
        selector::read(&self.what).map(What::Rows)
    }

    fn rows(&self, flags: &Flags, selector: Option<&Selector>) -> Result<(), Failure> {
        let view = selector::look(&self.look.open(flags)?, selector)?;
        if view.index.is_none() {
            let missing: String = selector::missing(&view).collect();
            let text = format!("what is desired could not be had{missing}");
            return Err(Failure::new(Exit::Unreachable, text));
        }
        let found = view.differences();
        print(&match self.output {
            Output::Table => found.to_string(),
            Output::Json => json(&found),
        })?;
        if !found.rows.is_empty() {
            return Err(Failure::differs());
        }
        // Whoever could not be asked may know better.
        if !found.missing.is_empty() {
            let missing: String = selector::missing(&view).collect();
            let text = format!("not everything could be compared{missing}");
            return Err(Failure::new(Exit::Failed, text));
        }
        Ok(())
    }

    fn history(&self, flags: &Flags, first: &str, second: Option<&str>) -> Result<(), Failure> {
        let look = self.look.open(flags)?;
        let context = &look.context;
        let records = Records::of(context)?;
        records.of_change(first)?;
        let mut found = if let Some(second) = second {
            Differences::between(&records.records, first, second)
                .map_err(|text| Failure::new(Exit::Usage, text))?
        } else {
            let listing = context.block_on(context.source.list(&context.prefix))?;
            Differences::since(&records.records, first, &listing)
        };
        found.warnings.extend(records.unreadable);
        print(&match self.output {
            Output::Table => table(first, second, &found),
            Output::Json => json(&Shown {
                from: first,
                to: second,
                found: &found,
            }),
        })?;
        if found.differences.is_empty() {
            Ok(())
        } else {
            Err(Failure::differs())
        }
    }
}

/// A ULID, as all ids of changes are.
fn is_id(text: &str) -> bool {
    text.parse::<ulid::Ulid>().is_ok()
}

fn table(first: &str, second: Option<&str>, found: &Differences) -> String {
    let count = found.differences.len();
    let mut text = match second {
        Some(second) => format!("{count} keys differ between {first} and {second}\n"),
        None => format!("{count} keys are no longer as {first} left them\n"),
    };
    for difference in &found.differences {
        text += &shown(difference);
    }
    for warning in &found.warnings {
        let _ = writeln!(text, "WARNING: {warning}");
    }
    text
}

/// ```text
/// canary-state
///   - drain
///   + ready
///   by ana at 2026-11-30T10:00:00Z, change 01K...: reason
/// ```
fn shown(difference: &Difference) -> String {
    let Difference {
        path,
        before,
        after,
        since,
    } = difference;
    let (before, after) = (value_shown(before.as_ref()), value_shown(after.as_ref()));
    let mut text = format!("{}\n  - {before}\n  + {after}\n", path.escape_debug());
    if let Some(since) = since {
        let by = since.by.escape_debug();
        let _ = write!(
            text,
            "  by {by} at {:.0}, change {}",
            since.at, since.change
        );
        if let Some(reason) = &since.reason {
            let _ = write!(text, ": {}", reason.escape_debug());
        }
        text.push('\n');
    }
    text
}
