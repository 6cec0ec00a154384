//! An HTTP request that never becomes whole.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::let_pass;

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
