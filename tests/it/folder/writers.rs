//! Several processes on one folder, and what is left when one is killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidegate::clock;
use tidegate::domain::listing::Listing;
use tidegate::kv::directory::DirectoryKv;
use tidegate::kv::{Expect, Kv, KvError, Outcome};

use super::{CANARY, WAIT, commit, delete, folder_with, prefix, set, write};

/// The most that one process adds in `writer_process`.
const INCREMENTS: u64 = 25;
const FOLDER_VARIABLE: &str = "TIDEGATE_TEST_FOLDER";
const ROLE_VARIABLE: &str = "TIDEGATE_TEST_ROLE";
const KEYS: usize = 12;

/// A process of its own that writes the folder, ended with its owner.
struct Writer(Child);

impl Writer {
    fn start(folder: &Path, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "folder::writers::writer_process",
                "--ignored",
                "--nocapture",
            ])
            .env(FOLDER_VARIABLE, folder)
            .env(ROLE_VARIABLE, role)
            .stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[tokio::test]
#[ignore = "the body of the processes that other tests start"]
async fn writer_process() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else {
        return;
    };
    let kv = DirectoryKv::open(folder, clock::now).unwrap();
    match std::env::var(ROLE_VARIABLE).unwrap().as_str() {
        "increment" => increment(&kv).await,
        "flip" => flip(&kv).await,
        other => panic!("no such role: {other}"),
    }
}

async fn increment(kv: &DirectoryKv) {
    let mut done = 0;
    while done < INCREMENTS {
        let entry = kv.get("counter").await.unwrap();
        let (value, expect) = entry.map_or((0, Expect::Missing), |entry| {
            let text = String::from_utf8(entry.value.to_vec()).unwrap();
            (
                text.parse::<u64>().unwrap(),
                Expect::Index(entry.modify_index),
            )
        });
        let operation = set("counter", &(value + 1).to_string(), expect);
        if let Outcome::Committed { .. } = kv.transact(&[operation]).await.unwrap() {
            done += 1;
        }
    }
}

/// Writes the same number to all keys, and lets a key of its own come and go, until killed.
async fn flip(kv: &DirectoryKv) {
    for round in 0_u64.. {
        let mut operations: Vec<_> = (0..KEYS)
            .map(|n| {
                let key = format!("frontend/gprd/group-states/g{n}");
                set(&key, &round.to_string(), Expect::Anything)
            })
            .collect();
        let odd = "frontend/gprd/nodes/lb-1/canary-state";
        operations.push(if round % 2 == 0 {
            delete(odd, Expect::Anything)
        } else {
            set(odd, &round.to_string(), Expect::Anything)
        });
        commit(kv, &operations).await;
    }
}

#[tokio::test]
async fn writers_in_several_processes_lose_no_increment() {
    let (folder, kv) = folder_with(&[]);
    let mut writers: Vec<_> = (0..2)
        .map(|_| Writer::start(folder.path(), "increment"))
        .collect();
    increment(&kv).await;
    for writer in &mut writers {
        assert!(writer.0.wait().unwrap().success());
    }
    let entry = kv.get("counter").await.unwrap().unwrap();
    assert_eq!(entry.value, (3 * INCREMENTS).to_string());
}

/// All keys of one transaction, or none: the same number in each, and the odd key as it says.
fn check_whole(listing: &Listing) -> Option<u64> {
    let values: Vec<u64> = (0..KEYS)
        .filter_map(|n| listing.entries.get(&format!("group-states/g{n}")))
        .map(|entry| String::from_utf8_lossy(&entry.value).parse().unwrap())
        .collect();
    let round = *values.first()?;
    assert_eq!(values, vec![round; KEYS]);
    let odd = listing.entries.get("nodes/lb-1/canary-state");
    assert_eq!(odd.is_some(), round % 2 == 1, "{listing:?}");
    Some(round)
}

#[tokio::test]
async fn a_transaction_survives_that_its_writer_is_killed() {
    let (folder, kv) = folder_with(&[]);
    let reader = DirectoryKv::open_read_only(folder.path(), clock::now).unwrap();
    let mut interrupted = 0;
    let mut index = 0;
    for kill in 0..60_u64 {
        // Enough to prove something, and each of them is slow.
        if kill >= 30 && interrupted > 0 {
            break;
        }
        let writer = Writer::start(folder.path(), "flip");
        let before = kv.list(&prefix()).await.unwrap().index;
        // Wait until it writes, then a little longer each time, to meet another moment; every
        // second time until a transaction is under way.
        let seen = kv.watch(&prefix(), before, WAIT).await.unwrap();
        check_whole(&seen);
        let journal = folder.path().join(".tidegate/journal.json");
        if kill % 2 == 0 {
            tokio::time::sleep(Duration::from_micros(kill * 977)).await;
        } else {
            let end = Instant::now() + WAIT;
            while !journal.exists() && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        drop(writer);
        interrupted += u32::from(journal.exists());
        let without_rights = reader.list(&prefix()).await.unwrap();
        let round = check_whole(&without_rights);
        let completed = kv.list(&prefix()).await.unwrap();
        assert_eq!(check_whole(&completed), round);
        assert!(!journal.exists());
        assert!(completed.index > index);
        index = completed.index;
    }
    println!("{interrupted} kills met a transaction under way");
    assert!(interrupted > 0);
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_is_left_to_a_person() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    write(folder.path(), ".tidegate/journal.json", "{");
    for error in [
        kv.list(&prefix()).await.map(drop),
        kv.transact(&[set(CANARY, "drain", Expect::Anything)])
            .await
            .map(drop),
    ] {
        assert!(
            matches!(&error, Err(KvError::BadAnswer(text)) if text.contains("remove this file")),
            "{error:?}"
        );
    }
}

/// Readers of a large folder hold the lock together, one relieving the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_writer_gets_its_turn_among_many_readers() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    for number in 0..2_000 {
        write(folder.path(), &format!("frontend/gprd/many/{number}"), "x");
    }
    kv.list(&prefix()).await.unwrap();
    let reader = || {
        let kv = kv.clone();
        tokio::spawn(async move {
            loop {
                kv.list(&prefix()).await.unwrap();
            }
        })
    };
    let readers: Vec<_> = (0..8).map(|_| reader()).collect();
    for round in 0..3 {
        let value = format!("{}%", round + 1);
        commit(&kv, &[set(CANARY, &value, Expect::Anything)]).await;
    }
    readers.iter().for_each(tokio::task::JoinHandle::abort);
}
