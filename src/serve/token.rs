//! When the source's token ends, for the metrics.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::kv::source::Source;

/// How often it is asked: a token may be replaced at any time.
const LOOKED_AT_EVERY: Duration = Duration::from_mins(1);

/// Asks now and then, until `stop`.
pub(super) async fn look(source: Arc<Source>, stop: CancellationToken) {
    let looking = async {
        loop {
            source.look_at_token().await;
            sleep(LOOKED_AT_EVERY).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = looking => {}
    }
}
