//! The loop of questions, and where its outcomes are shown.

use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tidegate::clock::{self, SystemClock};
use tidegate::domain::authority::{AuthorityName, CountedAs, Heard, PeerView};
use tidegate::domain::word::Identity;
use tidegate::peers::{Ask, Asker, HttpAsk, Parts, Peer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{LIMIT, Replica, asking, identity, memory, name, times};
use crate::harness::http;
use crate::harness::wait::{PATIENCE, check, eventually_async};

/// Notes which edition each question named, and asks.
struct Noting {
    inner: HttpAsk,
    known: Arc<Mutex<Vec<Option<u64>>>>,
}

impl Ask for Noting {
    async fn ask(&self, peer: &Peer, known: Option<u64>) -> Heard {
        self.known.lock().expect("no holder panics").push(known);
        self.inner.ask(peer, known).await
    }
}

/// A way on which everything is lost.
struct Nowhere;

impl Ask for Nowhere {
    async fn ask(&self, _: &Peer, _: Option<u64>) -> Heard {
        pending().await
    }
}

#[tokio::test]
async fn a_memory_is_told_once_and_a_dead_peer_is_counted_as_dead() {
    let a = Replica::start(identity("a"), None, 0).await;
    let b = Replica::start(identity("b"), Some(memory(2)), 5).await;
    let known = Arc::default();
    let ask = Noting {
        inner: asking(None, times().answer_time_max()),
        known: Arc::clone(&known),
    };
    let _asking = start(&a, vec![b.as_peer()], ask);
    let starting = CountedAs::Heard(AuthorityName::Starting);
    await_peer(&a, "b is heard", |view, counted| {
        counted == starting && view.offset.is_some()
    })
    .await;
    eventually_async("the edition is known", PATIENCE, async || {
        let known = known.lock().expect("no holder panics").clone();
        check(known.len() >= 3, || format!("{known:?}")).map(|()| known)
    })
    .await;
    {
        let known = known.lock().expect("no holder panics");
        assert_eq!(known[0], None);
        assert!(
            known[1..].iter().all(|known| *known == Some(6)),
            "{known:?}"
        );
    }
    drop(b);
    let view = await_peer(&a, "b is dead", |_, counted| counted == CountedAs::Dead).await;
    assert_eq!((view.said, view.trouble), (None, None));
}

#[tokio::test]
async fn a_peer_that_never_answers_holds_up_no_other_and_ends_with_the_stop() {
    let a = Replica::start(identity("a"), None, 0).await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    // Its backlog takes connections that nobody accepts.
    let listener = listener.expect("a loopback port is free");
    let mute = Peer {
        slot: name("mute"),
        url: format!("http://{}", listener.local_addr().expect("it is bound")),
    };
    let b = Replica::start(identity("b"), None, 0).await;
    let ask = asking(None, times().answer_time_max());
    let (task, stop) = start(&a, vec![mute, b.as_peer()], ask);
    let heard = CountedAs::Heard(AuthorityName::Starting);
    await_peer(&a, "b is heard", |_, counted| counted == heard).await;
    stop.cancel();
    let ended = tokio::time::timeout(LIMIT, task).await;
    ended.expect("it ends in time").expect("it does not panic");
}

#[tokio::test]
async fn an_answer_that_is_late_is_none() {
    let a = Replica::start(identity("a"), None, 0).await;
    let b = Replica::start(identity("b"), None, 0).await;
    let _asking = start(&a, vec![b.as_peer()], Nowhere);
    let view = await_peer(&a, "b is silent", |view, _| view.trouble.is_some()).await;
    assert!(view.trouble.expect("awaited").contains("no whole answer"));
    assert_eq!(view.asked, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replicas_and_their_problems_are_shown() {
    let a = Replica::start(identity("a"), Some(memory(0)), 0).await;
    let newer = Identity {
        version: "9.9.9".to_owned(),
        ..identity("b")
    };
    let b = Replica::start(newer, Some(memory(2)), 0).await;
    let before = get(&a, "/api/v1/replicas").await;
    let before: Value = serde_json::from_str(&before).expect("JSON");
    assert_eq!(before["peers"][0]["counted_as"], "out of sight");
    assert_eq!(before["problems"], serde_json::json!([]));

    let _asking = start(&a, vec![b.as_peer()], asking(None, LIMIT));
    await_peer(&a, "b is heard", |view, _| view.said.is_some()).await;
    let shown: Value = serde_json::from_str(&get(&a, "/api/v1/replicas").await).expect("JSON");
    assert_eq!(shown["replica"], "a");
    assert_eq!(shown["authority"], "starting");
    assert_eq!(shown["digest"], "0000000000000007");
    assert_eq!(shown["draining"], false);
    let peer = &shown["peers"][0];
    assert_eq!(peer["slot"], "b");
    assert_eq!(peer["counted_as"], "starting");
    assert_eq!(peer["authority"], "starting");
    assert_eq!(peer["index"], 17);
    assert_eq!(peer["version"], "9.9.9");
    assert!(
        peer["heard_seconds_ago"]
            .as_f64()
            .is_some_and(|age| age < 30.0)
    );
    let problem = "peer b runs version 9.9.9, this replica 0.1.0";
    assert_eq!(shown["problems"], serde_json::json!([problem]));

    let ready = get(&a, "/readyz").await;
    assert!(
        ready.ends_with(&format!("\ndegraded: {problem}\n")),
        "{ready}"
    );
    let scrape = get(&a, "/metrics").await;
    for series in [
        "tidegate_peer_questions_total{peer=\"b\",outcome=\"word\"} ",
        "tidegate_peer_questions_total{peer=\"b\",outcome=\"refused\"} 0\n",
        "tidegate_peer_counted{peer=\"b\",as=\"starting\"} 1\n",
        "tidegate_peer_counted{peer=\"b\",as=\"out-of-sight\"} 0\n",
        "tidegate_peer_differs{peer=\"b\",what=\"version\"} 1\n",
        "tidegate_peer_differs{peer=\"b\",what=\"identity\"} 0\n",
        "tidegate_replica_problems 1\n",
        "tidegate_clock_offset_seconds{to=\"peer\",peer=\"b\"} 0",
    ] {
        assert!(scrape.contains(series), "{series}: {scrape}");
    }
    assert!(
        !scrape.contains("{peer=\"b\",outcome=\"word\"} 0\n"),
        "{scrape}"
    );
}

type Asking = (tokio::task::JoinHandle<()>, CancellationToken);

/// Has a replica ask these for ever.
fn start<A: Ask>(replica: &Replica, peers: Vec<Peer>, ask: A) -> Asking {
    let asker = Asker::new(Parts {
        ask,
        peers,
        times: times(),
        beliefs: Arc::clone(&replica.beliefs),
        clock: Arc::new(SystemClock),
        counters: Arc::clone(&replica.counters),
        rng: StdRng::seed_from_u64(1),
    });
    let stop = CancellationToken::new();
    (tokio::spawn(asker.run(stop.clone())), stop)
}

async fn await_peer(
    replica: &Replica,
    what: &str,
    is: impl Fn(&PeerView, CountedAs) -> bool,
) -> PeerView {
    eventually_async(what, PATIENCE, async || {
        let published = replica.beliefs.store().load();
        let standing = &published.standing;
        let view = standing.peers()[0].clone();
        let counted = standing.counted_as(&view, clock::moment());
        check(is(&view, counted), || format!("{counted:?} {view:?}")).map(|()| view)
    })
    .await
}

async fn get(replica: &Replica, page: &'static str) -> String {
    let address = replica.address;
    let got = tokio::task::spawn_blocking(move || http::get(address, page)).await;
    let got = got.expect("it does not panic").expect("it answers");
    got.text()
}
