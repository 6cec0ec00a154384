//! Answers that take long to write: beside the runtime's threads, and only a few at once.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Does this work when there is a place for it. The place is the work's, not the caller's: work
/// that has begun goes on when the caller hangs up, and many who ask and hang up must not have more
/// of it done at once than there are places.
///
/// # Errors
/// When the work panicked.
pub(super) async fn aside<T: Send + 'static>(
    places: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let place = places.acquire().await.map_err(|error| error.to_string())?;
    let done = spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn work_keeps_its_place_when_the_caller_is_gone() {
        static PLACES: Semaphore = Semaphore::const_new(1);
        let (let_go, held) = mpsc::channel::<()>();
        {
            let mut asked = pin!(aside(&PLACES, move || held.recv()));
            // Begun, and then nobody waits for it.
            poll_fn(|context| {
                assert!(asked.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        assert_eq!(PLACES.available_permits(), 0);
        let_go.send(()).unwrap();
        assert_eq!(aside(&PLACES, || 7).await, Ok(7));
    }
}
