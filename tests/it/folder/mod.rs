//! A folder as a store: hand edits, volumes that are swapped, and writers that are killed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail the test; the figures are for who reads its output"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate::clock;
use tidegate::domain::key::Prefix;
use tidegate::domain::listing::Listing;
use tidegate::kv::directory::DirectoryKv;
use tidegate::kv::{Expect, Kv, Operation, Outcome};

mod events;
mod keys;
mod writers;

/// Longer than any wait that a test expects to end by an event.
const WAIT: Duration = Duration::from_secs(20);
/// The promise is 200 ms; the rest is room for a machine that is busy with other tests.
const SEEN_WITHIN: Duration = Duration::from_secs(1);
const CANARY: &str = "frontend/gprd/canary-state";

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").unwrap()
}

fn write(root: &Path, key: &str, value: impl AsRef<[u8]>) {
    let path = root.join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, value).unwrap();
}

fn folder_with(entries: &[(&str, &str)]) -> (TempDir, DirectoryKv) {
    let folder = TempDir::new().unwrap();
    for (key, value) in entries {
        write(folder.path(), key, value);
    }
    let kv = DirectoryKv::open(folder.path(), clock::now).unwrap();
    (folder, kv)
}

fn set(key: &str, value: &str, expect: Expect) -> Operation {
    Operation::Set {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
        expect,
    }
}

fn delete(key: &str, expect: Expect) -> Operation {
    Operation::Delete {
        key: key.to_owned(),
        expect,
    }
}

async fn commit(kv: &DirectoryKv, operations: &[Operation]) -> u64 {
    match kv.transact(operations).await.unwrap() {
        Outcome::Committed { index } => index,
        conflict @ Outcome::Conflict { .. } => panic!("{conflict:?}"),
    }
}

fn texts(listing: &Listing) -> Vec<(&str, String)> {
    let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
    let entries = listing.entries.iter();
    entries
        .map(|(path, entry)| (path.as_str(), text(&entry.value)))
        .collect()
}
