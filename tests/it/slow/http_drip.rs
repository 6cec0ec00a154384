//! An HTTP request that never becomes whole, and an answer that is never read.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, eventually, let_pass};

#[test]
fn a_request_that_drips_in_is_given_up_after_ten_seconds() {
    let state = StateFolder::new();
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let mut stream = TcpStream::connect(tidegate.http()).expect("the service listens");
    let begin = Instant::now();
    let head = b"GET /livez HTTP/1.1\r\nX-Slow: ";
    stream.write_all(head).expect("the service takes it");
    while begin.elapsed() < Duration::from_secs(20) && stream.write_all(b"x").is_ok() {
        let_pass(Duration::from_millis(50));
    }
    let span = begin.elapsed();
    println!("given up after {span:?}");
    assert!(span > Duration::from_secs(9), "{span:?}");
    assert!(span < Duration::from_secs(12), "{span:?}");
}

#[test]
fn a_client_that_never_reads_its_answers_is_given_up_after_ten_seconds() {
    let state = StateFolder::new();
    let mut tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let folder = format!("/proc/{}/fd", tidegate.process().id());
    let sockets = || -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(&folder).expect("the process runs").flatten();
        let leads_to = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        leads_to
            .filter(|to| to.to_string_lossy().starts_with("socket:"))
            .collect()
    };
    // By name: what was open before may be closed meanwhile.
    let before = sockets();
    let begin = Instant::now();
    let mut stream = TcpStream::connect(tidegate.http()).expect("the service listens");
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .expect("the limit is not zero");
    // Until neither side takes more: the answers fill the way back.
    let request = b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n".repeat(100);
    while stream.write_all(&request).is_ok() {}
    let ours: BTreeSet<_> = sockets().difference(&before).cloned().collect();
    assert!(!ours.is_empty(), "the service has ended it already");
    eventually("the connection is ended", Duration::from_secs(20), || {
        let open = sockets().intersection(&ours).count();
        check(open == 0, || open.to_string())
    });
    let span = begin.elapsed();
    println!("given up after {span:?}");
    assert!(span > Duration::from_secs(9), "{span:?}");
    assert!(span < Duration::from_secs(12), "{span:?}");
}
