//! The HTTP port under hostile clients. It shares the process with the agent, so what it may take
//! is bounded.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::consul::loopback;
use crate::harness::dial::{connect_from, raise_descriptor_limit};
use crate::harness::http;
use crate::harness::tidegate::Tidegate;

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
    let open = held.iter().filter(|stream| is_open(stream)).count();
    println!("{open} of {} connections were kept", held.len());
    assert!(open <= 100, "{open} connections are held");
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
    let open = crowd.iter().filter(|stream| is_open(stream)).count();
    println!(
        "{open} of {} connections of the crowd were kept",
        crowd.len()
    );
    assert!(open < 100, "{open} connections are held");
}

fn connect(tidegate: &Tidegate) -> TcpStream {
    TcpStream::connect(tidegate.http()).expect("the service listens")
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream
        .set_nonblocking(true)
        .expect("a socket has that mode");
    matches!(stream.read(&mut [0; 512]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}
