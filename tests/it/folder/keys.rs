//! What is a key, which index it has, and what a transaction does.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tidegate::clock;
use tidegate::kv::directory::DirectoryKv;
use tidegate::kv::{Expect, Kv, KvError, Operation, Outcome, VALUE_BYTES_MAX};

use super::{CANARY, commit, delete, folder_with, prefix, set, texts, write};

#[tokio::test]
async fn two_handles_agree_on_every_index() {
    let (folder, one) = folder_with(&[(CANARY, "ready")]);
    let two = DirectoryKv::open(folder.path(), clock::now).unwrap();
    let listing = one.list(&prefix()).await.unwrap();
    assert_eq!(two.list(&prefix()).await.unwrap(), listing);
    // Whoever looks first gives the edit its index.
    write(folder.path(), CANARY, "drain");
    let seen = two.get(CANARY).await.unwrap().unwrap();
    assert!(seen.modify_index > listing.index);
    assert_eq!(one.get(CANARY).await.unwrap().unwrap(), seen);
    let stale = set(CANARY, "maint", Expect::Index(listing.index));
    let conflict = Outcome::Conflict {
        key: Some(CANARY.to_owned()),
    };
    assert_eq!(one.transact(&[stale]).await.unwrap(), conflict);
    let index = commit(
        &one,
        &[set(CANARY, "maint", Expect::Index(seen.modify_index))],
    )
    .await;
    assert_eq!(two.get(CANARY).await.unwrap().unwrap().modify_index, index);
    assert_eq!(two.table_index(&prefix()).await.unwrap(), index);
    let reader = DirectoryKv::open_read_only(folder.path(), clock::now).unwrap();
    assert_eq!(
        reader.list(&prefix()).await.unwrap(),
        two.list(&prefix()).await.unwrap()
    );
    assert_eq!(reader.confirm(&prefix()).await.unwrap().index, index);
}

#[tokio::test]
async fn a_reader_that_cannot_write_keeps_its_indexes_in_memory() {
    let (folder, _) = folder_with(&[(CANARY, "ready"), ("frontend/gprd/settings", "{}")]);
    let kv = DirectoryKv::open_read_only(folder.path(), clock::now).unwrap();
    let first = kv.list(&prefix()).await.unwrap();
    assert_eq!(kv.list(&prefix()).await.unwrap(), first);
    write(folder.path(), CANARY, "drain");
    let second = kv.list(&prefix()).await.unwrap();
    assert!(second.index > first.index);
    assert_eq!(second.entries["settings"], first.entries["settings"]);
    fs::remove_file(folder.path().join(CANARY)).unwrap();
    let third = kv.list(&prefix()).await.unwrap();
    assert!(third.index > second.index);
    assert_eq!(kv.list(&prefix()).await.unwrap(), third);
    assert!(!folder.path().join(".tidegate").exists());
    // Beside a writer: what it has not seen yet does not give a new index with every reading.
    let writer = DirectoryKv::open(folder.path(), clock::now).unwrap();
    writer.list(&prefix()).await.unwrap();
    fs::remove_file(folder.path().join("frontend/gprd/settings")).unwrap();
    write(folder.path(), CANARY, "maint");
    let fourth = kv.list(&prefix()).await.unwrap();
    assert_eq!(kv.list(&prefix()).await.unwrap(), fourth);
    commit(
        &writer,
        &[set(
            "frontend/gprd/group-states/ci",
            "ready",
            Expect::Missing,
        )],
    )
    .await;
    let fifth = kv.list(&prefix()).await.unwrap();
    assert!(fifth.index > fourth.index);
    assert_eq!(fifth.entries.len(), 2);
    assert_eq!(kv.list(&prefix()).await.unwrap(), fifth);
}

#[tokio::test]
async fn a_state_that_is_lost_or_broken_lowers_no_index() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    let state = folder.path().join(".tidegate/state.json");
    commit(&kv, &[set(CANARY, "drain", Expect::Anything)]).await;
    let before = kv.table_index(&prefix()).await.unwrap();
    fs::write(&state, b"\0\xffnot json").unwrap();
    let after = kv.table_index(&prefix()).await.unwrap();
    assert!(after >= before, "{after} < {before}");
    assert!(
        kv.notices()[0].contains("state.json: set aside"),
        "{:?}",
        kv.notices()
    );
    let aside = folder.path().join(".tidegate/state.json.unreadable");
    assert_eq!(fs::read(aside).unwrap(), b"\0\xffnot json");
    fs::remove_dir_all(folder.path().join(".tidegate")).unwrap();
    assert!(kv.table_index(&prefix()).await.unwrap() >= after);
}

#[tokio::test]
async fn a_transaction_is_whole_or_nothing() {
    let (folder, kv) = folder_with(&[(CANARY, "ready"), ("frontend/gprd/settings", "{}")]);
    let refused = [
        set("frontend/gprd/_meta", "1", Expect::Missing),
        delete(CANARY, Expect::Missing),
    ];
    let conflict = Outcome::Conflict {
        key: Some(CANARY.to_owned()),
    };
    assert_eq!(kv.transact(&refused).await.unwrap(), conflict);
    assert_eq!(kv.get("frontend/gprd/_meta").await.unwrap(), None);
    let override_key = "frontend/gprd/nodes/lb-1/server-overrides/web/gke";
    let index = commit(
        &kv,
        &[
            set(override_key, "drain", Expect::Missing),
            delete(CANARY, Expect::Anything),
            delete("frontend/gprd/nothing", Expect::Missing),
        ],
    )
    .await;
    assert_eq!(
        kv.get(override_key).await.unwrap().unwrap().modify_index,
        index
    );
    assert_eq!(kv.get(CANARY).await.unwrap(), None);
    // A deletion takes along the folders that it empties, never the root.
    commit(&kv, &[delete(override_key, Expect::Index(index))]).await;
    assert!(!folder.path().join("frontend/gprd/nodes").exists());
    assert!(folder.path().join("frontend/gprd/settings").exists());
    let last = commit(&kv, &[delete("frontend/gprd/settings", Expect::Anything)]).await;
    assert!(!folder.path().join("frontend").exists());
    let empty = kv.list(&prefix()).await.unwrap();
    assert_eq!((empty.index, empty.entries.len()), (last, 0));
    let own = fs::read_dir(folder.path().join(".tidegate")).unwrap();
    let mut left: Vec<_> = own.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["lock", "state.json"]);
}

#[tokio::test]
async fn what_a_folder_cannot_hold_is_refused_before_anything_is_written() {
    let (folder, kv) = folder_with(&[("a/key", "1"), ("a/folder/key", "1")]);
    let deep = vec!["a"; 40].join("/");
    for (key, why) in [
        ("a/key/below", "\"a/key\" is a key"),
        ("a/folder", "it is a folder that holds"),
        ("a//b", "has an empty segment"),
        ("a/.b", "cannot be a file"),
        ("../b", "as a segment"),
        ("a/b/", "cannot be a file"),
        (&deep, "more than 16 segments"),
    ] {
        let outcome = kv
            .transact(&[
                set("a/other", "1", Expect::Anything),
                set(key, "1", Expect::Anything),
            ])
            .await;
        assert!(
            matches!(&outcome, Err(KvError::BadRequest(text)) if text.contains(why)),
            "{key}: {outcome:?}"
        );
        assert_eq!(kv.get("a/other").await.unwrap(), None);
        let there = kv.get(key).await;
        assert!(!matches!(there, Ok(Some(_))), "{key}: {there:?}");
    }
    // A key may take the place of a folder that the same transaction empties, and the reverse.
    commit(
        &kv,
        &[
            delete("a/folder/key", Expect::Anything),
            set("a/folder", "2", Expect::Missing),
        ],
    )
    .await;
    commit(
        &kv,
        &[
            delete("a/folder", Expect::Anything),
            set("a/folder/x", "3", Expect::Missing),
        ],
    )
    .await;
    assert_eq!(fs::read(folder.path().join("a/folder/x")).unwrap(), b"3");
    let large = Operation::Set {
        key: "a/large".to_owned(),
        value: vec![b'x'; VALUE_BYTES_MAX + 1].into(),
        expect: Expect::Anything,
    };
    assert!(matches!(
        kv.transact(&[large]).await,
        Err(KvError::BadRequest(_))
    ));
    let many: Vec<_> = (0..65)
        .map(|n| set(&format!("a/{n}"), "1", Expect::Anything))
        .collect();
    assert!(matches!(
        kv.transact(&many).await,
        Err(KvError::BadRequest(_))
    ));
}

#[tokio::test]
async fn a_listing_is_never_smaller_than_the_folder() {
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil); 6] = [
        ("larger than the 524288 bytes", |folder| {
            fs::write(folder.join("bad"), vec![b'x'; VALUE_BYTES_MAX + 1]).unwrap();
        }),
        ("not UTF-8", |folder| {
            fs::write(folder.join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
        }),
        ("leads nowhere", |folder| {
            symlink("nowhere", folder.join("bad")).unwrap();
        }),
        ("leads into one of its own parents", |folder| {
            symlink("..", folder.join("bad")).unwrap();
        }),
        ("neither a file nor a folder", |folder| {
            let pipe = Command::new("mkfifo").arg(folder.join("bad")).status();
            assert!(pipe.unwrap().success());
        }),
        ("nested deeper than 16", |folder| {
            fs::create_dir_all(folder.join(format!("bad/{}", vec!["d"; 20].join("/")))).unwrap();
        }),
    ];
    for (why, spoil) in cases {
        let (folder, kv) = folder_with(&[(CANARY, "ready")]);
        spoil(&folder.path().join("frontend/gprd"));
        let error = kv.list(&prefix()).await.unwrap_err();
        assert!(
            matches!(&error, KvError::BadAnswer(text) if text.contains(why) && text.contains("bad")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_named() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    let bad = folder.path().join("frontend/gprd/bad");
    // Rights do not bind root; the first bytes of a process's memory cannot be read by anybody.
    symlink("/proc/self/mem", bad).unwrap();
    let error = kv.list(&prefix()).await.unwrap_err();
    assert!(
        matches!(&error, KvError::Unreachable(text) if text.contains("gprd/bad: ")),
        "{error}"
    );
}

#[tokio::test]
async fn editors_files_are_no_keys() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    for name in [
        ".canary-state.swp",
        "canary-state~",
        "#canary-state#",
        ".git/HEAD",
    ] {
        write(&folder.path().join("frontend/gprd"), name, "x");
    }
    let listing = kv.list(&prefix()).await.unwrap();
    assert_eq!(texts(&listing), [("canary-state", "ready".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_two_steps_is_read_as_it_is() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    let path = folder.path().join(CANARY);
    let editing = std::thread::spawn(move || {
        for round in 0..200 {
            let file = fs::File::create(&path).unwrap();
            std::thread::yield_now();
            std::io::Write::write_all(&mut &file, if round % 2 == 0 { b"drain" } else { b"maint" })
                .unwrap();
        }
    });
    let mut index = 0;
    while !editing.is_finished() {
        let listing = kv.list(&prefix()).await.unwrap();
        assert!(listing.index >= index);
        index = listing.index;
        let value = listing.entries["canary-state"].value.clone();
        assert!(
            ["ready", "drain", "maint", ""]
                .iter()
                .any(|text| *text == value),
            "{value:?}"
        );
    }
    editing.join().unwrap();
    let last = kv.list(&prefix()).await.unwrap();
    assert_eq!(texts(&last), [("canary-state", "maint".to_owned())]);
}
