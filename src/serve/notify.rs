//! What the service manager is told (`sd_notify`). Without one, nothing.

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, warn};

use crate::clock;
use crate::progress::Progress;

/// How often the watchdog is fed, as a part of the time that it allows.
const FEEDS_PER_LIMIT: u32 = 4;

/// Both ports are open and every part runs.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Stopping has begun.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Feeds the watchdog, if there is one, while every worker and the watcher make progress.
pub(super) async fn feed(progress: Progress) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut feeds = interval(limit / FEEDS_PER_LIMIT);
    feeds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        feeds.tick().await;
        match progress.stalled(clock::moment()) {
            None => tell(&[NotifyState::Watchdog]),
            Some(part) => error!(part, "no progress: the watchdog is not fed"),
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told");
    }
}
