//! The one place that reads clocks.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::authority::Moment;

/// The clocks of a replica; the simulation has others.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The monotonic clock that counts suspension.
    fn moment(&self) -> Moment;

    /// The wall clock. It never runs back.
    fn now(&self) -> Timestamp;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn moment(&self) -> Moment {
        moment()
    }

    fn now(&self) -> Timestamp {
        now()
    }
}

/// The latest time that was read, in nanoseconds.
static LATEST: AtomicI64 = AtomicI64::new(i64::MIN);

/// The wall clock: what ramps, plans and ends of directives are compared with. When it is set back
/// it stands still meanwhile: a ramp must not shrink.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the lint sends others to"
)]
pub fn now() -> Timestamp {
    never_back(&LATEST, Timestamp::now())
}

fn never_back(latest: &AtomicI64, read: Timestamp) -> Timestamp {
    // Nanoseconds of an i64 reach to the year 2262.
    let Ok(nanos) = i64::try_from(read.as_nanosecond()) else {
        return read;
    };
    let before = latest.load(Ordering::Relaxed);
    let before = if before < nanos {
        latest.fetch_max(nanos, Ordering::Relaxed)
    } else {
        before
    };
    if before <= nanos {
        return read;
    }
    Timestamp::from_nanosecond(before.into()).unwrap_or(read)
}

/// The monotonic clock that goes on while the machine is suspended: a lease must not survive a
/// sleep.
#[must_use]
pub fn moment() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment(duration(time))
}

/// Neither clock shows a time before its beginning.
fn duration(time: rustix::time::Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// The processor time that this process has used.
#[must_use]
pub fn processor_time() -> Duration {
    duration(rustix::time::clock_gettime(
        rustix::time::ClockId::ProcessCPUTime,
    ))
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

    #[test]
    fn a_clock_that_is_set_back_stands_still() {
        let latest = AtomicI64::new(i64::MIN);
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let shown = [0, 10, 5, 9, 11].map(|second| never_back(&latest, at(second)));
        assert_eq!(shown, [0, 10, 10, 10, 11].map(at));
    }
}
