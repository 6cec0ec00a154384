//! `/api/v1/fleet`: who polls, and what it was told.

use axum::Json;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::{Caller, Pages};
use crate::clock;
use crate::domain::fleet::{Filter, Merged, Missing, Report, View, in_millis};
use crate::domain::name::Name;

/// How many views are made at once; further ones wait. Each copies the whole table.
const VIEWS_AT_ONCE_MAX: usize = 2;

static VIEWS: Semaphore = Semaphore::const_new(VIEWS_AT_ONCE_MAX);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetQuery {
    /// Only nodes whose name contains this.
    node: Option<String>,
    /// Only servers whose `backend/server` contains this.
    server: Option<String>,
    /// What this replica itself was asked, as it tells it to the others.
    #[serde(default)]
    local: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetQuery {
    /// The node's whole name.
    node: String,
}

#[derive(Serialize)]
struct Forgotten {
    replica: String,
    node: String,
    rows: usize,
}

/// What the replicas were asked.
struct Gathered {
    reports: Vec<Report>,
    missing: Vec<Missing>,
}

/// `GET /api/v1/fleet[?node=PART][&server=PART]`, or `?local=true`.
pub(super) async fn view(State(pages): State<Pages>, Query(query): Query<FleetQuery>) -> Response {
    let _permit = VIEWS.acquire().await;
    if query.local {
        if query.node.is_some() || query.server.is_some() {
            let text = "local=true takes no filter: it is the whole report of this replica\n";
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
        let report = move || pages.fleet.report().to_json(pages.fleet.prefix());
        return json(spawn_blocking(report).await);
    }
    let gathered = gather(&pages).await;
    let filter = Filter {
        node: query.node,
        server: query.server,
    };
    let view = move || {
        let merged = Merged::of(gathered.reports);
        let view = View::new(&merged, &gathered.missing, &filter, in_millis(clock::now()));
        serde_json::to_string(&view).expect("strings and numbers always serialise")
    };
    json(spawn_blocking(view).await)
}

/// `POST /api/v1/fleet/forget?node=NAME`, from this machine only. It changes no desired state, and
/// a node that polls again is known again.
pub(super) async fn forget(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(query): Query<ForgetQuery>,
) -> Response {
    if !caller.is_local {
        let text = "a node is forgotten only at the request of this machine: run \
                    `tidegate forget` there\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let node = match Name::parse(&query.node) {
        Ok(node) => node,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("node: {error}\n")).into_response(),
    };
    let rows = pages.fleet.forget(node.as_str());
    if rows > 0 {
        tracing::info!(%node, rows, caller = %caller.address, "forgotten");
    }
    Json(Forgotten {
        replica: pages.replica.to_string(),
        node: node.to_string(),
        rows,
    })
    .into_response()
}

/// The reports of all replicas: today there is one. A replica that does not report belongs into
/// `missing`, never left out in silence.
async fn gather(pages: &Pages) -> Gathered {
    let fleet = std::sync::Arc::clone(&pages.fleet);
    let own = spawn_blocking(move || fleet.report()).await;
    let (mut reports, mut missing) = (Vec::new(), Vec::new());
    match own {
        Ok(report) => reports.push(report),
        Err(error) => missing.push(Missing {
            replica: pages.replica.clone(),
            why: error.to_string(),
        }),
    }
    // Rather named than silently left out.
    let published = pages.store.load();
    missing.extend(published.standing.peers().iter().map(|peer| Missing {
        replica: peer.slot.clone(),
        why: "a replica shows its own polls only; ask that one".to_owned(),
    }));
    Gathered { reports, missing }
}

fn json(text: Result<String, tokio::task::JoinError>) -> Response {
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => {
            let text = format!("the fleet cannot be shown: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
