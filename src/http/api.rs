//! `/api/v1`: what is in force, as JSON.

use axum::Json;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::aside::aside;
use super::peer::json;
use super::{Caller, Pages};
use crate::clock;
use crate::domain::authority::AuthorityName;
use crate::domain::directive::Directive;
use crate::domain::explain::Explanation;
use crate::domain::key::Key;
use crate::domain::listing::Entry;
use crate::domain::memory::Memory;
use crate::domain::name::Name;
use crate::domain::sentinel::Generation;
use crate::domain::snapshot::{Placed, Problem, Snapshot};

/// How many snapshots are written at once; further ones wait. Each copies the whole listing.
const SNAPSHOTS_AT_ONCE_MAX: usize = 2;

static SNAPSHOTS: Semaphore = Semaphore::const_new(SNAPSHOTS_AT_ONCE_MAX);

#[derive(Serialize)]
struct SnapshotView {
    replica: String,
    prefix: String,
    authority: &'static str,
    reason: String,
    confirmed_seconds_ago: Option<f64>,
    /// The highest epoch ever seen, here or at a peer; 0: none.
    highest_epoch: u64,
    /// The highest generation of that epoch.
    highest_gen: u64,
    /// The epoch whose history went back, when that is why nothing is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_epoch: Option<u64>,
    #[serde(flatten)]
    listing: Option<ListingView>,
    /// The keys of the listing, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<EntryView>>,
}

/// One key of the listing.
#[derive(Serialize)]
struct EntryView {
    path: String,
    modify_index: u64,
    /// Base64; absent for keys that this version does not know: they may hold anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Serialize)]
struct ListingView {
    index: u64,
    epoch: u64,
    r#gen: u64,
    directives: Vec<PlacedView>,
    problems: Vec<ProblemView>,
}

#[derive(Serialize)]
struct ExplainView {
    /// Whether a poll is answered at all now; if not, it is closed without a byte.
    answers: bool,
    authority: &'static str,
    #[serde(flatten)]
    explanation: Explanation,
}

#[derive(Serialize)]
struct PlacedView {
    path: String,
    modify_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    directive: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct ProblemView {
    kind: &'static str,
    path: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotQuery {
    /// With every key of the listing, as it is in the store.
    #[serde(default)]
    entries: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    /// The request line.
    request: String,
    /// The address that the poll comes from; the caller's unless given.
    source: Option<String>,
}

/// `GET /api/v1/snapshot[?entries=true]`: what is in force, with its problems. Also while this
/// replica is silent: it says what it would go on with.
pub(super) async fn snapshot(
    State(pages): State<Pages>,
    Query(query): Query<SnapshotQuery>,
) -> Response {
    // A listing of 10,000 keys takes a while to write; what renews the lease must not wait for it.
    match aside(&SNAPSHOTS, move || snapshot_text(&pages, query.entries)).await {
        Ok(text) => json(text),
        Err(error) => {
            let text = format!("the snapshot cannot be written: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn snapshot_text(pages: &Pages, with_entries: bool) -> String {
    let published = pages.store.load();
    let now = clock::moment();
    let verdict = published.standing.verdict(now);
    let memory = published.memory.as_ref().map(|(_, memory)| &**memory);
    let highest = memory.map(highest).unwrap_or_default();
    let held = verdict.name == AuthorityName::Held;
    let view = SnapshotView {
        replica: pages.replica.to_string(),
        prefix: pages.fleet.prefix().as_str().to_owned(),
        authority: verdict.name.as_str(),
        reason: verdict.reason,
        confirmed_seconds_ago: published.standing.age(now).map(|age| age.as_secs_f64()),
        highest_epoch: highest.epoch,
        highest_gen: highest.r#gen,
        broken_epoch: memory.and_then(broken_epoch).filter(|_| held),
        listing: published.snapshot.as_deref().map(ListingView::new),
        entries: with_entries.then(|| memory.map_or_else(Vec::new, entries)),
    };
    serde_json::to_string(&view).expect("strings and numbers always serialise")
}

/// What an accepted state must be above.
fn highest(memory: &Memory) -> Generation {
    let seen = memory.evidence.highest;
    let broken = memory.broken.as_ref().map_or(0, |(epoch, _)| *epoch);
    Generation {
        epoch: seen.epoch.max(broken),
        ..seen
    }
}

/// The epoch whose history went back, unless a higher one has come.
fn broken_epoch(memory: &Memory) -> Option<u64> {
    let (epoch, _) = memory.broken.as_ref()?;
    (memory.evidence.highest.epoch <= *epoch).then_some(*epoch)
}

fn entries(memory: &Memory) -> Vec<EntryView> {
    let listing = memory.listing.iter();
    let entries = listing.flat_map(|listing| &listing.entries);
    let view = |(path, entry): (&String, &Entry)| EntryView {
        path: path.clone(),
        modify_index: entry.modify_index,
        value: match Key::parse(path) {
            Key::Meta | Key::Settings | Key::Deploy(_) | Key::Directive(_) => {
                Some(STANDARD.encode(&entry.value))
            }
            Key::Folder | Key::Unknown => None,
        },
    };
    entries.map(view).collect()
}

/// `GET /api/v1/explain?request=LINE[&source=ADDRESS]`.
pub(super) async fn explain(
    State(pages): State<Pages>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(query): Query<ExplainQuery>,
) -> Response {
    let source = match query.source.as_deref().map(Name::parse) {
        None => Name::from_address(caller.address.ip()),
        Some(Ok(source)) => source,
        Some(Err(error)) => {
            return (StatusCode::BAD_REQUEST, format!("source: {error}\n")).into_response();
        }
    };
    let published = pages.store.load();
    let verdict = published.standing.verdict(clock::moment());
    let Some(snapshot) = published.snapshot.as_deref() else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{}\n", verdict.reason),
        )
            .into_response();
    };
    let line = query.request.as_bytes();
    let explanation = Explanation::new(snapshot, line, &source, &pages.replica, clock::now());
    let (answers, authority) = (verdict.name.answers(), verdict.name.as_str());
    Json(ExplainView {
        answers,
        authority,
        explanation,
    })
    .into_response()
}

impl ListingView {
    fn new(snapshot: &Snapshot) -> Self {
        Self {
            index: snapshot.index,
            epoch: snapshot.generation.epoch,
            r#gen: snapshot.generation.r#gen,
            directives: snapshot.placed().map(PlacedView::new).collect(),
            problems: snapshot
                .problems_at(clock::now())
                .into_iter()
                .map(Into::into)
                .collect(),
        }
    }
}

impl PlacedView {
    fn new(placed: &Placed) -> Self {
        let json = placed.directive.as_ref().map(Directive::to_json).ok();
        Self {
            path: placed.path.clone(),
            modify_index: placed.modify_index,
            directive: json.and_then(|json| RawValue::from_string(json).ok()),
            error: placed.directive.as_ref().err().cloned(),
        }
    }
}

impl From<Problem> for ProblemView {
    fn from(problem: Problem) -> Self {
        Self {
            kind: problem.kind.as_str(),
            path: problem.path,
            text: problem.text,
        }
    }
}
