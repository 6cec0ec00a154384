//! One table of values and keys, over both stores.

use std::collections::BTreeMap;

use super::{NOTICED_WITHIN, key};
use crate::harness::consul::{Consul, expect_ok};
use crate::harness::state_folder::{META, StateFolder};
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{check, eventually};
use tidegate::kv::VALUE_BYTES_MAX;

/// What stands at one key, and what follows from it.
struct Row {
    path: &'static str,
    value: Vec<u8>,
    request: &'static str,
    answer: &'static str,
    /// The kind of the one problem that this key is.
    problem: Option<&'static str>,
    /// Whether a folder can hold such a key.
    in_folder: bool,
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    let row = |path, value: &[u8], request, answer, problem: &'static str| Row {
        path, value: value.to_vec(), request, answer,
        problem: Some(problem).filter(|problem| !problem.is_empty()),
        in_folder: true,
    };
    let full = "up ready 100%";
    let frozen = "unknown-directive";
    let mut rows = vec![
        row("canary-state", b"ready", "web/any canary", full, ""),
        row("server-overrides/v/empty", b"", "v/empty", frozen, "directive"),
        row("server-overrides/v/binary", b"\xff\xfe", "v/binary", frozen, "directive"),
        row("server-overrides/v/nul", b"drain\0", "v/nul", frozen, "directive"),
        row("server-overrides/v/field", br#"{"state":"drain","colour":"red"}"#, "v/field", frozen, "directive"),
        row("server-overrides/v/zero", br#"{"state":"ready","weight":0}"#, "v/zero", frozen, "directive"),
        row("server-overrides/v/more", br#"{"state":"ready","weight":101}"#, "v/more", frozen, "directive"),
        row("server-overrides/v/none", b"0%", "v/none", frozen, "directive"),
        row("server-overrides/v/above", b"101%", "v/above", frozen, "directive"),
        row("server-overrides/v/wrong", b"drian", "v/wrong", frozen, "directive"),
        row("server-overrides/v/one", br#"{"state":"ready","weight":1}"#, "v/one", "up ready 1%", ""),
        row("server-overrides/v/word", b"drain", "v/word", "up drain", ""),
        row("server-overrides/v/loud", b" Drain\r\n", "v/loud", "up drain", ""),
        row("server-overrides/v/string", br#""maint""#, "v/string", "up maint", ""),
        row("server-overrides/v/part", b"40%", "v/part", "up ready 40%", ""),
        row("server-overrides/v/object", br#"{"state":"maint"}"#, "v/object", "up maint", ""),
        // Keys.
        row("group-states/ci", b"drain", "web/any ci", "up drain", ""),
        row("group-states/ci", b"drain", "web/any cy", "unknown-group", ""),
        row("group-states/canary", b"drain", "web/any canary", full, "unknown_key"),
        row("overrides/v/typo", b"drain", "v/typo", full, "unknown_key"),
        row("server-overrides/lonely", b"drain", "lonely/any", full, "unknown_key"),
        row("server-overrides/v/one/more", b"drain", "v/one", "up ready 1%", "unknown_key"),
        row("deploys/main", b"\xff", "v/any", full, ""),
        row("nodes/n1/server-overrides/v/word", b"ready", "v/word node=n1", full, ""),
        row("zones/z1/group-states/ci", b"50%", "web/any ci zone=z1", "up ready 50%", ""),
        // The largest value, as it is and as the directive that it is.
        row("server-overrides/v/large", &vec![b'a'; VALUE_BYTES_MAX], "v/large", frozen, "directive"),
        row("server-overrides/v/huge", &largest_directive(), "v/huge", "up drain", ""),
    ];
    // Keys that a folder has no name for, and one beside its own children.
    let odd = [
        row("server-overrides/", b"", "v/any", full, ""),
        row("server-overrides/v/marker/", b"", "v/marker", full, ""),
        row("server-overrides//v/slashes", b"drain", "v/slashes", full, "unknown_key"),
        row("/server-overrides/v/slash", b"drain", "v/slash", full, "unknown_key"),
        row("server-overrides/v/a b", b"drain", "v/any", full, "unknown_key"),
    ];
    rows.extend(odd.into_iter().map(|row| Row { in_folder: false, ..row }));
    for row in &mut rows {
        row.in_folder &= row.path != "server-overrides/v/one/more";
    }
    rows
}

fn largest_directive() -> Vec<u8> {
    let mut value = br#"{"state":"drain","meta":{"note":""#.to_vec();
    value.resize(VALUE_BYTES_MAX - 3, b'a');
    value.extend_from_slice(br#""}}"#);
    value
}

/// Every row answered as the table says, each problem shown and counted, and no other.
fn check_rows<'r>(tidegate: &Tidegate, rows: impl Iterator<Item = &'r Row> + Clone) {
    let mut expected: Vec<_> = rows
        .clone()
        .filter_map(|row| Some((row.problem?.to_owned(), row.path.to_owned())))
        .collect();
    expected.sort();
    eventually("exactly these problems", NOTICED_WITHIN, || {
        let mut problems = tidegate.problems();
        problems.sort();
        check(problems == expected, || {
            format!("{problems:#?}, not {expected:#?}")
        })
    });
    for row in rows {
        let answer = tidegate.ask_line(row.request);
        assert_eq!(answer, row.answer, "{:?} at {}", row.request, row.path);
    }
    let mut counts = BTreeMap::from([("directive", 0), ("unknown_key", 0), ("guard", 0)]);
    for (kind, _) in &expected {
        *counts.get_mut(kind.as_str()).expect("a kind of the table") += 1;
    }
    for (kind, count) in counts {
        let shown = tidegate.count(&format!("tidegate_problems{{kind=\"{kind}\"}}"));
        assert_eq!(shown, count, "{kind}");
    }
    let ready = tidegate.get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.text());
}

#[test]
fn each_value_in_consul_gets_its_answer() {
    let consul = Consul::dev();
    consul.kv_put(&key("_meta"), META);
    // A marker of the prefix itself, as Consul's web page makes it.
    put(&consul, "", b"");
    let rows = rows();
    for row in &rows {
        put(&consul, row.path, &row.value);
    }
    let tidegate = Tidegate::start_on(&consul);
    check_rows(&tidegate, rows.iter());
}

#[test]
fn each_value_in_a_folder_gets_its_answer() {
    let state = StateFolder::new();
    let rows = rows();
    let held = rows.iter().filter(|row| row.in_folder);
    for row in held.clone() {
        state.put(row.path, &row.value);
    }
    let tidegate = Tidegate::start(&["--kv", &state.kv()]);
    check_rows(&tidegate, held);
}

#[test]
fn a_bare_word_written_by_the_consul_command_line_is_followed() {
    let consul = Consul::dev();
    consul.kv_put(&key("_meta"), META);
    let tidegate = Tidegate::start_on(&consul);
    let path = key("canary-state");
    for (arguments, answer) in [
        (&["kv", "put", &path, "drain"][..], "up drain"),
        (&["kv", "put", &path, "40%"], "up ready 40%"),
        (&["kv", "put", &path], "unknown-directive"),
        (&["kv", "put", &path, "Ready"], "up ready 100%"),
        // A deleted canary-state must not open the canary.
        (&["kv", "delete", &path], "unknown-group"),
        (&["kv", "put", &path, "maint"], "up maint"),
    ] {
        let output = consul.cli(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        tidegate.await_answer("web/any canary", answer, NOTICED_WITHIN);
    }
}

/// Writes one key below the environment, whatever its path: values too large for a transaction go
/// by their own request, paths that HTTP would clean go by transaction.
pub(super) fn put(consul: &Consul, path: &str, value: &[u8]) {
    if value.len() > 1_000 {
        return consul.kv_put(&key(path), value);
    }
    let set = serde_json::json!([{ "KV": {
        "Verb": "set",
        "Key": key(path),
        "Value": base64(value),
    }}]);
    let answer = consul.call("PUT", "/v1/txn", set.to_string().as_bytes());
    expect_ok(&format!("put {path:?}"), &answer);
}

/// Deletes one key below the environment, whatever its path.
pub(super) fn delete(consul: &Consul, path: &str) {
    let delete = serde_json::json!([{ "KV": { "Verb": "delete", "Key": key(path) } }]);
    let answer = consul.call("PUT", "/v1/txn", delete.to_string().as_bytes());
    expect_ok(&format!("delete {path:?}"), &answer);
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |three: &[u8]| {
        let mut padded = [0; 4];
        padded[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(padded);
        let digit = move |place: u32| char::from(DIGITS[(bits >> (18 - 6 * place)) as usize % 64]);
        let used = three.len() + 1;
        (0..4).map(move |place: u32| {
            if (place as usize) < used {
                digit(place)
            } else {
                '='
            }
        })
    };
    bytes.chunks(3).flat_map(digits).collect()
}
