//! The only place of the tests that waits by polling.

use std::time::{Duration, Instant};

/// Short beside every time that a test measures, long beside the cost of one probe.
const STEP: Duration = Duration::from_millis(5);

/// Long enough for a start or an election on a loaded machine; a test that waits for it is failing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Lets time pass where the time itself is what a test is about: a pause inside a request, a span
/// over which something is measured. Never to wait for an effect: [`eventually`] does that.
pub(crate) fn let_pass(span: Duration) {
    std::thread::sleep(span);
}

/// Calls `probe` until it answers `Ok`, for `limit` at most. The error is what was seen instead;
/// the last one is part of the failure's message.
pub(crate) fn eventually<T>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    loop {
        match probe() {
            Ok(value) => return value,
            Err(seen) if begin.elapsed() >= limit => {
                panic!("not within {limit:?}: {what}. Last seen: {seen}")
            }
            Err(_) => std::thread::sleep(STEP),
        }
    }
}

/// Calls `probe` for the whole of `span`: what must not change is watched, not looked at once.
/// Fails at the first `Err`, which says what was seen.
pub(crate) fn throughout(
    what: &str,
    span: Duration,
    mut probe: impl FnMut() -> Result<(), String>,
) {
    let begin = Instant::now();
    while begin.elapsed() < span {
        if let Err(seen) = probe() {
            panic!(
                "not for {span:?}: {what}. After {:?}: {seen}",
                begin.elapsed()
            );
        }
        std::thread::sleep(STEP);
    }
}

/// As `eventually`, for probes that await: other tasks of the test go on meanwhile.
pub(crate) async fn eventually_async<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begin = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if begin.elapsed() >= limit => {
                panic!("not within {limit:?}: {what}. Last seen: {seen}")
            }
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
}

/// `Ok` when the condition holds: for probes whose value nobody needs.
pub(crate) fn check(holds: bool, seen: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(seen()) }
}
