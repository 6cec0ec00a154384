//! The HTTP port under hostile clients. It shares the process with the agent, so what it may take
//! is bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::consul::loopback;
use crate::harness::dial::{connect_from, raise_descriptor_limit};
use crate::harness::http;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

/// More than may wait for a view at once (64), fewer than connections that may be open (100).
const VIEWS: usize = 90;
const ROWS: usize = 1_500;

#[test]
fn a_body_is_refused_above_a_kilobyte() {
    let (_state, tidegate) = Tidegate::start_drained();
    let limit = Duration::from_secs(2);
    let post = |body: &[u8]| http::request(tidegate.http(), "GET", "/livez", &[], body, limit);
    assert_eq!(post(&[b'x'; 1_024]).expect("it answers").status, 200);
    assert_eq!(post(&[b'x'; 1_025]).expect("it answers").status, 413);
    let mut endless = connect(&tidegate);
    let head = b"GET /livez HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    endless.write_all(head).expect("the service takes it");
    let chunk = [&b"1000\r\n"[..], &[b'x'; 4_096], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 256 << 20 && endless.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 256 << 20, "{sent} bytes were taken");
}

#[test]
fn silent_and_slow_connections_keep_nobody_out() {
    let (_state, tidegate) = Tidegate::start_drained();
    raise_descriptor_limit();
    // Some say nothing, some have begun a request.
    let mut held: Vec<_> = (0..500).map(|_| connect(&tidegate)).collect();
    for stream in held.iter_mut().step_by(2) {
        stream.write_all(b"GET /livez HTTP/1.1\r\nX-Slow:").ok();
    }
    for _ in 0..10 {
        let begin = Instant::now();
        assert_eq!(tidegate.get("/livez").status, 200);
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "{:?}",
            begin.elapsed()
        );
    }
    assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
    await_open(&held, 100);
}

/// Where the kernel's queue is full, whoever connects tries again after a second: too late for a
/// probe, or for a peer's question.
#[test]
fn a_burst_of_connections_waits_for_a_service_that_is_busy() {
    let (_state, mut tidegate) = Tidegate::start_drained();
    let http = tidegate.http();
    tidegate.process().pause();
    let limit = Duration::from_millis(500);
    let burst = (0..500).map(|_| TcpStream::connect_timeout(&http, limit));
    let burst: Result<Vec<_>, _> = burst.collect();
    tidegate.process().resume();
    burst.expect("the queue is long enough");
    assert_eq!(tidegate.get("/livez").status, 200);
}

/// A crowd of one address ends its own connections, not those of a balancer, a peer or a scraper.
#[test]
fn a_crowd_of_one_address_makes_room_for_itself_alone() {
    let (_state, tidegate) = Tidegate::start_drained();
    raise_descriptor_limit();
    let mut probe = connect(&tidegate);
    let begun = b"GET /readyz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n";
    probe.write_all(begun).expect("the service takes it");
    // The listener knows the probe before it knows the crowd.
    assert_eq!(tidegate.get("/livez").status, 200);
    let crowd = (0..300).map(|_| connect_from(loopback(2), tidegate.http()));
    let crowd: Vec<_> = crowd.map(|stream| stream.expect("it listens")).collect();
    assert_eq!(tidegate.get("/livez").status, 200);
    probe.write_all(b"\r\n").expect("it is still open");
    let answer = tidegate.read_to_end(&mut probe);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer:?}");
    await_open(&crowd, 99);
}

/// Two views are made at once, the others wait for their turn.
#[test]
fn a_probe_is_answered_while_all_places_for_views_are_taken() {
    let (_state, tidegate) = Tidegate::start_drained();
    fill_fleet(&tidegate);
    let http = tidegate.http();
    let views: Vec<_> = (0..VIEWS)
        .map(|_| thread::spawn(move || view_until_shed(http)))
        .collect();
    let (mut probes, mut slowest) = (0, Duration::ZERO);
    while views.iter().any(|view| !view.is_finished()) {
        for page in ["/readyz", "/livez"] {
            let begun = Instant::now();
            let answer = tidegate.get(page);
            assert_eq!(answer.status, 200, "{page}: {}", answer.text());
            slowest = slowest.max(begun.elapsed());
            probes += 1;
        }
    }
    let outcomes = views.into_iter().map(|view| view.join().expect("no panic"));
    let shed: usize = outcomes.sum();
    println!("{probes} probes beside {VIEWS} viewers, {shed} views shed: slowest {slowest:?}");
    assert!(shed > 0, "the places were never all taken");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

/// Asks for views; gives how many were answered that there are too many.
fn view_until_shed(http: SocketAddr) -> usize {
    let limit = Duration::from_secs(10);
    let view = || http::request(http, "GET", "/api/v1/fleet", &[], b"", limit);
    let answers = (0..2).map(|_| view());
    // One whose connection made room for a newer one has no answer.
    answers
        .flatten()
        .filter(|answer| answer.status == 503)
        .count()
}

/// So many rows that a view takes a while.
fn fill_fleet(tidegate: &Tidegate) {
    for node in 0..ROWS {
        tidegate.ask(format!("web/cny canary node=lb-{node}\n"));
    }
}

fn connect(tidegate: &Tidegate) -> TcpStream {
    TcpStream::connect(tidegate.http()).expect("the service listens")
}

/// The end of a connection reaches its client a moment after its place is taken.
fn await_open(held: &[TcpStream], most: usize) {
    eventually("others have made room", PATIENCE, || {
        let open = held.iter().filter(|stream| is_open(stream)).count();
        check(open <= most, || format!("{open} connections are held"))
    });
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream
        .set_nonblocking(true)
        .expect("a socket has that mode");
    matches!(stream.read(&mut [0; 512]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
