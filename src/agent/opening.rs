//! When the first poll is let in.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::clock;
use crate::store::Store;

/// How often it is looked whether this replica may answer: short beside the time in which a
/// process starts.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Returns once this replica may answer, or after `limit`. Until then polls wait in the kernel's
/// queue: accepted too early, each would be closed without a byte, those that came while no process
/// ran as well. Whoever waits for longer is closed so: HAProxy has a time-out of its own, and a poll
/// that it has given up is worth less than a fault that it shows.
pub(super) async fn may_answer(store: &Store, limit: Duration) {
    let looking = async {
        while store.load().answering(clock::moment()).is_none() {
            sleep(LOOK_EVERY).await;
        }
    };
    // Late or not, polls are let in.
    let _ = timeout(limit, looking).await;
}
