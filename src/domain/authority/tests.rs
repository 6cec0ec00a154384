use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::domain::listing::Entry;
use bytes::Bytes;

const P: Duration = Duration::from_secs(2);

fn at(seconds: f64) -> Moment {
    Moment(Duration::from_secs_f64(seconds))
}

/// A listing at `index`, with a sentinel and these (path, modify index) entries.
fn listing(index: u64, generation: (u64, u64), entries: &[(&str, u64)]) -> Listing {
    let (epoch, r#gen) = generation;
    let meta = Generation { epoch, r#gen }.to_json(jiff::Timestamp::UNIX_EPOCH, "test", None);
    let mut reading = bare(index, entries);
    let modify_index = index.min(5);
    let meta = Entry {
        value: Bytes::from(meta),
        modify_index,
    };
    reading.entries.insert("_meta".to_owned(), meta);
    reading
}

fn bare(index: u64, entries: &[(&str, u64)]) -> Listing {
    let entry = |(path, modify_index): &(&str, u64)| {
        let entry = Entry {
            value: Bytes::from_static(b"drain"),
            modify_index: *modify_index,
        };
        ((*path).to_owned(), entry)
    };
    Listing {
        index,
        entries: entries.iter().map(entry).collect(),
    }
}

const BOTH: &[(&str, u64)] = &[("canary-state", 10), ("group-states/ci", 20)];

/// A replica that has accepted `BOTH` at index 20, generation 1.5, at second 0.
fn current() -> Authority {
    let mut authority = Authority::new(Times::from_poll_interval(P), []);
    let judgement = authority.listed(listing(20, (1, 5), BOTH), at(0.0), at(0.1));
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    authority
}

fn findings(table_index: u64) -> Findings {
    Findings {
        asked: Vec::new(),
        table_index,
        denied: None,
        present: BTreeMap::new(),
    }
}

fn refusal(path: &str) -> Refusal {
    let (path, text) = (path.to_owned(), "no right".to_owned());
    Refusal { path, text }
}

/// Hands in a doubtful reading, with what the source says when asked.
fn examine(
    authority: &mut Authority,
    reading: Listing,
    second: f64,
    found: &Findings,
) -> Judgement {
    let judgement = authority.listed(reading.clone(), at(second), at(second + 0.1));
    let Judgement::Examine(questions) = judgement else {
        panic!("{judgement:?}");
    };
    let found = Findings {
        asked: questions.paths,
        ..found.clone()
    };
    authority.examined(reading, at(second), &found, at(second + 0.1))
}

fn check(authority: &Authority, second: f64, name: AuthorityName, reason: &str) {
    let verdict = authority.standing().verdict(at(second));
    assert_eq!(verdict.name, name, "at {second}: {}", verdict.reason);
    assert!(
        verdict.reason.contains(reason),
        "at {second}: {}",
        verdict.reason
    );
}

#[test]
fn nothing_is_answered_before_the_first_good_listing() {
    let mut authority = Authority::new(Times::from_poll_interval(P), []);
    check(&authority, 0.0, AuthorityName::Starting, "no listing yet");
    let judgement = examine(&mut authority, bare(3, &[]), 0.0, &findings(3));
    assert_eq!(judgement, Judgement::Refused);
    check(&authority, 0.1, AuthorityName::Held, "tidegate init");
    examine(&mut authority, bare(3, BOTH), 1.0, &findings(3));
    check(
        &authority,
        1.1,
        AuthorityName::Held,
        "missing beside 2 other keys",
    );
    authority.denied("no token".to_owned(), at(2.0));
    check(&authority, 2.0, AuthorityName::Held, "no token");
    authority.unreachable("refused".to_owned());
    check(&authority, 3.5, AuthorityName::Starting, "yet: refused");
    assert!(!authority.standing().name(at(3.5)).answers());
}

#[test]
fn a_first_listing_without_rights_is_no_empty_prefix() {
    let mut authority = Authority::new(Times::from_poll_interval(P), []);
    let found = Findings {
        denied: Some(refusal("_meta")),
        ..findings(30)
    };
    examine(&mut authority, bare(3, &[]), 0.0, &found);
    let reason = "rights are missing: _meta";
    check(&authority, 0.1, AuthorityName::Held, reason);
    // The store's index goes back before anything was in force: nothing to protect.
    for (second, table_index) in [(1.0, 30), (2.0, 1), (3.0, 1)] {
        let found = findings(table_index);
        examine(&mut authority, bare(1, &[]), second, &found);
        check(
            &authority,
            second + 0.1,
            AuthorityName::Held,
            "no key under",
        );
    }
    let mut unreadable = bare(30, &[("_meta", 30)]);
    unreadable.index = 31;
    let judgement = authority.listed(unreadable, at(4.0), at(4.1));
    assert_eq!(judgement, Judgement::Refused);
    check(&authority, 4.1, AuthorityName::Held, "cannot be read");
}

#[test]
fn what_holds_does_not_lapse_while_the_source_is_being_asked() {
    let mut authority = current();
    examine(&mut authority, bare(30, &[]), 1.0, &findings(30));
    check(&authority, 2.5, AuthorityName::Held, "no key under");
    // The next reading says the same; the questions that it raises take their time.
    let judgement = authority.listed(bare(30, &[]), at(2.4), at(2.5));
    assert!(matches!(judgement, Judgement::Examine(_)), "{judgement:?}");
    check(&authority, 3.9, AuthorityName::Held, "no key under");
}

#[test]
fn a_key_created_after_the_listing_was_not_missing_in_it() {
    let mut authority = current();
    let found = Findings {
        present: BTreeMap::from([("group-states/ci".to_owned(), 31)]),
        ..findings(31)
    };
    let deleted = listing(30, (1, 6), &BOTH[..1]);
    let judgement = examine(&mut authority, deleted, 1.0, &found);
    assert_eq!(judgement, Judgement::Accepted { changed: true });
}

#[test]
fn the_reason_says_why_the_source_is_out_of_reach_while_it_is() {
    let mut authority = current();
    authority.unreachable("connection refused".to_owned());
    let reason = "out of reach (connection refused); last confirmed 2.0 s ago";
    check(&authority, 2.0, AuthorityName::Agreed, reason);
    authority.listed(listing(20, (1, 5), BOTH), at(2.0), at(2.1));
    check(&authority, 3.6, AuthorityName::Agreed, "out of reach; last");
}

#[test]
fn a_confirmation_counts_for_its_lease_from_when_it_was_sent() {
    let mut authority = current();
    check(&authority, 1.499, AuthorityName::Current, "confirmed");
    check(&authority, 1.5, AuthorityName::Agreed, "out of reach");
    let outline = authority.listing().unwrap().outline();
    assert!(authority.confirmed(&outline, at(1.0), at(1.0)));
    check(&authority, 2.4, AuthorityName::Current, "confirmed");
    assert!(
        authority.confirmed(&outline, at(0.5), at(0.5)),
        "a late answer takes nothing back"
    );
    check(&authority, 2.4, AuthorityName::Current, "confirmed");
    for other in [
        Outline {
            index: 19,
            ..outline.clone()
        },
        Outline {
            index: 21,
            ..outline.clone()
        },
        Outline {
            names: BTreeSet::new(),
            ..outline
        },
    ] {
        assert!(!authority.confirmed(&other, at(2.4), at(2.4)), "{other:?}");
    }
    check(&authority, 2.5, AuthorityName::Agreed, "out of reach");
}

#[test]
fn contents_are_compared_and_the_index_alone_is_no_change() {
    let mut authority = current();
    let same = listing(25, (1, 5), BOTH);
    assert_eq!(
        authority.listed(same, at(1.0), at(1.1)),
        Judgement::Accepted { changed: false }
    );
    let other = listing(25, (1, 6), &[("canary-state", 25), ("group-states/ci", 20)]);
    assert_eq!(
        authority.listed(other, at(2.0), at(2.1)),
        Judgement::Accepted { changed: true }
    );
}

#[test]
fn a_lower_index_with_the_same_contents_is_tombstone_collection() {
    let mut authority = current();
    let collected = listing(13, (1, 5), BOTH);
    let judgement = examine(&mut authority, collected, 1.0, &findings(50));
    assert_eq!(judgement, Judgement::Accepted { changed: false });
    assert_eq!(
        authority.listing().unwrap().index,
        13,
        "light reads compare with the new index"
    );
}

#[test]
fn a_deleted_key_is_gone_after_it_was_asked_for() {
    let mut authority = current();
    let fewer = listing(30, (1, 6), &BOTH[..1]);
    let judgement = authority.listed(fewer.clone(), at(1.0), at(1.1));
    let paths = vec!["group-states/ci".to_owned()];
    let questions = Questions {
        paths: paths.clone(),
    };
    assert_eq!(judgement, Judgement::Examine(questions));
    // Not asked: a peer told of that key meanwhile.
    let judgement = authority.examined(fewer.clone(), at(1.0), &findings(30), at(1.2));
    assert_eq!(judgement, Judgement::Refused);
    let found = Findings {
        asked: paths,
        ..findings(30)
    };
    let judgement = authority.examined(fewer, at(1.0), &found, at(1.2));
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    check(&authority, 1.2, AuthorityName::Current, "confirmed");
}

#[test]
fn lost_rights_hold_until_they_are_back() {
    let mut authority = current();
    let found = Findings {
        denied: Some(refusal("group-states/ci")),
        ..findings(30)
    };
    let fewer = listing(30, (1, 6), &BOTH[..1]);
    assert_eq!(
        examine(&mut authority, fewer.clone(), 1.0, &found),
        Judgement::Refused
    );
    check(
        &authority,
        1.6,
        AuthorityName::Held,
        "rights are missing: group-states/ci is not listed",
    );
    let outline = authority.listing().unwrap().outline();
    assert!(
        !authority.confirmed(&outline, at(1.6), at(1.6)),
        "a light read does not end it"
    );
    // A higher epoch does not end it either.
    let blessed = listing(40, (9, 1), &BOTH[..1]);
    assert_eq!(
        examine(&mut authority, blessed, 1.7, &found),
        Judgement::Refused
    );
    let back = authority.listed(listing(30, (1, 6), BOTH), at(2.0), at(2.1));
    assert!(matches!(back, Judgement::Accepted { .. }), "{back:?}");
    check(&authority, 2.1, AuthorityName::Current, "confirmed");
}

#[test]
fn a_refusal_holds_and_lapses_when_the_source_is_gone() {
    let mut authority = current();
    authority.denied("ACL not found".to_owned(), at(1.0));
    check(
        &authority,
        1.1,
        AuthorityName::Held,
        "the source refuses: ACL not found",
    );
    check(&authority, 2.6, AuthorityName::Agreed, "out of reach");
}

#[test]
fn an_empty_or_sentinel_less_listing_holds() {
    for (reading, reason) in [
        (bare(30, &[]), "no key under the prefix"),
        (bare(30, BOTH), "_meta is missing"),
        (bare(20, &[]), "no key under the prefix"),
    ] {
        let mut authority = current();
        assert_eq!(
            examine(&mut authority, reading, 1.0, &findings(30)),
            Judgement::Refused
        );
        check(&authority, 1.6, AuthorityName::Held, reason);
    }
}

#[test]
fn keys_gone_without_a_newer_index_hold() {
    let mut authority = current();
    let shrunk = listing(20, (1, 5), &BOTH[..1]);
    assert_eq!(
        examine(&mut authority, shrunk, 1.0, &findings(30)),
        Judgement::Refused
    );
    check(
        &authority,
        1.6,
        AuthorityName::Held,
        "1 keys are gone without a newer index",
    );
}

#[test]
fn a_listing_that_lacks_a_present_key_holds() {
    let mut authority = current();
    let found = Findings {
        present: BTreeMap::from([("group-states/ci".to_owned(), 20)]),
        ..findings(30)
    };
    let partial = listing(30, (1, 6), &BOTH[..1]);
    assert_eq!(
        examine(&mut authority, partial, 1.0, &found),
        Judgement::Refused
    );
    check(
        &authority,
        1.6,
        AuthorityName::Held,
        "lacks group-states/ci",
    );
}

#[test]
fn two_readings_that_went_back_break_the_history_until_a_higher_epoch() {
    let older: &[(&str, u64)] = &[("canary-state", 8), ("group-states/ci", 20)];
    for (reading, table, evidence) in [
        (listing(18, (1, 4), BOTH), 90, "generation 1.4, it was 1.5"),
        (
            listing(30, (1, 5), older),
            90,
            "canary-state is of index 8, it was 10",
        ),
        (
            listing(16, (1, 5), BOTH),
            19,
            "the store's index is 19, it was 20",
        ),
        (bare(1, &[]), 1, "the store's index is 1, it was 20"),
    ] {
        let mut authority = current();
        assert_eq!(
            examine(&mut authority, reading.clone(), 1.0, &findings(table)),
            Judgement::Refused
        );
        check(&authority, 1.2, AuthorityName::Current, "confirmed");
        // Sent before the first was received: no second witness.
        authority.examined(reading.clone(), at(1.05), &findings(table), at(1.2));
        check(&authority, 1.2, AuthorityName::Current, "confirmed");
        authority.examined(reading, at(1.3), &findings(table), at(1.4));
        check(&authority, 1.4, AuthorityName::Held, evidence);
        check(&authority, 900.0, AuthorityName::Held, evidence);
        let same_epoch = listing(95, (1, 50), BOTH);
        authority.listed(same_epoch, at(2.0), at(2.1));
        check(&authority, 2.1, AuthorityName::Held, "epoch above 1");
        let accepted = authority.listed(listing(96, (2, 1), BOTH), at(3.0), at(3.1));
        let accepted = match accepted {
            Judgement::Examine(_) => {
                authority.examined(listing(96, (2, 1), BOTH), at(3.0), &findings(96), at(3.1))
            }
            other @ (Judgement::Accepted { .. } | Judgement::Refused) => other,
        };
        assert!(
            matches!(accepted, Judgement::Accepted { .. }),
            "{accepted:?}"
        );
        check(&authority, 3.1, AuthorityName::Current, "confirmed");
        // The history that was left, however far it goes on.
        for second in [4.0, 4.2] {
            let left = listing(99, (1, 99), BOTH);
            examine(&mut authority, left, second, &findings(99));
        }
        let evidence = "generation 1.99, it was 2.1";
        check(&authority, 4.4, AuthorityName::Held, evidence);
    }
}

#[test]
fn one_late_reading_is_forgiven() {
    let mut authority = current();
    examine(
        &mut authority,
        listing(18, (1, 4), BOTH),
        1.0,
        &findings(90),
    );
    let good = authority.listed(listing(20, (1, 5), BOTH), at(1.2), at(1.3));
    assert_eq!(good, Judgement::Accepted { changed: false });
    examine(
        &mut authority,
        listing(18, (1, 4), BOTH),
        1.4,
        &findings(90),
    );
    check(&authority, 1.6, AuthorityName::Current, "confirmed");
}

#[test]
fn many_vanished_keys_are_asked_for_by_parent() {
    let paths: Vec<String> = (0..200)
        .map(|i| format!("server-overrides/backend-{}/s{i}", i % 10))
        .collect();
    let few: Vec<&str> = paths.iter().take(64).map(String::as_str).collect();
    assert_eq!(to_ask(&few).len(), 64);
    let many: Vec<&str> = paths.iter().map(String::as_str).collect();
    let asked = to_ask(&many);
    assert_eq!(asked.len(), 10 + VANISHED_ASKED_MAX);
    let parents: BTreeSet<_> = asked[..10]
        .iter()
        .map(|p| p.rsplit_once('/').unwrap().0)
        .collect();
    assert_eq!(parents.len(), 10);
}

#[test]
fn a_restart_knows_what_was_known_once_the_source_had_its_chance() {
    let before = current();
    let memory = before.memory(jiff::Timestamp::UNIX_EPOCH).unwrap();
    let again = || Authority::new(Times::from_poll_interval(P), []).remembering(memory.clone());
    let mut authority = again();
    check(&authority, 0.0, AuthorityName::Starting, "asked first");
    authority.unreachable("refused".to_owned());
    check(
        &authority,
        0.1,
        AuthorityName::Agreed,
        "(refused); the listing is from before the start",
    );
    let judgement = authority.listed(listing(20, (1, 5), BOTH), at(0.2), at(0.3));
    assert_eq!(judgement, Judgement::Accepted { changed: false });
    check(&authority, 0.3, AuthorityName::Current, "confirmed");
    // A restore that nobody saw: what was known before the restart shows it.
    let mut authority = again();
    let older = listing(18, (1, 4), BOTH);
    examine(&mut authority, older.clone(), 0.0, &findings(90));
    check(&authority, 0.1, AuthorityName::Starting, "asked first");
    examine(&mut authority, older, 0.2, &findings(90));
    check(
        &authority,
        0.3,
        AuthorityName::Held,
        "generation 1.4, it was 1.5",
    );
    // And a broken history stays broken over the next one.
    let memory = authority.memory(jiff::Timestamp::UNIX_EPOCH).unwrap();
    let authority = Authority::new(Times::from_poll_interval(P), []).remembering(memory);
    check(
        &authority,
        0.0,
        AuthorityName::Held,
        "generation 1.4, it was 1.5",
    );
}

#[test]
fn no_key_forges_a_line_of_the_log() {
    let forged = Distrust::Partial {
        path: "x\n2026 INFO all is well".to_owned(),
    };
    assert_eq!(forged.to_string().lines().count(), 1);
}
