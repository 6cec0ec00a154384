//! All times of the authority, from one setting.

use std::time::Duration;

/// A moment of the monotonic clock that counts suspension, since an origin of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub Duration);

/// All times of the authority, from one setting: the fleet's smallest `agent-inter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    poll_interval: Duration,
}

impl Times {
    /// From the fleet's smallest `agent-inter`.
    #[must_use]
    pub const fn from_poll_interval(poll_interval: Duration) -> Self {
        Self { poll_interval }
    }

    /// How long a confirmation counts. Shorter than a poll, so that an answer given one poll
    /// later cannot rest on an older listing.
    #[must_use]
    pub fn lease(self) -> Duration {
        self.poll_interval * 3 / 4
    }

    /// Time from one light read to the next.
    #[must_use]
    pub fn light_read(self) -> Duration {
        self.poll_interval / 4
    }

    /// Time from one question to a peer to the next.
    #[must_use]
    pub fn question(self) -> Duration {
        self.poll_interval / 8
    }

    /// How long a peer may take to answer. Two questions that are lost one after the other leave
    /// it out of sight.
    #[must_use]
    pub fn answer_time_max(self) -> Duration {
        self.poll_interval / 4
    }

    /// How long a peer's word counts, from when it was asked.
    #[must_use]
    pub fn fresh(self) -> Duration {
        self.poll_interval * 3 / 10
    }
}

impl Moment {
    /// Later than every other one.
    pub const NEVER: Self = Self(Duration::MAX);

    /// Time since an earlier moment.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// A moment this much later.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// A moment this much earlier; `None`: before the clock's origin.
    #[must_use]
    pub fn before(self, span: Duration) -> Option<Self> {
        self.0.checked_sub(span).map(Self)
    }
}
