//! Peers and a Consul that take each question and never answer it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::mute::{self, Manner};
use crate::harness::replicas::{Replicas, SLOTS};
use crate::harness::state_folder::META;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{PATIENCE, check, eventually};

const LINE: &str = "web/cny canary\n";
/// The lease is 1.5 s, and a peer's word counts for 0.6 s.
const SPAN: Duration = Duration::from_millis(1_700);
const UNREACHABLE: &str = r#"tidegate_source_reads_total{outcome="unreachable"}"#;
/// A poll takes less than a millisecond; HAProxy gives up after 2 s.
const POLL_P99_MAX: Duration = Duration::from_millis(200);
/// Each question has ended after half a second, and 8 peers are asked 4 times a second.
const DESCRIPTORS_MAX: usize = 100;

#[test]
fn peers_that_never_answer_hold_up_no_poll_and_are_out_of_sight() {
    let mut consul = Consul::dev();
    consul.kv_put("frontend/gprd/_meta", META);
    consul.kv_put("frontend/gprd/canary-state", "drain");
    let environment = consul_environment(&consul);
    let data = Folder::new("data");
    let data = data.path().display().to_string();
    let arguments = ["--kv", "consul", "--data-dir", &data];
    // A replica without memory asks its peers first, and these would never let it begin.
    let mut alone = Tidegate::launch(&arguments, &environment);
    alone.await_ready();
    assert_eq!(alone.stop(), Some(0));

    let manners = Manner::ALL.iter().cycle().take(SLOTS.len() - 1);
    let peers: Vec<SocketAddr> = manners.map(|manner| mute::start(*manner)).collect();
    let mut replicas = Replicas::launch_among(&peers, &arguments, &environment);
    let tidegate = &mut replicas.all[0];
    tidegate.await_readyz(200, "current: ", PATIENCE);
    poll_for(tidegate, SPAN, "up drain");
    for peer in &SLOTS[1..] {
        tidegate.await_counted(peer, "out-of-sight");
    }
    tidegate.await_readyz(200, "current: ", Duration::ZERO);

    consul.process().pause();
    tidegate.await_readyz(503, "cut-off: ", PATIENCE);
    poll_for(tidegate, SPAN, "");
    tidegate.await_readyz(503, "b is out of sight", Duration::ZERO);
    // What a fickle peer does changes with each question; the log would grow with it.
    let log = tidegate.process().log_text();
    assert_eq!(log.matches("nothing is answered: ").count(), 1, "{log}");

    consul.process().resume();
    // Not the read that was sent long before: its confirmation is as old.
    let text = "current: confirmed by the source 0.0";
    tidegate.await_readyz(200, text, PATIENCE);
    poll_for(tidegate, SPAN, "up drain");
}

#[test]
fn a_consul_that_never_answers_holds_up_no_poll_and_is_asked_again_and_again() {
    let mut asking: Vec<_> = Manner::ALL
        .into_iter()
        // Of a fickle one the first read that ends early is the one that is shown.
        .filter(|manner| *manner != Manner::Fickle)
        .map(|manner| {
            let address = mute::start(manner).to_string();
            let environment = [("CONSUL_HTTP_ADDR".to_owned(), address)];
            (manner, Tidegate::launch(&["--kv", "consul"], &environment))
        })
        .collect();
    for (manner, tidegate) in &mut asking {
        println!("{manner:?}");
        tidegate.await_readyz(503, "starting: no listing yet: ", PATIENCE);
        // At its start a replica has polls wait for one poll_interval.
        assert_eq!(tidegate.ask(LINE), b"");
        poll_for(tidegate, Duration::from_millis(500), "");
        eventually("each read ends by its limit", PATIENCE, || {
            let ended = tidegate.count(UNREACHABLE);
            check(ended >= 2, || ended.to_string())
        });
        assert_eq!(tidegate.get("/livez").status, 200);
        let told = "no whole answer within 2s";
        tidegate.await_readyz(503, told, PATIENCE);
        let stopping = Instant::now();
        assert_eq!(tidegate.stop(), Some(0));
        println!("stopped within {:?}", stopping.elapsed());
        assert!(stopping.elapsed() < Duration::from_secs(3));
    }
}

/// Polls one after the other, and requires this answer each time: none, when it is empty.
fn poll_for(tidegate: &mut Tidegate, span: Duration, answer: &str) {
    let begun = Instant::now();
    let mut spans = Vec::new();
    while begun.elapsed() < span {
        let asked = Instant::now();
        let told = tidegate.ask(LINE);
        spans.push(asked.elapsed());
        let told = String::from_utf8_lossy(&told);
        assert!(
            told.starts_with(answer) && told.is_empty() == answer.is_empty(),
            "{told:?}"
        );
    }
    spans.sort_unstable();
    let at = |hundredth: usize| spans[(spans.len() - 1) * hundredth / 100];
    let (p50, p99, max) = (at(50), at(99), at(100));
    let count = spans.len();
    println!("{count} polls answered {answer:?}: p50 {p50:?}, p99 {p99:?}, max {max:?}");
    assert!(p99 < POLL_P99_MAX, "{p99:?}");
    // An answered poll is held on to for 20 ms.
    eventually("descriptors are given back", PATIENCE, || {
        let open = tidegate.process().descriptors();
        check(open < DESCRIPTORS_MAX, || open.to_string())
    });
}
