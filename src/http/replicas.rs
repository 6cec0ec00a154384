//! `/api/v1/replicas`: this replica, and what it knows of the others.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::Pages;
use crate::clock;
use crate::domain::authority::{Moment, PeerView, Standing};
use crate::store::Published;

/// This replica, and the others as it knows them: for programs, and for the status page.
#[derive(Serialize)]
pub(super) struct ReplicasView {
    pub(super) replica: String,
    pub(super) version: String,
    pub(super) authority: &'static str,
    pub(super) reason: String,
    pub(super) confirmed_seconds_ago: Option<f64>,
    /// The index of the listing that is believed.
    pub(super) index: Option<u64>,
    /// Digest of the settings that all replicas must share.
    digest: String,
    pub(super) draining: bool,
    /// How far the source's clock is ahead of this machine's.
    source_clock_offset_ms: Option<i64>,
    pub(super) problems: Vec<String>,
    pub(super) peers: Vec<PeerJson>,
}

#[derive(Serialize)]
pub(super) struct PeerJson {
    pub(super) slot: String,
    pub(super) counted_as: &'static str,
    /// Age of its last word or refusal, from when it was asked.
    pub(super) heard_seconds_ago: Option<f64>,
    /// What it said then; absent when it refused the connection.
    #[serde(flatten)]
    pub(super) said: Option<SaidJson>,
    clock_offset_ms: Option<i64>,
    /// Why the last question had no such outcome.
    pub(super) trouble: Option<String>,
}

#[derive(Serialize)]
pub(super) struct SaidJson {
    pub(super) authority: &'static str,
    pub(super) draining: bool,
    pub(super) index: Option<u64>,
    pub(super) version: String,
}

/// `GET /api/v1/replicas`.
pub(super) async fn view(State(pages): State<Pages>) -> Response {
    Json(ReplicasView::of(&pages, &pages.store.load())).into_response()
}

impl ReplicasView {
    /// As it is now.
    pub(super) fn of(pages: &Pages, published: &Published) -> Self {
        let (standing, now) = (&published.standing, clock::moment());
        let verdict = standing.verdict(now);
        let identity = &pages.identity;
        let peers = standing.peers().iter();
        Self {
            replica: pages.replica.to_string(),
            version: identity.version.clone(),
            authority: verdict.name.as_str(),
            reason: verdict.reason,
            confirmed_seconds_ago: standing.age(now).map(|age| age.as_secs_f64()),
            index: published.snapshot.as_ref().map(|snapshot| snapshot.index),
            digest: format!("{:016x}", identity.digest),
            draining: pages.stopping.is_cancelled(),
            source_clock_offset_ms: standing.source_clock().map(|offset| offset.0),
            problems: standing.problems(&identity.version),
            peers: peers
                .map(|peer| PeerJson::new(standing, peer, now))
                .collect(),
        }
    }
}

impl PeerJson {
    fn new(standing: &Standing, peer: &PeerView, now: Moment) -> Self {
        let said = peer.said.as_ref();
        Self {
            slot: peer.slot.to_string(),
            counted_as: standing.counted_as(peer, now).as_str(),
            heard_seconds_ago: peer.asked.map(|asked| now.since(asked).as_secs_f64()),
            said: said.map(|said| SaidJson {
                authority: said.authority.as_str(),
                draining: said.stopping,
                index: said.index,
                version: said.version.clone(),
            }),
            clock_offset_ms: peer.offset.map(|offset| offset.0),
            trouble: peer.trouble.clone(),
        }
    }
}
