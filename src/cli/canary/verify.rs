//! Probes from end to end, before a step is written.

use std::time::Duration;

use tokio::time::sleep;

use crate::causes::root_cause;
use crate::cli::{Exit, Failure};
use crate::http_client;

/// How long one probe may take.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause between two probes.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// The most probes that fail before it is given up.
const FAILURES_MAX: u32 = 10;

/// Waits until a URL has answered below 400 so many times in a row.
pub(super) async fn passes(url: &str, times: u32) -> Result<(), Failure> {
    let client = http_client::builder().timeout(PROBE_TIME_MAX).build();
    let client =
        client.map_err(|error| Failure::new(Exit::Failed, format!("the HTTP client: {error}")))?;
    let (mut passed, mut failed) = (0, 0);
    while passed < times {
        let why = match client.get(url).send().await {
            Ok(answer) if answer.status().as_u16() < 400 => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) if error.is_builder() => {
                let text = format!("--verify {url:?}: {}", root_cause(&error));
                return Err(Failure::new(Exit::Usage, text));
            }
            Err(error) => Some(root_cause(&error)),
        };
        match why {
            None => passed += 1,
            Some(why) if failed + 1 >= FAILURES_MAX => {
                let text = format!(
                    "{url} does not answer well: {why}; {FAILURES_MAX} probes failed, and nothing \
                     was written"
                );
                return Err(Failure::new(Exit::Refused, text));
            }
            Some(_) => {
                passed = 0;
                failed += 1;
            }
        }
        if passed < times {
            sleep(PROBE_EVERY).await;
        }
    }
    Ok(())
}
