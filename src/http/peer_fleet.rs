//! `/peer/v1/fleet`: what this replica tells its peers of the fleet, and forgets at their request.

use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::aside::aside;
use super::fleet::forget_here;
use super::peer::{admitted, json};
use super::{Caller, Pages};
use crate::domain::name::Name;
use crate::domain::statement::Statement;

/// How many reports are written at once; further ones wait. Each is the whole table as text. A permit
/// of their own: what people look at waits for the peers, and they must not wait for that.
const REPORTS_AT_ONCE_MAX: usize = 2;

static REPORTS: Semaphore = Semaphore::const_new(REPORTS_AT_ONCE_MAX);

/// A later version may ask with more: what is not known is let pass.
#[derive(Deserialize)]
pub(super) struct ForgetQuery {
    /// The node's whole name.
    node: String,
    /// Whom the asker means.
    slot: String,
    /// Digest of the settings that it shares with its peers, 16 hex digits.
    digest: String,
}

#[derive(Serialize)]
struct Forgotten {
    /// None: the asker is of another fleet, or means somebody else.
    rows: Option<usize>,
}

/// `GET /peer/v1/fleet`.
pub(super) async fn report(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = admitted(&pages, &caller, &headers) {
        return refused.into_response();
    }
    let statement = move || {
        let statement = Statement {
            from: (*pages.identity).clone(),
            says: pages
                .fleet
                .told(|report| report.to_json(pages.fleet.prefix())),
        };
        statement.to_json()
    };
    match aside(&REPORTS, statement).await {
        Ok(text) => json(text),
        Err(error) => {
            let text = format!("the report cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// `POST /peer/v1/fleet/forget?node=NAME&slot=SLOT&digest=DIGEST`. Nothing is forgotten for who is
/// no peer: the same name may be a living node of another environment.
pub(super) async fn forget(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(query): Query<ForgetQuery>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = admitted(&pages, &caller, &headers) {
        return refused.into_response();
    }
    let node = match Name::parse(&query.node) {
        Ok(node) => node,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("node: {error}\n")).into_response(),
    };
    let identity = &pages.identity;
    let meant = query.slot == identity.slot.as_str()
        && u64::from_str_radix(&query.digest, 16) == Ok(identity.digest);
    let rows = meant.then(|| forget_here(&pages, &node, &caller));
    json(Statement::new((**identity).clone(), &Forgotten { rows }).to_json())
}
