//! What the service manager is told (`sd_notify`), and what it keeps for the next process (its file
//! descriptor store). Without one, nothing.

use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, warn};

use crate::clock;
use crate::progress::Progress;

/// How often the watchdog is fed, as a part of the time that it allows.
const FEEDS_PER_LIMIT: u32 = 4;

/// The name of the agent's listeners, as `systemctl status` shows what is kept.
const AGENT: &str = "agent";

/// The sockets that the service manager kept while no process ran. To be called once.
///
/// # Errors
/// When its variables cannot be read.
pub(super) fn kept() -> anyhow::Result<Vec<OwnedFd>> {
    let kept = sd_listen_fds::get().context("LISTEN_FDS, LISTEN_PID of the service manager")?;
    Ok(kept
        .into_iter()
        .map(|(_, socket)| socket.into_std())
        .collect())
}

/// Has these kept over a restart, if the unit allows it (`FileDescriptorStoreMax=`). The service
/// manager lets go of them when the unit is stopped.
pub(super) fn keep(listeners: &[TcpListener]) {
    let states = [NotifyState::FdStore, NotifyState::FdName(AGENT)];
    for listener in listeners {
        // One by one: a message takes fewer than there may be workers.
        if let Err(error) = sd_notify::notify_with_fds(&states, &[listener.as_fd()]) {
            warn!(%error, "the service manager cannot be given a listener");
        }
    }
}

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
