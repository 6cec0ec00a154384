//! `/api/v1/groups/<group>`: for routers elsewhere that follow a group and ask no agent.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};

use super::Pages;
use crate::clock;
use crate::domain::group::{GroupError, GroupState};
use crate::domain::hash::fnv1a;
use crate::domain::name::Name;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupQuery {
    /// As this node has it.
    node: Option<String>,
    /// As the nodes of this zone have it.
    zone: Option<String>,
}

#[derive(Serialize)]
struct GroupView {
    #[serde(flatten)]
    state: GroupState,
    index: u64,
    epoch: u64,
    r#gen: u64,
    replica: String,
    authority: &'static str,
}

/// `GET /api/v1/groups/<group>[?node=NODE][&zone=ZONE]`.
///
/// 200 with what the group is asked to be now; 304 when it is what `If-None-Match` names; 404 for a
/// group without a key; 503, with the reason, while this replica may not answer or the key that
/// decides cannot be followed: whoever asks keeps what it has, as `HAProxy` does.
pub(super) async fn view(
    State(pages): State<Pages>,
    Path(group): Path<String>,
    Query(query): Query<GroupQuery>,
    headers: HeaderMap,
) -> Response {
    let names = (
        Name::parse(&group),
        query.node.as_deref().map(Name::parse).transpose(),
        query.zone.as_deref().map(Name::parse).transpose(),
    );
    let (group, node, zone) = match names {
        (Ok(group), Ok(node), Ok(zone)) => (group, node, zone),
        (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
            return refused(StatusCode::BAD_REQUEST, &error.to_string());
        }
    };
    let published = pages.store.load();
    let now = clock::moment();
    let verdict = published.standing.verdict(now);
    let Some(snapshot) = published.answering(now) else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, &verdict.reason);
    };
    let place = (node.as_ref(), zone.as_ref());
    let state = match GroupState::read(snapshot, &group, place, clock::now()) {
        Ok(state) => state,
        Err(GroupError::Unknown) => {
            let text = format!("no key stands for the group {group}: misspelt, or never set");
            return refused(StatusCode::NOT_FOUND, &text);
        }
        Err(GroupError::Frozen(text)) => {
            return refused(StatusCode::SERVICE_UNAVAILABLE, &text);
        }
    };
    let view = GroupView {
        state,
        index: snapshot.index,
        epoch: snapshot.generation.epoch,
        r#gen: snapshot.generation.r#gen,
        replica: pages.replica.to_string(),
        authority: verdict.name.as_str(),
    };
    answered(&view, &headers)
}

/// The tag is of what the group is, not of who says so: replicas behind a balancer give the same.
/// `no-cache` lets it be kept, and asks before it is used again: it may change at any moment.
fn answered(view: &GroupView, headers: &HeaderMap) -> Response {
    let state = serde_json::to_string(&view.state);
    let state = state.expect("strings and numbers always serialise");
    let tag = format!("W/\"{}-{:016x}\"", view.index, fnv1a(state.bytes()));
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|known| known.to_str().ok()).unwrap_or("");
    let is_known = known.split(',').any(|one| one.trim() == tag);
    let about = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (
            header::ETAG,
            HeaderValue::from_str(&tag).expect("digits and quotes are a header's value"),
        ),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, axum::Json(view)).into_response()
}

fn refused(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}
