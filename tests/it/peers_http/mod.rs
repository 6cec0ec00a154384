//! The questions of replicas to each other, over real sockets.

mod answers;
mod asker;
mod bad_peers;
mod fleet;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate::beliefs::Beliefs;
use tidegate::clock::{self, SystemClock};
use tidegate::domain::authority::{Authority, Heard, Times};
use tidegate::domain::evidence::Evidence;
use tidegate::domain::fleet::{self as polls, Polled, Report, Table, in_millis};
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::{Entry, Listing};
use tidegate::domain::memory::Memory;
use tidegate::domain::name::Name;
use tidegate::domain::request::Request;
use tidegate::domain::token::Token;
use tidegate::domain::word::Identity;
use tidegate::fleet::{Fleet, Gatherer, Settings, Tallies, Whole};
use tidegate::http::{self, Pages};
use tidegate::metrics::{Metrics, PeerCounters, Shown};
use tidegate::peers::{Ask as _, FleetAsk, HttpAsk, Peer};
use tidegate::store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long one question may take in these tests, unless they are about it.
const LIMIT: Duration = Duration::from_secs(5);
/// A token that all replicas have.
const TOKEN: &str = "0123456789abcdef-of-the-peers";

/// A replica as its peers see it: what it believes, behind its HTTP listener.
struct Replica {
    address: SocketAddr,
    beliefs: Arc<Beliefs>,
    fleet: Arc<Fleet>,
    counters: Arc<PeerCounters>,
    token: Arc<ArcSwapOption<Token>>,
    stopping: CancellationToken,
    _stop: DropGuard,
}

impl Replica {
    /// Listens on a free port; `nonce` makes its editions.
    async fn start(identity: Identity, memory: Option<Memory>, nonce: u64) -> Self {
        let others = ["a", "b"].map(name).into_iter();
        let others: Vec<_> = others.filter(|slot| *slot != identity.slot).collect();
        let authority = Authority::new(times(), others.clone());
        let authority = match memory {
            Some(memory) => authority.remembering(memory),
            None => authority,
        };
        let store = Arc::new(Store::new(authority.standing()));
        let clock = Arc::new(SystemClock);
        let beliefs = Beliefs::new(authority, None, Arc::clone(&store), clock, nonce);
        let settings = Settings {
            replica: identity.slot.clone(),
            prefix: identity.prefix.clone(),
            poll_interval: Duration::from_secs(2),
        };
        let known = Some(known_fleet(&identity));
        let fleet = Fleet::new(settings, Arc::clone(&store), Tallies::new(0), known);
        let fleet = Arc::new(fleet);
        let counters = Arc::new(PeerCounters::new(others));
        let (token, stopping) = (Arc::default(), CancellationToken::new());
        let identity = Arc::new(identity);
        let others = asking_nobody(&identity, &token);
        let whole = Arc::new(Whole::new(Arc::clone(&fleet), Arc::clone(&others)));
        let metrics = Metrics::new(Shown {
            store: Arc::clone(&store),
            workers: Vec::new(),
            source: Arc::default(),
            expiries: Arc::default(),
            fleet: Arc::clone(&fleet),
            whole: Arc::clone(&whole),
            peers: Arc::clone(&counters),
            identity: Arc::clone(&identity),
            spans: Arc::default(),
            began: clock::now(),
        });
        let pages = Pages {
            store,
            metrics: Arc::new(metrics),
            fleet: Arc::clone(&fleet),
            others,
            whole,
            replica: identity.slot.clone(),
            identity,
            access: http::Access {
                peers: Arc::clone(&token),
                ..http::Access::default()
            },
            stopping: stopping.clone(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let stop = CancellationToken::new();
        tokio::spawn(http::serve(listener, pages, stop.clone()));
        Self {
            address,
            beliefs: Arc::new(beliefs),
            fleet,
            counters,
            token,
            stopping,
            _stop: stop.drop_guard(),
        }
    }

    fn as_peer(&self) -> Peer {
        peer(self.address)
    }
}

/// The way to the others of a fleet in which there are none.
fn asking_nobody(identity: &Arc<Identity>, token: &Arc<ArcSwapOption<Token>>) -> Arc<Gatherer> {
    let (identity, token) = (Arc::clone(identity), Arc::clone(token));
    let others = FleetAsk::new(identity, token, Vec::new(), Vec::new());
    Arc::new(Gatherer::new(Arc::new(others.expect("an HTTP client"))))
}

fn times() -> Times {
    Times::from_poll_interval(Duration::from_secs(2))
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

fn peer(address: SocketAddr) -> Peer {
    Peer {
        slot: name("b"),
        url: format!("http://{address}"),
    }
}

fn identity(slot: &str) -> Identity {
    Identity {
        prefix: Prefix::new("frontend", "gprd").expect("a prefix"),
        schema: 1,
        slot: name(slot),
        digest: 7,
        version: "0.1.0".to_owned(),
    }
}

/// What a replica knows of the fleet: one row of node `lb-1`.
fn known_fleet(replica: &Identity) -> Report {
    let (mut table, now) = (Table::new(1), in_millis(clock::now()));
    let request = Request::parse(b"web/a node=lb-1\n").expect("a request");
    let row = polls::Identity::new(&request, Ipv4Addr::LOCALHOST.into());
    table.record(&row, &Polled::once(now, None));
    Report {
        replica: replica.slot.clone(),
        at: now,
        since: now,
        poll_interval: Duration::from_secs(2),
        newest: None,
        dropped: 0,
        nodes: table.nodes().clone(),
    }
}

/// A memory of this many keys beside the sentinel.
fn memory(keys: usize) -> Memory {
    let entry = |value: String| Entry {
        value: value.into(),
        modify_index: 17,
    };
    let meta = r#"{"schema":1,"epoch":1,"gen":1}"#.to_owned();
    let key = |number| {
        (
            format!("server-overrides/web/s{number}"),
            entry("drain".to_owned()),
        )
    };
    let entries = (0..keys).map(key);
    let entries = entries.chain([("_meta".to_owned(), entry(meta))]).collect();
    Memory {
        listing: Some(Arc::new(Listing { index: 17, entries })),
        evidence: Evidence::default(),
        broken: None,
        at: "2026-11-30T10:00:00Z".parse().expect("a time"),
    }
}

/// The way of replica `a` to its peers.
fn asking(token: Option<&str>, limit: Duration) -> HttpAsk {
    let held = ArcSwapOption::from_pointee(token.map(parse));
    let ask = HttpAsk::new(Arc::new(identity("a")), Arc::new(held), Vec::new(), limit);
    ask.expect("an HTTP client")
}

fn parse(token: &str) -> Token {
    Token::parse(token).expect("a token")
}

/// One question without a token to who listens there.
async fn ask(address: SocketAddr, limit: Duration) -> Heard {
    asking(None, limit).ask(&peer(address), None).await
}

/// What was heard must be silence, and say this.
fn expect_silence(heard: &Heard, text: &str) {
    let Heard::Silent(why) = heard else {
        panic!("{text:?} expected: {heard:?}");
    };
    assert!(why.contains(text), "{why:?} lacks {text:?}");
}
