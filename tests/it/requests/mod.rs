//! What is answered to what arrives at the agent port, byte for byte.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for who reads the output"
)]

mod forms;
mod peers;
mod sources;

use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;

/// The longest line that HAProxy shows whole in `last_agt`, newline included.
const ANSWER_BYTES_MAX: usize = 119;
const UNKNOWN_REQUEST: &str = "unknown-request";

/// A service in whose state each kind of key stands once.
fn service() -> (StateFolder, Tidegate) {
    let state = state();
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    (state, tidegate)
}

fn state() -> StateFolder {
    let state = StateFolder::new();
    for (key, value) in [
        ("canary-state", "drain"),
        ("group-states/ci", r#"{"state":"ready","weight":60}"#),
        ("group-states/broken", "draim"),
        ("server-overrides/web/slow", "40%"),
        ("zones/us-east1-b/canary-state", "20%"),
        ("nodes/lb-1/canary-state", "ready"),
        ("nodes/127.0.0.7/canary-state", "maint"),
        ("nodes/::1/canary-state", "30%"),
    ] {
        state.put(key, value);
    }
    state
}

/// Checks that `answer` is one whole line that HAProxy can take, with these words before the
/// comment. A state carries the comment, an unknown word none.
#[track_caller]
fn check_answer(case: &str, answer: &[u8], words: &str) {
    let text = String::from_utf8_lossy(answer);
    let line = text.strip_suffix('\n').unwrap_or_else(|| {
        panic!("{case}: expected {words:?}, got {text:?}, which is no whole line")
    });
    assert!(answer.len() <= ANSWER_BYTES_MAX, "{case}: {text:?}");
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b" ._:/=-%#".contains(&byte);
    assert!(line.bytes().all(allowed), "{case}: {text:?}");
    let said = if words.starts_with("up ") {
        let (said, comment) = line
            .split_once(" # i=")
            .expect("a state carries its origin");
        let index = comment.strip_suffix(" r=a");
        assert!(
            index.is_some_and(|index| index.parse::<u64>().is_ok()),
            "{case}: {text:?}"
        );
        said
    } else {
        line
    };
    assert_eq!(said, words, "{case}");
}
