//! Any bytes at the agent port: no panic, a readable request reads the same once written plainly,
//! and its answer is a line that HAProxy can take.
#![no_main]

use std::fmt::Write as _;
use std::sync::LazyLock;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::domain::request::{REQUEST_BYTES_MAX, Request, line_length};
use tidegate_fuzz::domain::snapshot::Snapshot;
use tidegate_fuzz::{check_answer, snapshot};

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| {
    let ramp = br#"{"state":"ready","ramp":{"by":"nodes","steps":[5,25,50],"every":"2m"},"since":"2026-11-30T12:00:00Z"}"#;
    snapshot(&[
        ("canary-state", ramp),
        ("group-states/ci", b"1%"),
        ("group-states/broken", b"draim"),
        ("server-overrides/web/a", b"maint"),
        ("zones/z/canary-state", b"drain"),
        ("nodes/n/server-overrides/web/a", b"ready"),
    ])
});

fuzz_target!(|bytes: &[u8]| {
    let request = Request::parse(bytes);
    let line = &bytes[..line_length(bytes).unwrap_or(bytes.len())];
    assert_eq!(
        Request::parse(line),
        request,
        "what follows the line counts"
    );
    if let Ok(request) = request {
        assert!(line.len() <= REQUEST_BYTES_MAX);
        assert_eq!(Request::parse(plain(&request).as_bytes()), Ok(request));
    }
    let now: Timestamp = "2026-11-30T12:03:00Z".parse().expect("a moment");
    check_answer(&SNAPSHOT, bytes, now);
});

/// The request as `agent-send` would be written by hand.
fn plain(request: &Request<'_>) -> String {
    let mut line = request.server.to_owned();
    for group in request.groups() {
        let _ = write!(line, " {group}");
    }
    let keys = [
        request.node.map(|node| format!(" node={node}")),
        request.zone.map(|zone| format!(" zone={zone}")),
        request.base.map(|base| format!(" base={base}")),
        request.shadow.then(|| " mode=shadow".to_owned()),
    ];
    line.extend(keys.into_iter().flatten());
    line.push('\n');
    line
}
