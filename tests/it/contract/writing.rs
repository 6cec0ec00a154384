//! Transactions, and what keys and values may be.

use super::*;

/// What stands at a key, and whether each expectation holds of it.
fn expectations(index: u64) -> [(bool, Expect, bool); 9] {
    [
        (false, Expect::Anything, true),
        (false, Expect::Missing, true),
        (false, Expect::Index(index), false),
        (false, Expect::Index(0), false),
        (true, Expect::Anything, true),
        (true, Expect::Missing, false),
        (true, Expect::Index(index), true),
        (true, Expect::Index(index + 1), false),
        (true, Expect::Index(0), false),
    ]
}

/// Puts the key where the row wants it, applies one operation, and compares outcome and entry.
async fn check<K: Kv>(store: &Store<K>, set: bool) {
    for row in 0..expectations(0).len() {
        let (present, ..) = expectations(0)[row];
        let index = store.put("a", format!("old {row}")).await;
        if !present {
            store.commit(&[store.delete("a", Expect::Anything)]).await;
        }
        let (_, expect, holds) = expectations(index)[row];
        let before = store.get("a").await;
        let operation = if set {
            store.set("a", "new", expect)
        } else {
            store.delete("a", expect)
        };
        let outcome = store.kv.transact(&[operation]).await.unwrap();
        let after = store.get("a").await;
        let what = format!("row {row}: {present} {expect:?}: {outcome:?}, {after:?}");
        if holds {
            assert!(matches!(outcome, Outcome::Committed { .. }), "{what}");
            let value = after.map(|entry| entry.value);
            assert_eq!(value, set.then(|| "new".into()), "{what}");
        } else {
            let key = Some(store.key("a"));
            assert_eq!(outcome, Outcome::Conflict { key }, "{what}");
            assert_eq!(after, before, "{what}");
        }
    }
    let index = store.put("b", "1").await;
    store.put("b", "2").await;
    let stale = if set {
        store.set("b", "new", Expect::Index(index))
    } else {
        store.delete("b", Expect::Index(index))
    };
    let outcome = store.kv.transact(&[stale]).await.unwrap();
    assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");
    assert_eq!(store.get("b").await.unwrap().value, "2");
}

pub(super) async fn a_set_keeps_to_its_expectation<K: Kv>(store: Store<K>) {
    check(&store, true).await;
}

pub(super) async fn a_delete_keeps_to_its_expectation<K: Kv>(store: Store<K>) {
    check(&store, false).await;
}

pub(super) async fn a_transaction_is_applied_whole_or_not_at_all<K: Kv>(store: Store<K>) {
    let index = store.put("a", "1").await;
    store.put("b", "1").await;
    let before = store.list().await;
    let operations = |b_index| {
        [
            store.set("a", "2", Expect::Index(index)),
            store.delete("never", Expect::Missing),
            store.set("c", "2", Expect::Missing),
            store.delete("b", Expect::Index(b_index)),
            store.set("d", "2", Expect::Anything),
        ]
    };
    let b_index = before.entries["b"].modify_index;
    let outcome = store.kv.transact(&operations(b_index + 1)).await.unwrap();
    let key = Some(store.key("b"));
    assert_eq!(outcome, Outcome::Conflict { key });
    assert_eq!(store.list().await, before);

    let index = store.commit(&operations(b_index)).await;
    let after = store.list().await;
    let expected = ["a", "c", "d"].map(|path| (path, &b"2"[..]));
    assert_eq!(values(&after), expected.into());
    let indexes: BTreeSet<_> = after.entries.values().map(|e| e.modify_index).collect();
    assert_eq!(indexes, [index].into(), "one transaction, one index");
}

pub(super) async fn a_watcher_sees_a_transaction_whole<K: Kv>(store: Store<K>) {
    for round in 0..20 {
        let before = store.list().await;
        let operations: Vec<_> = (0..30)
            .map(|n| store.set(&format!("k{n}"), format!("{round}"), Expect::Anything))
            .collect();
        let write = async { _ = store.commit(&operations).await };
        let seen = store.woken_by(before, write).await;
        let round = format!("{round}");
        assert_eq!(seen.entries.len(), 30);
        let whole = seen.entries.values().all(|entry| entry.value == round);
        assert!(whole, "a part of round {round}: {seen:?}");
    }
}

pub(super) async fn the_same_value_again_changes_nothing<K: Kv>(store: Store<K>) {
    let index = store.put("a", "1").await;
    store.put("b", "1").await;
    let before = store.list().await;
    for expect in [Expect::Anything, Expect::Index(index)] {
        store.commit(&[store.set("a", "1", expect)]).await;
        assert_eq!(store.list().await, before, "{expect:?}");
    }
    let delete = store.delete("never-there", Expect::Anything);
    store.commit(&[delete]).await;
    assert_eq!(store.list().await, before);
}

pub(super) async fn sixty_four_operations_are_possible_and_no_more<K: Kv>(store: Store<K>) {
    let sets = |count: usize| -> Vec<_> {
        (0..count)
            .map(|n| store.set(&format!("k{n}"), "1", Expect::Missing))
            .collect()
    };
    let refused = store.kv.transact(&sets(OPERATIONS_MAX + 1)).await;
    assert!(
        matches!(refused, Err(KvError::BadRequest(_))),
        "{refused:?}"
    );
    assert_eq!(store.list().await.entries.len(), 0);
    store.commit(&sets(OPERATIONS_MAX)).await;
    let listing = store.list().await;
    assert_eq!(listing.entries.len(), OPERATIONS_MAX);
    // A delete at an index counts as two.
    let deletes: Vec<_> = listing
        .entries
        .iter()
        .take(OPERATIONS_MAX / 2)
        .map(|(path, entry)| store.delete(path, Expect::Index(entry.modify_index)))
        .collect();
    store.commit(&deletes).await;
    assert_eq!(store.list().await.entries.len(), OPERATIONS_MAX / 2);
}

pub(super) async fn the_largest_value_is_kept_and_no_larger<K: Kv>(store: Store<K>) {
    let large = |byte: u8, more: usize| vec![byte; VALUE_BYTES_MAX + more];
    let index = store
        .commit(&[store.set("a", large(0xff, 0), Expect::Missing)])
        .await;
    let entry = store.get("a").await.unwrap();
    assert_eq!(entry.modify_index, index);
    assert!(entry.value == large(0xff, 0), "{}", entry.value.len());

    let again = store.set("a", large(0xfe, 0), Expect::Missing);
    let outcome = store.kv.transact(&[again]).await.unwrap();
    assert!(matches!(outcome, Outcome::Conflict { .. }), "{outcome:?}");
    let next = store.set("a", large(0xfe, 0), Expect::Index(index));
    assert!(store.commit(&[next]).await > index);

    let refused = store
        .kv
        .transact(&[store.set("a", large(0, 1), Expect::Anything)])
        .await;
    let Err(KvError::BadRequest(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.contains("524289") && text.contains("524288"), "{text}");
    assert_eq!(store.get("a").await.unwrap().value[0], 0xfe);
}

pub(super) async fn values_come_back_byte_for_byte<K: Kv>(store: Store<K>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in [&b""[..], b"\0", b"\xff\xfe", b"a\n", b"null", &every_byte] {
        store.put("a", value.to_vec()).await;
        assert_eq!(store.get("a").await.unwrap().value, value);
        assert_eq!(store.list().await.entries["a"].value, value);
    }
}

pub(super) async fn keys_come_back_under_their_own_name<K: Kv>(store: Store<K>) {
    let can = store.kv.capabilities();
    let plain = [
        "a b",
        " a b%ü",
        "100%25",
        "a+b",
        "a?b#c",
        "ü/漢字",
        "a:b",
        "a&b=c",
    ];
    let odd = ["m/.b", "n/..b", "marker/"];
    let mut expected = BTreeSet::new();
    for path in plain {
        store.put(path, path).await;
        expected.insert(path);
    }
    for path in odd {
        let set = store.set(path, "", Expect::Anything);
        match store.kv.transact(&[set]).await {
            Ok(Outcome::Committed { .. }) if can.odd_keys => drop(expected.insert(path)),
            Err(KvError::BadRequest(_)) if !can.odd_keys => {}
            other => panic!("{path}: {other:?}, {can:?}"),
        }
    }
    let listing = store.list().await;
    assert_eq!(
        values(&listing).into_keys().collect::<BTreeSet<_>>(),
        expected
    );
    for path in expected {
        assert_eq!(store.get(path).await.as_ref(), listing.entries.get(path));
    }
    if can.odd_keys {
        // The marker of the prefix itself is not below the prefix.
        store.put("", "").await;
        assert!(store.list().await.same_contents(&listing));
        let outline = store.kv.confirm(&store.prefix).await.unwrap();
        assert_eq!(outline.names, listing.outline().names);
    }
}

pub(super) async fn keys_that_mean_another_key_are_refused<K: Kv>(store: Store<K>) {
    for path in ["a//b", "/a", "a/../b", "./a", "..", "a\nb", "a\0b"] {
        let set = store.set(path, "1", Expect::Anything);
        let refused = store.kv.transact(&[set]).await;
        assert!(
            matches!(refused, Err(KvError::BadRequest(_))),
            "{path:?}: {refused:?}"
        );
        let refused = store.kv.get(&store.key(path)).await;
        assert!(
            matches!(refused, Err(KvError::BadRequest(_))),
            "{path:?}: {refused:?}"
        );
    }
    assert_eq!(store.list().await.entries, BTreeMap::new());
}

pub(super) async fn a_key_may_stand_beside_its_children_where_the_store_can<K: Kv>(
    store: Store<K>,
) {
    store.put("a/b", "1").await;
    let set = store.set("a", "2", Expect::Anything);
    match store.kv.transact(&[set]).await {
        Ok(Outcome::Committed { .. }) if store.kv.capabilities().key_beside_children => {
            assert_eq!(store.list().await.entries.len(), 2);
        }
        Err(KvError::BadRequest(_)) if !store.kv.capabilities().key_beside_children => {
            assert_eq!(store.list().await.entries.len(), 1);
        }
        other => panic!("{other:?}, {:?}", store.kv.capabilities()),
    }
}

pub(super) async fn senseless_transactions_are_refused<K: Kv>(store: Store<K>) {
    let twice = [
        store.set("a", "1", Expect::Anything),
        store.delete("a", Expect::Anything),
    ];
    for operations in [&[][..], &twice] {
        let refused = store.kv.transact(operations).await;
        assert!(
            matches!(refused, Err(KvError::BadRequest(_))),
            "{refused:?}"
        );
    }
    assert_eq!(store.list().await.entries, BTreeMap::new());
}

pub(super) async fn exactly_one_of_the_writers_of_a_round_wins<K: Kv>(store: Store<K>) {
    let mut index = store.put("a", "start").await;
    for round in 0..20 {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let value = format!("{round} {writer}");
                let set = store.set("a", value, Expect::Index(index));
                let kv = store.kv.clone();
                tokio::spawn(async move { kv.transact(&[set]).await.unwrap() })
            })
            .collect();
        let mut winners = Vec::new();
        for writer in writers {
            if let Outcome::Committed { index } = writer.await.unwrap() {
                winners.push(index);
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        index = winners[0];
        assert_eq!(store.get("a").await.unwrap().modify_index, index);
    }
}

pub(super) async fn no_increment_is_lost<K: Kv>(store: Store<K>) {
    store.put("count", "0").await;
    let writers: Vec<_> = (0..4)
        .map(|_| tokio::spawn(increment(store.kv.clone(), store.key("count"), 10)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(store.get("count").await.unwrap().value, "40");
}

async fn increment<K: Kv>(kv: Arc<K>, key: String, times: usize) {
    let mut done = 0;
    while done < times {
        let entry = kv.get(&key).await.unwrap().unwrap();
        let count: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
        let set = Operation::Set {
            key: key.clone(),
            value: (count + 1).to_string().into(),
            expect: Expect::Index(entry.modify_index),
        };
        if let Outcome::Committed { .. } = kv.transact(&[set]).await.unwrap() {
            done += 1;
        }
    }
}
