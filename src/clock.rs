//! The one place that reads clocks.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::authority::Moment;

/// The wall clock: what ramps, plans and ends of directives are compared with.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the lint sends others to"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// The monotonic clock that goes on while the machine is suspended: a lease must not survive a
/// sleep.
#[must_use]
pub fn moment() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Moment(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward() {
        let (wall, monotonic) = (now(), moment());
        assert!(wall > "2026-01-01T00:00:00Z".parse().unwrap());
        assert!(moment() >= monotonic && monotonic.0 > Duration::ZERO);
    }
}
