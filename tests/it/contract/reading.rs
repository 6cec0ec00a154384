//! Listing, watching, and the lighter reads.

use super::*;

pub(super) async fn an_empty_prefix_is_an_empty_listing<K: Kv>(store: Store<K>) {
    let listing = store.list().await;
    assert_eq!(listing.entries, BTreeMap::new());
    assert!(listing.index > 0, "a watch after 0 would not block");
    let outline = store.kv.confirm(&store.prefix).await.unwrap();
    assert_eq!(outline.names, BTreeSet::new());
}

pub(super) async fn the_first_key_wakes_a_watcher<K: Kv>(store: Store<K>) {
    let empty = store.list().await;
    let put = async { _ = store.put("a", "1").await };
    let listing = store.woken_by(empty.clone(), put).await;
    assert_eq!(values(&listing), BTreeMap::from([("a", &b"1"[..])]));
    assert!(listing.index > empty.index, "{listing:?} after {empty:?}");
}

pub(super) async fn the_deletion_of_the_last_key_wakes_a_watcher<K: Kv>(store: Store<K>) {
    store.put("a", "1").await;
    let before = store.list().await;
    let delete = async {
        let delete = store.delete("a", Expect::Anything);
        store.commit(&[delete]).await;
    };
    let listing = store.woken_by(before.clone(), delete).await;
    assert_eq!(listing.entries, BTreeMap::new());
    assert!(listing.index > before.index, "{listing:?} after {before:?}");
}

pub(super) async fn the_index_grows_with_every_change<K: Kv>(store: Store<K>) {
    let mut last = store.list().await.index;
    for (path, value) in [("a", "1"), ("b", "1"), ("a", "2"), ("c/d", "1")] {
        let committed = store.put(path, value).await;
        let listing = store.list().await;
        assert!(committed > last, "{committed} after {last}");
        assert_eq!(listing.index, committed, "{path}");
        assert_eq!(listing.entries[path].modify_index, committed, "{path}");
        last = committed;
    }
    let deleted = store.commit(&[store.delete("a", Expect::Anything)]).await;
    let listing = store.list().await;
    assert!(
        deleted > last && listing.index > last,
        "{deleted} {listing:?}"
    );
}

pub(super) async fn a_watch_ends_with_its_wait<K: Kv>(store: Store<K>) {
    store.put("a", "1").await;
    let before = store.list().await;
    let begin = Instant::now();
    let watch = store.kv.watch(&store.prefix, before.index, WAIT_SHORT);
    let listing = watch.await.unwrap();
    let took = begin.elapsed();
    assert!(listing.same_contents(&before));
    // A sixteenth more may be added on purpose, the rest is a loaded machine.
    let latest = WAIT_SHORT + WAIT_SHORT / 16 + Duration::from_secs(1);
    let earliest = WAIT_SHORT * 9 / 10;
    assert!((earliest..latest).contains(&took), "{took:?}");
}

pub(super) async fn a_watch_after_zero_answers_at_once<K: Kv>(store: Store<K>) {
    for value in [None, Some("1")] {
        if let Some(value) = value {
            store.put("a", value).await;
        }
        let begin = Instant::now();
        let watch = store.kv.watch(&store.prefix, 0, WAIT_LONG);
        let listing = watch.await.unwrap();
        assert!(begin.elapsed() < WAIT_LONG / 2, "{:?}", begin.elapsed());
        assert_eq!(listing.entries.len(), usize::from(value.is_some()));
    }
}

/// `contract/x2/` begins like `contract/x/` but for the slash.
pub(super) async fn a_write_outside_the_prefix_does_not_show<K: Kv>(store: Store<K>) {
    store.put("a", "1").await;
    let before = store.list().await;
    let sibling = store.prefix.as_str().trim_end_matches('/').to_owned() + "2/a";
    for key in [sibling.as_str(), "contract/other/a"] {
        let set = Operation::Set {
            key: key.to_owned(),
            value: "outside".into(),
            expect: Expect::Anything,
        };
        match store.kv.transact(&[set]).await {
            Ok(Outcome::Committed { .. }) => {}
            // A store may hold one prefix alone.
            Err(KvError::BadRequest(_)) => continue,
            other => panic!("{key}: {other:?}"),
        }
        let watch = store.kv.watch(&store.prefix, before.index, WAIT_SHORT);
        assert!(watch.await.unwrap().same_contents(&before), "{key}");
        assert!(store.list().await.same_contents(&before), "{key}");
        let outline = store.kv.confirm(&store.prefix).await.unwrap();
        assert_eq!(outline.names, before.outline().names, "{key}");
    }
}

pub(super) async fn one_key_is_read_or_is_not_there<K: Kv>(store: Store<K>) {
    assert_eq!(store.get("a").await, None);
    let index = store.put("a", "1").await;
    store.put("ab", "2").await;
    let entry = Entry {
        value: "1".into(),
        modify_index: index,
    };
    assert_eq!(store.get("a").await, Some(entry));
    assert_eq!(store.get("a/b").await, None);
    store.commit(&[store.delete("a", Expect::Anything)]).await;
    assert_eq!(store.get("a").await, None);
}

pub(super) async fn an_outline_shows_each_path_up_to_its_first_slash<K: Kv>(store: Store<K>) {
    for path in ["a", "b/c", "b/d/e", "f/g"] {
        store.put(path, "1").await;
    }
    let listing = store.list().await;
    let outline = store.kv.confirm(&store.prefix).await.unwrap();
    let expected = Outline {
        index: listing.index,
        names: ["a", "b/", "f/"].map(str::to_owned).into(),
    };
    assert_eq!(outline, expected);
    assert_eq!(listing.outline().names, expected.names);
    assert_eq!(roll_up("b/d/e"), "b/");
}

pub(super) async fn the_table_index_is_above_all_writes<K: Kv>(store: Store<K>) {
    for path in ["a", "b"] {
        let written = store.put(path, "1").await;
        let table = store.kv.table_index(&store.prefix).await.unwrap();
        assert!(table >= written, "{table} < {written}");
    }
    let before = store.list().await.index;
    store.commit(&[store.delete("a", Expect::Anything)]).await;
    let table = store.kv.table_index(&store.prefix).await.unwrap();
    assert!(table > before, "a delete counts: {table} after {before}");
}

pub(super) async fn ten_thousand_keys_are_listed<K: Kv>(store: Store<K>) {
    let paths: Vec<_> = (0..10_000)
        .map(|n| format!("server-overrides/web-{}/server-{n}", n % 7))
        .collect();
    for some in paths.chunks(OPERATIONS_MAX) {
        let operations: Vec<_> = some
            .iter()
            .map(|path| store.set(path, path.clone(), Expect::Missing))
            .collect();
        store.commit(&operations).await;
    }
    let listing = store.list().await;
    let expected: BTreeMap<_, _> = paths
        .iter()
        .map(|path| (path.as_str(), path.as_bytes()))
        .collect();
    assert_eq!(listing.entries.len(), paths.len());
    assert!(values(&listing) == expected, "a key or a value differs");
    let outline = store.kv.confirm(&store.prefix).await.unwrap();
    assert_eq!(outline.index, listing.index);
    assert_eq!(outline.names, listing.outline().names);
}
