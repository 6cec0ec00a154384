//! `/api/v1/fleet`: who polls, and what it was told.

use std::fmt;

use axum::Json;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::aside::aside;
use super::{Caller, Pages};
use crate::clock;
use crate::domain::fleet::{Filter, Missing, View, in_millis};
use crate::domain::name::Name;

/// How many views are made at once; further ones wait. Each goes through the whole table.
const VIEWS_AT_ONCE_MAX: usize = 2;

static VIEWS: Semaphore = Semaphore::const_new(VIEWS_AT_ONCE_MAX);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetQuery {
    /// Only nodes whose name contains this.
    node: Option<String>,
    /// Only servers whose `backend/server` contains this.
    server: Option<String>,
    /// How it is written.
    #[serde(default)]
    output: Output,
    /// What this replica itself was asked, as it tells it to the others.
    #[serde(default)]
    local: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Output {
    #[default]
    Json,
    Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetQuery {
    /// The node's whole name.
    node: String,
}

#[derive(Serialize)]
struct ForgottenView {
    node: String,
    /// Whether every replica forgot it.
    complete: bool,
    /// This one, then the others.
    replicas: Vec<ForgottenAt>,
}

#[derive(Serialize)]
struct ForgottenAt {
    replica: String,
    forgotten: bool,
    /// How many rows the node had there.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<usize>,
    /// Why it was not forgotten there.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// `GET /api/v1/fleet[?node=PART][&server=PART][&output=json|table]`, or `?local=true`.
pub(super) async fn view(State(pages): State<Pages>, Query(query): Query<FleetQuery>) -> Response {
    if query.local {
        if query.node.is_some() || query.server.is_some() || query.output != Output::Json {
            let text = "local=true takes neither filter nor output: it is the whole report of this \
                        replica, in JSON\n";
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
        let prefix = pages.fleet.prefix().clone();
        let report = move || pages.fleet.told(|report| report.to_json(&prefix));
        return written(Output::Json, aside(&VIEWS, report).await);
    }
    // Without a permit: replicas that ask each other would wait for each other.
    let gathered = match pages.others.gather().await {
        Ok(gathered) => gathered,
        Err(error) => return unseen(&error),
    };
    let filter = Filter {
        node: query.node,
        server: query.server,
    };
    let view = move || {
        let merged = gathered.merged(pages.fleet.report());
        let view = View::new(&merged, &gathered.missing, &filter, in_millis(clock::now()));
        match query.output {
            Output::Json => {
                serde_json::to_string(&view).expect("strings and numbers always serialise")
            }
            Output::Table => view.to_table(),
        }
    };
    written(query.output, aside(&VIEWS, view).await)
}

/// `POST /api/v1/fleet/forget?node=NAME`, from this machine only: here, and at all others that can
/// be told. It changes no desired state, and a node that polls again is known again.
pub(super) async fn forget(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(query): Query<ForgetQuery>,
    headers: HeaderMap,
) -> Response {
    // A browser on this machine names the page that has it ask; no page may.
    if !caller.is_local || headers.contains_key(header::ORIGIN) {
        let text = "a node is forgotten only at the request of this machine: run \
                    `tidegate forget` there\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let node = match Name::parse(&query.node) {
        Ok(node) => node,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("node: {error}\n")).into_response(),
    };
    let rows = forget_here(&pages, &node, &caller);
    let mut replicas = vec![ForgottenAt::forgot(&pages.replica, rows)];
    let others = pages.others.forget(&node).await;
    let complete = others.iter().all(Result::is_ok);
    replicas.extend(others.into_iter().map(|other| match other {
        Ok(forgot) => ForgottenAt::forgot(&forgot.replica, forgot.rows),
        Err(missing) => ForgottenAt::missing(missing),
    }));
    Json(ForgottenView {
        node: node.to_string(),
        complete,
        replicas,
    })
    .into_response()
}

/// Forgets a node here; gives how many rows it had.
pub(super) fn forget_here(pages: &Pages, node: &Name, caller: &Caller) -> usize {
    let rows = pages.fleet.forget(node.as_str());
    if rows > 0 {
        tracing::info!(%node, rows, caller = %caller.address, "forgotten");
    }
    rows
}

impl ForgottenAt {
    fn forgot(replica: &Name, rows: usize) -> Self {
        Self {
            replica: replica.to_string(),
            forgotten: true,
            rows: Some(rows),
            why: None,
        }
    }

    fn missing(missing: Missing) -> Self {
        Self {
            replica: missing.replica.to_string(),
            forgotten: false,
            rows: None,
            why: Some(missing.why),
        }
    }
}

fn written(output: Output, text: Result<String, String>) -> Response {
    let kind = match output {
        Output::Json => "application/json",
        Output::Table => "text/plain; charset=utf-8",
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => unseen(&error),
    }
}

fn unseen(error: &dyn fmt::Display) -> Response {
    let text = format!("the fleet cannot be shown: {error}\n");
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}
