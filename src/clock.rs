//! The wall clock. Nothing else reads it: everywhere else time is an argument.

use jiff::Timestamp;

/// The time now, as the machine believes.
#[must_use]
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}
