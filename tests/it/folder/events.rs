//! Changes are seen at once, and whole.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate::clock;
use tidegate::domain::listing::Listing;
use tidegate::kv::directory::DirectoryKv;
use tidegate::kv::{Expect, Kv, KvError};

use super::{CANARY, SEEN_WITHIN, WAIT, folder_with, prefix, set, texts, write};
use crate::harness::wait::let_pass;

const SWAPS: usize = 100;

/// Lays a volume out as the kubelet does, or changes it as the kubelet does.
fn publish(volume: &Path, version: &str, values: &[(&str, &str)]) {
    let target = format!("..2026_{version}");
    for (key, value) in values {
        write(&volume.join(&target), key, value);
    }
    symlink(&target, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for (key, _) in values {
        let top = key.split('/').next().unwrap();
        let link = volume.join(top);
        if !link.is_symlink() {
            symlink(Path::new("..data").join(top), link).unwrap();
        }
    }
}

/// Starts a blocking read and returns once it waits: its watches are set and it holds no lock.
async fn start_watching(
    kv: &DirectoryKv,
    root: &Path,
) -> tokio::task::JoinHandle<Result<Listing, KvError>> {
    let before = kv.list(&prefix()).await.unwrap();
    let waiting = {
        let kv = kv.clone();
        tokio::spawn(async move { kv.watch(&prefix(), before.index, WAIT).await })
    };
    let end = Instant::now() + WAIT;
    while !has_watches() {
        assert!(Instant::now() < end, "no inotify watch appeared");
        tokio::task::yield_now().await;
    }
    // The first reading is done under the lock, after the first watch.
    if let Ok(lock) = fs::File::open(root.join(".tidegate/lock")) {
        lock.lock().unwrap();
    }
    waiting
}

/// Whether this process has set an inotify watch, as the kernel tells.
fn has_watches() -> bool {
    let files = fs::read_dir("/proc/self/fdinfo").unwrap();
    files
        .flatten()
        .any(|file| fs::read_to_string(file.path()).is_ok_and(|text| text.contains("inotify wd:")))
}

/// Changes something while a blocking read waits, and checks that it shows up in time. A reading
/// in the middle of the change may come first.
async fn check_seen(
    kv: &DirectoryKv,
    root: &Path,
    change: impl FnOnce(),
    (path, value): (&str, &str),
) {
    check_seen_within(SEEN_WITHIN, kv, root, change, (path, value)).await;
}

async fn check_seen_within(
    limit: Duration,
    kv: &DirectoryKv,
    root: &Path,
    change: impl FnOnce(),
    (path, value): (&str, &str),
) {
    let waiting = start_watching(kv, root).await;
    let start = Instant::now();
    change();
    let mut listing = waiting.await.unwrap().unwrap();
    while listing
        .entries
        .get(path)
        .is_none_or(|entry| entry.value != value)
    {
        assert!(start.elapsed() < limit, "{path} = {value}: {listing:?}");
        listing = kv.watch(&prefix(), listing.index, limit).await.unwrap();
    }
    println!("{path} = {value}: seen after {:?}", start.elapsed());
    assert!(start.elapsed() < limit);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_by_hand_is_seen_at_once() {
    let (folder, kv) = folder_with(&[(CANARY, "ready")]);
    let root = folder.path();
    for round in 0..5 {
        let value = format!("{}%", round + 1);
        let edit = || write(root, CANARY, &value);
        check_seen(&kv, root, edit, ("canary-state", &value)).await;
        let value = format!("{}%", round + 11);
        let save = || {
            write(root, "frontend/gprd/.canary-state.new", &value);
            let fresh = root.join("frontend/gprd/.canary-state.new");
            fs::rename(fresh, root.join(CANARY)).unwrap();
        };
        check_seen(&kv, root, save, ("canary-state", &value)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_folders_that_appear_are_seen_at_once() {
    let (folder, kv) = folder_with(&[("frontend/gstg/canary-state", "ready")]);
    let root = folder.path();
    let first = || write(root, CANARY, "drain");
    check_seen(&kv, root, first, ("canary-state", "drain")).await;
    for round in 0..20 {
        let path = format!("nodes/lb-{round}/server-overrides/web/gke");
        let key = format!("frontend/gprd/{path}");
        check_seen(&kv, root, || write(root, &key, "maint"), (&path, "maint")).await;
    }
    let outside = TempDir::new().unwrap();
    write(outside.path(), "state", "drain");
    let link = root.join("frontend/gprd/group-states");
    fs::create_dir(&link).unwrap();
    let linked = || symlink(outside.path().join("state"), link.join("ci")).unwrap();
    check_seen(&kv, root, linked, ("group-states/ci", "drain")).await;
    let behind = || write(outside.path(), "state", "maint");
    check_seen(&kv, root, behind, ("group-states/ci", "maint")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_vanishes_is_unreachable_and_found_again() {
    let parent = TempDir::new().unwrap();
    let root = parent.path().join("state");
    write(&root, CANARY, "ready");
    let kv = DirectoryKv::open(&root, clock::now).unwrap();
    let before = kv.list(&prefix()).await.unwrap();
    let waiting = start_watching(&kv, &root).await;
    fs::rename(&root, parent.path().join("away")).unwrap();
    let start = Instant::now();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(start.elapsed() < SEEN_WITHIN);
    assert!(
        matches!(&error, KvError::Unreachable(text) if text.contains("state: No such file")),
        "{error}"
    );
    write(&root, CANARY, "drain");
    let after = kv.list(&prefix()).await.unwrap();
    assert_eq!(texts(&after), [("canary-state", "drain".to_owned())]);
    assert!(after.index > before.index, "{after:?}");
    let replaced = || {
        fs::rename(&root, parent.path().join("away-too")).unwrap();
        let fresh = parent.path().join("fresh");
        write(&fresh, CANARY, "maint");
        fs::rename(fresh, &root).unwrap();
    };
    // The reading in between may find no folder at all.
    let waiting = start_watching(&kv, &root).await;
    replaced();
    let _either = waiting.await.unwrap();
    assert!(start.elapsed() < 2 * SEEN_WITHIN);
    let last = kv.list(&prefix()).await.unwrap();
    assert_eq!(texts(&last), [("canary-state", "maint".to_owned())]);
    let missing = DirectoryKv::open(parent.path().join("nowhere"), clock::now);
    assert!(matches!(missing, Err(KvError::Unreachable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_volume_is_read_through_its_swaps() {
    let volume = TempDir::new().unwrap();
    publish(
        volume.path(),
        "1",
        &[(CANARY, "ready"), ("frontend/gprd/settings", "1")],
    );
    let kv = DirectoryKv::open(volume.path(), clock::now).unwrap();
    assert!(!kv.capabilities().writable);
    let listing = kv.list(&prefix()).await.unwrap();
    let expected = [
        ("canary-state", "ready".to_owned()),
        ("settings", "1".to_owned()),
    ];
    assert_eq!(texts(&listing), expected);
    for round in 2..6 {
        let value = format!("{round}%");
        let values = [(CANARY, value.as_str()), ("frontend/gprd/settings", &value)];
        let swap = || publish(volume.path(), &round.to_string(), &values);
        check_seen(&kv, volume.path(), swap, ("canary-state", &value)).await;
    }
    let refused = kv.transact(&[set(CANARY, "drain", Expect::Anything)]).await;
    assert!(matches!(&refused, Err(KvError::ReadOnly(text)) if text.contains("ConfigMap")));
    assert!(!volume.path().join(".tidegate").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_is_never_seen_half() {
    let volume = TempDir::new().unwrap();
    let keys: Vec<String> = (0..40)
        .map(|n| format!("frontend/gprd/group-states/g{n}"))
        .collect();
    let values = |value: &'static str| -> Vec<(&str, &str)> {
        keys.iter().map(|key| (key.as_str(), value)).collect()
    };
    publish(volume.path(), "a", &values("drain"));
    publish(volume.path(), "b", &values("maint"));
    let kv = DirectoryKv::open(volume.path(), clock::now).unwrap();
    let path = volume.path().to_owned();
    let swaps = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&swaps);
    let swapping = std::thread::spawn(move || {
        while counter.load(Ordering::Relaxed) < SWAPS {
            let even = counter.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let target = if even { "..2026_a" } else { "..2026_b" };
            symlink(target, path.join("..data_tmp")).unwrap();
            fs::rename(path.join("..data_tmp"), path.join("..data")).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    let mut readings = 0;
    while swaps.load(Ordering::Relaxed) < SWAPS {
        readings += 1;
        match kv.list(&prefix()).await {
            Ok(listing) => {
                let first = &listing.entries["group-states/g0"].value;
                assert!(listing.entries.values().all(|entry| entry.value == *first));
                assert_eq!(listing.entries.len(), 40);
            }
            // Swapped under every one of its attempts: an error, never a mixture.
            Err(error) => assert!(matches!(error, KvError::BadAnswer(_)), "{error}"),
        }
    }
    swapping.join().unwrap();
    println!("{readings} readings over {SWAPS} swaps");
    assert!(readings > 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_of_many_keys_does_not_wake_itself() {
    let (folder, kv) = folder_with(&[]);
    for n in 0..10_000 {
        write(
            folder.path(),
            &format!("frontend/gprd/server-overrides/b{}/s{n}", n % 50),
            "ready",
        );
    }
    let start = Instant::now();
    let listing = kv.list(&prefix()).await.unwrap();
    println!("10,000 keys: first reading {:?}", start.elapsed());
    assert_eq!(listing.entries.len(), 10_000);
    let start = Instant::now();
    kv.list(&prefix()).await.unwrap();
    println!("10,000 keys: next reading {:?}", start.elapsed());
    let key = "frontend/gprd/server-overrides/b7/s7";
    let edit = || write(folder.path(), key, "drain");
    let path = "server-overrides/b7/s7";
    // Each reading of so many files takes a while on a busy machine.
    let limit = 5 * SEEN_WITHIN;
    check_seen_within(limit, &kv, folder.path(), edit, (path, "drain")).await;
}

/// Editors and `git checkout` take a file away before they write it anew: a reading in between
/// must not show the key as deleted, for that would undo the override.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_away_for_a_moment_was_not_deleted() {
    let (folder, kv) = folder_with(&[(CANARY, "drain"), ("frontend/gprd/_meta", "{}")]);
    let before = kv.list(&prefix()).await.unwrap();
    let (path, aside) = (folder.path().join(CANARY), folder.path().join("aside"));
    let stop = Arc::new(AtomicUsize::new(0));
    let editor = {
        let stop = Arc::clone(&stop);
        tokio::task::spawn_blocking(move || {
            let mut longest = Duration::ZERO;
            while stop.load(Ordering::Relaxed) == 0 {
                let away = Instant::now();
                fs::rename(&path, &aside).unwrap();
                let_pass(Duration::from_millis(20));
                fs::rename(&aside, &path).unwrap();
                longest = longest.max(away.elapsed());
                let_pass(Duration::from_millis(200));
            }
            longest
        })
    };
    let end = Instant::now() + Duration::from_secs(3);
    let mut missed = None;
    while Instant::now() < end && missed.is_none() {
        let listing = kv.list(&prefix()).await.unwrap();
        missed = (listing.index != before.index).then_some(listing);
    }
    stop.store(1, Ordering::Relaxed);
    let longest = editor.await.unwrap();
    // On a busy machine the file may have been away for longer than the folder waits.
    let excused = longest >= Duration::from_millis(50);
    assert!(
        missed.is_none() || excused,
        "away for {longest:?}: {missed:?}"
    );
    fs::remove_file(folder.path().join(CANARY)).unwrap();
    let listing = kv.list(&prefix()).await.unwrap();
    assert!(!listing.entries.contains_key("canary-state"));
}
