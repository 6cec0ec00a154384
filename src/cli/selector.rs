//! What a reading command is about.

use clap::Args;

use super::look::Look;
use super::{Exit, Failure};
use crate::domain::selector::Selector;
use crate::domain::view::View;

/// What a reading command is about; everything unless somebody says.
#[derive(Debug, Args)]
pub(super) struct SelectorArgs {
    /// Only these: a part of backend/server, or the whole of one; or tags with regular expressions
    /// that must fit whole: backend=api server=.*-cny-.* group=canary zone=us-east1-b node=lb-1
    /// role=main. Zone, node and role are those of the LB nodes.
    #[arg(value_name = "SELECTOR")]
    words: Vec<String>,
}

impl SelectorArgs {
    /// Reads it; `None`: everything.
    pub(super) fn read(&self) -> Result<Option<Selector>, Failure> {
        read(&self.words)
    }
}

/// Words of a command line as one selector.
pub(super) fn read(words: &[String]) -> Result<Option<Selector>, Failure> {
    if words.is_empty() {
        return Ok(None);
    }
    let selector = Selector::parse(&words.join(" "));
    selector
        .map(Some)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))
}

/// Asks everybody, and keeps to what was selected.
pub(super) fn look(look: &Look, selector: Option<&Selector>) -> Result<View, Failure> {
    let mut view = look.view();
    select(&mut view, selector)?;
    Ok(view)
}

/// A selector that nothing fits is a slip. What could not be had may have fitted.
pub(super) fn select(view: &mut View, selector: Option<&Selector>) -> Result<(), Failure> {
    let Some(selector) = selector else {
        return Ok(());
    };
    view.select(selector).map_err(|error| {
        let missing: String = missing(view).collect();
        Failure::new(Exit::Usage, format!("{error}{missing}"))
    })
}

/// A line for each thing that could not be had.
pub(super) fn missing(view: &View) -> impl Iterator<Item = String> {
    let missing = view.missing.iter();
    missing.map(|missing| format!("\n  {}: {}", missing.what, missing.why))
}
