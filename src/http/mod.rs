//! The HTTP listener: health, metrics and read-only views. Desired state is written through the
//! KV, where the access rights are; the one thing that can be changed here is that the replicas
//! forget a node that they were polled by, and only from this machine or by a peer.

mod admission;
mod api;
mod aside;
mod fleet;
mod groups;
mod health;
mod listener;
mod page;
mod peer;
mod peer_fleet;
mod replicas;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::extract::connect_info::Connected;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::{BoxError, ServiceBuilder};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

use self::listener::Bounded;
use self::tls::Encryption;
pub use self::tls::SharedTls;
use crate::domain::name::Name;
use crate::domain::token::Token;
use crate::domain::word::Identity;
use crate::fleet::{Fleet, Gatherer, Whole};
use crate::metrics::Metrics;
use crate::store::Store;

/// The longest that one request may take.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// The most bytes of a request's body: nothing here reads one.
pub const BODY_BYTES_MAX: usize = 1_024;
/// The most requests at once; one more is answered 503.
pub const REQUESTS_MAX: usize = 64;
/// The most requests of `/livez` and `/readyz` at once, beside the others: each is answered from
/// memory. A probe that finds no place counts as a failure, and its balancer takes the replica out.
pub const PROBES_MAX: usize = 64;
/// The most questions of peers at once, beside the other requests: each asks one at a time, and
/// those of a peer that hung up may still be at work.
pub const QUESTIONS_MAX: usize = 32;

/// The most questions of peers for this replica's part of the fleet at once. They have places of
/// their own: a peer that waits for a word must not wait for a report.
pub const REPORTS_MAX: usize = 16;

/// How long open requests are finished when the service stops.
pub const FINISH_TIME_MAX: Duration = Duration::from_secs(1);

/// Who calls.
#[derive(Debug, Clone)]
struct Caller {
    address: SocketAddr,
    /// Whether it is on this machine: on loopback, or calling an address of this machine from the
    /// same one, which no other machine can.
    is_local: bool,
    encryption: Encryption,
    /// When its connection is cut.
    ends: Instant,
}

/// What the pages read from.
#[derive(Debug, Clone)]
pub struct Pages {
    /// What is in force.
    pub store: Arc<Store>,
    /// What a scrape shows.
    pub metrics: Arc<Metrics>,
    /// Who polled what.
    pub fleet: Arc<Fleet>,
    /// What the other replicas know of that.
    pub others: Arc<Gatherer>,
    /// All of it in numbers.
    pub whole: Arc<Whole>,
    /// This replica's name.
    pub replica: Name,
    /// Who it is, for its peers.
    pub identity: Arc<Identity>,
    /// Who may see what.
    pub access: Access,
    /// Cancelled when stopping begins: `/readyz` says so from then on.
    pub stopping: CancellationToken,
}

/// Who may see what, as it was read last.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The secret by which peers are known; without it only this machine is told.
    pub peers: Arc<ArcSwapOption<Token>>,
    /// The secret for which the views are shown; none: to everybody.
    pub viewers: Arc<ArcSwapOption<Token>>,
    /// What is shown to who begins with TLS; none: plain HTTP is enough.
    pub tls: SharedTls,
}

/// All routes with their limits. What goes on by itself ends with `stop`.
pub fn router(pages: Pages, stop: &CancellationToken) -> Router {
    // Many views at once must not keep a balancer's probe out.
    let probed = Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready));
    let shown = Router::new()
        .route("/metrics", get(health::metrics))
        .route("/api/v1/snapshot", get(api::snapshot))
        .route("/api/v1/explain", get(api::explain))
        .route("/api/v1/fleet", get(fleet::view))
        .route("/api/v1/fleet/forget", post(fleet::forget))
        .route("/api/v1/groups/{group}", get(groups::view))
        .route("/api/v1/replicas", get(replicas::view))
        .merge(page::routes(&pages, stop))
        .fallback(no_such_page)
        .layer(middleware::from_fn_with_state(
            pages.clone(),
            admission::viewers,
        ));
    // Scrapes and people must not keep a peer out: it would take this replica for out of sight.
    let asked = Router::new().route("/peer/v1/word", get(peer::word));
    let reported = Router::new()
        .route("/peer/v1/fleet", get(peer_fleet::report))
        .route("/peer/v1/fleet/forget", post(peer_fleet::forget));
    let no_store = HeaderValue::from_static("no-store");
    limited(shown, REQUESTS_MAX)
        .merge(limited(probed, PROBES_MAX))
        .merge(limited(asked, QUESTIONS_MAX))
        .merge(limited(reported, REPORTS_MAX))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CACHE_CONTROL,
            no_store,
        ))
        .with_state(pages)
}

fn limited(routes: Router<Pages>, requests_max: usize) -> Router<Pages> {
    let limits = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(shed))
        .layer(LoadShedLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(requests_max))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::SERVICE_UNAVAILABLE,
            REQUEST_TIME_MAX,
        ))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX));
    routes.layer(limits)
}

/// Serves until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, pages: Pages, stop: CancellationToken) -> io::Result<()> {
    let tls = Arc::clone(&pages.access.tls);
    let service = router(pages, &stop).into_make_service_with_connect_info::<Caller>();
    let stopped = stop.clone();
    let served = axum::serve(Bounded::new(listener, tls), service)
        .with_graceful_shutdown(stop.cancelled_owned());
    let late = async {
        stopped.cancelled().await;
        sleep(FINISH_TIME_MAX).await;
    };
    tokio::select! {
        biased;
        served = served.into_future() => served,
        // Somebody holds a request open that will never be whole.
        () = late => Ok(()),
    }
}

impl Connected<IncomingStream<'_, Bounded>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        let address = *stream.remote_addr();
        let own = stream.io().local_ip();
        let is_local = address.ip().to_canonical().is_loopback() || own == Some(address.ip());
        let (ends, encryption) = (stream.io().ends(), stream.io().encryption());
        Self {
            address,
            is_local,
            encryption,
            ends,
        }
    }
}

async fn no_such_page() -> (StatusCode, &'static str) {
    let text = "no such page: /, /livez, /readyz, /metrics, /api/v1/snapshot, /api/v1/explain, \
                /api/v1/fleet, /api/v1/groups/<group>, /api/v1/replicas\n";
    (StatusCode::NOT_FOUND, text)
}

async fn shed(_: BoxError) -> Response {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "too many requests at once\n",
    )
        .into_response()
}
