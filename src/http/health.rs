//! Whether the process runs, whether it may answer, and its metrics.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::Pages;
use crate::clock;
use crate::domain::authority::AuthorityName;

/// The process runs. It says nothing more: a restart cures no lost source.
pub(super) async fn live() -> &'static str {
    "alive\n"
}

/// 200 when this replica may answer agent checks now, 503 otherwise; the reason in the body, and
/// below it what is not as it should be.
pub(super) async fn ready(State(pages): State<Pages>) -> Response {
    let (verdict, problems) = {
        let published = pages.store.load();
        let standing = &published.standing;
        let problems = standing.problems(&pages.identity.version);
        (standing.verdict(clock::moment()), problems)
    };
    let stopping = pages.stopping.is_cancelled();
    let ready = verdict.name.answers() && !stopping;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let word = if stopping { "draining, " } else { "" };
    let mut body = format!("{word}{}: {}\n", verdict.name.as_str(), verdict.reason);
    if !problems.is_empty() || verdict.name == AuthorityName::Agreed {
        body += &format!("{}\n", degraded(&problems));
    }
    (status, body).into_response()
}

fn degraded(problems: &[String]) -> String {
    if problems.is_empty() {
        "degraded".to_owned()
    } else {
        format!("degraded: {}", problems.join("; "))
    }
}

/// A scrape.
pub(super) async fn metrics(State(pages): State<Pages>) -> Response {
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    // What it shows of the other replicas is as of the scrape before.
    pages.whole.refresh();
    match pages.metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => {
            let text = format!("the metrics cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
