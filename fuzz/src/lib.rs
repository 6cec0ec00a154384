//! What the fuzz targets check.

#[path = "../../src/domain/mod.rs"]
pub mod domain;

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use domain::answer::{ANSWER_BYTES_MAX, Origin};
use domain::explain::Explanation;
use domain::listing::{Entry, Listing};
use domain::name::Name;
use domain::request::Request;
use domain::snapshot::Snapshot;
use jiff::Timestamp;

/// A snapshot with a sentinel and these keys.
pub fn snapshot(keys: &[(&str, &[u8])]) -> Snapshot {
    let meta: (&str, &[u8]) = ("_meta", br#"{"schema":1,"epoch":1,"gen":1}"#);
    let entry = |&(path, value): &(&str, &[u8])| {
        let value = Bytes::copy_from_slice(value);
        let modify_index = 7;
        (
            path.to_owned(),
            Entry {
                value,
                modify_index,
            },
        )
    };
    let listing = Listing {
        index: u64::MAX,
        entries: keys.iter().chain([&meta]).map(entry).collect(),
    };
    Snapshot::build(&listing).expect("the sentinel is there and can be read")
}

/// The answer to a line that can be read, checked: HAProxy can take it, and the explanation of it
/// has the same bytes.
pub fn check_answer(snapshot: &Snapshot, line: &[u8], now: Timestamp) {
    let origin = Origin {
        index: snapshot.index,
        replica: Name::parse("a-replica-with-a-name-of-32-byte").expect("a name"),
    };
    let source = Name::from_address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
    let explained = Explanation::new(snapshot, line, &source, &origin.replica, now);
    check_line(explained.answer.as_bytes());
    let Ok(request) = Request::parse(line) else {
        assert_eq!(explained.answer, "unknown-request\n");
        return;
    };
    let node = request.node.unwrap_or(source.as_str());
    let decision = snapshot.decide(&request, node, now);
    let answer = decision.answer.to_line(&origin);
    check_line(&answer);
    assert_eq!(explained.answer.as_bytes(), answer);
    // It holds up to the next change: a worker may remember it for as long.
    if let Some(until) = decision.until {
        assert!(until > now, "{until} is not after {now}");
        let last = until - jiff::SignedDuration::from_nanos(1);
        let later = snapshot.decide(&request, node, last);
        assert_eq!(
            later.answer.to_line(&origin),
            answer,
            "between {now} and {until}"
        );
    }
}

/// One line of the alphabet that HAProxy shows as it is, and never a word that must not be said.
fn check_line(answer: &[u8]) {
    let text = std::str::from_utf8(answer).expect("an answer is text");
    let line = text
        .strip_suffix('\n')
        .expect("an answer ends with its newline");
    assert!(answer.len() <= ANSWER_BYTES_MAX, "{text:?}");
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b" ._:/=-%#".contains(&byte);
    assert!(line.bytes().all(allowed), "{text:?}");
    let words: Vec<&str> = line
        .split('#')
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    for word in ["down", "stopped", "fail", "0%"] {
        assert!(!words.contains(&word), "{text:?}");
    }
}
