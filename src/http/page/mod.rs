//! `/`: the status page, for a person. It shows, names the command for an action, and acts on
//! nothing.
//!
//! ```text
//! store, fleet, gatherer ──► Hub, once a second and at each change, for all who look
//!                             │ Board ──► sections of HTML ──► Edition
//!                             ├──► GET /        the page, whole; works without script
//!                             └──► GET /events  server-sent events: the sections that changed
//! ```

mod assets;
mod edition;
mod hub;
mod look;
mod render;
mod stream;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use self::hub::Hub;
use super::Pages;

/// Nothing from elsewhere, nothing inline, no frame, no form to elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Headers of the page and its files. Links to elsewhere there are none; a person may still go on.
pub(super) const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
];

/// The routes of the page. Its streams end with `stop`.
pub(super) fn routes(pages: &Pages, stop: &CancellationToken) -> Router<Pages> {
    let hub = Arc::new(Hub::new(pages.clone(), stop.clone()));
    Router::new()
        .route("/", get(page))
        .route("/events", get(stream::events))
        .with_state(hub)
        .route("/assets/{file}", get(assets::asset))
}

/// `GET /`.
async fn page(State(hub): State<Arc<Hub>>) -> Response {
    match hub.now().await {
        Ok(edition) => (HEADERS, Html(render::page(&edition).into_string())).into_response(),
        Err(error) => {
            let text = format!("the page cannot be shown: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
