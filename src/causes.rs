//! What lies behind an error.

use std::error::Error;
use std::io;

/// An error and what caused it, outermost first.
pub fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// The innermost cause, which says what happened.
#[must_use]
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    chain(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

/// An `io::Error` hides the error that it wraps from `source`.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}
