//! `/events`: what changes on the page, as server-sent events.
//!
//! An event is named after a section and holds its HTML. The id says how far the reader is, so that
//! one who comes again is sent only what changed meanwhile. A connection of this listener lives for
//! ten seconds, so a stream ends by itself a little earlier and the browser opens another: one that
//! takes nothing holds its place no longer than that.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep_until};

use super::HEADERS;
use super::edition::Edition;
use super::hub::{Editions, Hub};
use crate::http::Caller;

/// How long before its connection is cut a stream ends: time enough to send what is on its way.
const EARLIER: Duration = Duration::from_secs(1);
/// How soon a browser comes again.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Who is told of changes.
struct Viewer {
    hub: Arc<Hub>,
    editions: Editions,
    /// The edition that it has.
    known: u64,
    /// What of the next one it has not been sent.
    unsent: VecDeque<Event>,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

/// `GET /events`.
pub(super) async fn events(
    State(hub): State<Arc<Hub>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    headers: HeaderMap,
) -> Response {
    let Ok(place) = Arc::clone(&hub.viewers).try_acquire_owned() else {
        let text = "too many pages are open; load this one again for what is new\n";
        let later = [(header::RETRY_AFTER, HeaderValue::from_static("10"))];
        return (StatusCode::SERVICE_UNAVAILABLE, later, text).into_response();
    };
    let known = headers.get("last-event-id");
    let known = known.and_then(|id| id.to_str().ok());
    let viewer = Viewer {
        editions: hub.editions(),
        known: known.map_or(0, |id| hub.number_of(id)),
        hub,
        // First of all: it may be cut before there is anything else.
        unsent: VecDeque::from([Event::default().retry(AGAIN_AFTER)]),
        end: Box::pin(sleep_until(caller.ends - EARLIER)),
        _place: place,
    };
    let stream = unfold(viewer, async |mut viewer| {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    let about: [(HeaderName, HeaderValue); 2] = [
        (header::CONNECTION, HeaderValue::from_static("close")),
        // A proxy that collects would keep changes back.
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (HEADERS, about, Sse::new(stream)).into_response()
}

impl Viewer {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.unsent.pop_front() {
                return Some(event);
            }
            let news = self.editions.borrow_and_update().clone();
            if let Some(edition) = news.filter(|edition| edition.number > self.known) {
                self.take(&edition);
                continue;
            }
            tokio::select! {
                biased;
                () = self.hub.stop.cancelled() => return None,
                () = &mut self.end => return None,
                changed = self.editions.changed() => changed.ok()?,
            }
        }
    }

    fn take(&mut self, edition: &Edition) {
        let known = self.known;
        let new = edition.sections.iter().filter(|s| s.number > known);
        let events = new.map(|section| Event::default().event(section.id).data(&section.html));
        self.unsent.extend(events);
        // Only who has all of it is that far.
        if let Some(last) = self.unsent.pop_back() {
            let id = self.hub.id_of(edition.number);
            self.unsent.push_back(last.id(id));
        }
        self.known = edition.number;
    }
}

impl Hub {
    /// The id of an edition, unlike those of other processes.
    pub(super) fn id_of(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.nonce)
    }

    /// The edition of an id; 0 when it is none of this process.
    fn number_of(&self, id: &str) -> u64 {
        let own = id.split_once('-').filter(|(nonce, _)| {
            u64::from_str_radix(nonce, 16).is_ok_and(|nonce| nonce == self.nonce)
        });
        own.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }
}
