use std::time::Duration;

use super::*;
use crate::domain::authority::{
    Answers, CountedAs, Findings, Judgement, Questions, Refusal, Times,
};
use crate::domain::evidence::Evidence;
use crate::domain::key::Prefix;
use crate::domain::word::Identity;

const P: Duration = Duration::from_secs(2);

pub(in crate::domain::authority) fn at(seconds: f64) -> Moment {
    Moment(Duration::from_secs_f64(100.0 + seconds))
}

fn slot(name: &str) -> Name {
    Name::parse(name).unwrap()
}

/// A listing of this generation and index, with these keys.
pub(in crate::domain::authority) fn listing(r#gen: u64, index: u64, keys: &[&str]) -> Arc<Listing> {
    let meta = Generation { epoch: 1, r#gen }.to_json(jiff::Timestamp::UNIX_EPOCH, "test", None);
    let entries: Vec<_> = keys.iter().map(|key| (*key, "drain")).collect();
    let entries = [&entries[..], &[("_meta", meta.as_str())]].concat();
    Arc::new(Listing::of(index, &entries))
}

pub(in crate::domain::authority) fn authority() -> Authority {
    Authority::new(Times::from_poll_interval(P), [slot("b"), slot("c")])
}

/// One that knows this listing from before a restart, and whose source is gone.
pub(in crate::domain::authority) fn knowing(known: &Arc<Listing>) -> Authority {
    let mut authority = authority().remembering(memory(known));
    authority.unreachable("refused".to_owned());
    authority
}

/// One whose source confirms this listing, and whose peers are dead.
pub(in crate::domain::authority) fn confirmed_alone(known: &Arc<Listing>) -> Authority {
    let mut authority = knowing(known);
    for slot in ["b", "c"] {
        hear_of(&mut authority, slot, -0.1, Heard::Refused);
    }
    let judgement = authority.listed(Arc::clone(known), at(0.0), at(0.1));
    assert_eq!(judgement, Judgement::Accepted { changed: false });
    authority
}

pub(in crate::domain::authority) fn memory(listing: &Arc<Listing>) -> Memory {
    let generation = Generation::read(listing).unwrap();
    Memory {
        listing: Some(Arc::clone(listing)),
        evidence: Evidence::of(listing, generation),
        broken: None,
        at: jiff::Timestamp::UNIX_EPOCH,
    }
}

pub(in crate::domain::authority) fn word(
    name: &str,
    authority: AuthorityName,
    memory: Option<Memory>,
) -> Word {
    Word {
        identity: Identity {
            prefix: Prefix::new("frontend", "gprd").unwrap(),
            schema: 1,
            slot: slot(name),
            digest: 0,
            version: "1".to_owned(),
        },
        authority,
        stopping: false,
        age: Some(Duration::from_millis(300)),
        now: jiff::Timestamp::UNIX_EPOCH,
        edition: memory.as_ref().map(|memory| {
            memory.evidence.table_index + memory.broken.as_ref().map_or(0, |broken| broken.0)
        }),
        memory,
    }
}

pub(in crate::domain::authority) fn findings(table_index: u64) -> Findings {
    Findings {
        asked: Vec::new(),
        table_index,
        denied: None,
        present: std::collections::BTreeMap::new(),
    }
}

/// A word that was asked for at this second and came a twentieth later.
pub(in crate::domain::authority) fn hear(to: &mut Authority, second: f64, word: Word) {
    let name = word.identity.slot.clone();
    let heard = Heard::Word(Box::new(word));
    to.heard(&name, at(second), at(second + 0.05), heard);
}

fn hear_of(to: &mut Authority, name: &str, second: f64, heard: Heard) {
    to.heard(&slot(name), at(second), at(second + 0.05), heard);
}

pub(in crate::domain::authority) fn check(
    authority: &Authority,
    second: f64,
    name: AuthorityName,
    reason: &str,
) {
    let verdict = authority.standing().verdict(at(second));
    assert_eq!(verdict.name, name, "at {second}: {}", verdict.reason);
    let holds = verdict.reason.contains(reason);
    assert!(holds, "at {second}: {}", verdict.reason);
}

#[test]
fn all_peers_must_be_accounted_for_before_a_replica_agrees() {
    let known = listing(5, 20, &["a"]);
    for (b, c, name, reason) in [
        (
            None,
            None,
            AuthorityName::CutOff,
            "b is out of sight; c is out of sight",
        ),
        (
            Some(Heard::Refused),
            None,
            AuthorityName::CutOff,
            "know better: c is out of sight",
        ),
        (
            Some(Heard::Refused),
            Some(Heard::Refused),
            AuthorityName::Agreed,
            "for every replica",
        ),
        (
            Some(Heard::Refused),
            Some(Heard::Silent("timed out".to_owned())),
            AuthorityName::CutOff,
            "c is out of sight (timed out)",
        ),
        (
            Some(Heard::Refused),
            Some(Heard::Stranger("it serves gstg".to_owned())),
            AuthorityName::CutOff,
            "c is no peer (it serves gstg)",
        ),
    ] {
        let mut authority = knowing(&known);
        for (slot, heard) in [("b", b), ("c", c)] {
            if let Some(heard) = heard {
                hear_of(&mut authority, slot, 0.0, heard);
            }
        }
        check(&authority, 0.1, name, reason);
        // A refusal is too old in the end as well.
        check(&authority, 0.6, AuthorityName::CutOff, "out of sight");
    }
}

#[test]
fn a_peer_that_may_know_better_keeps_a_replica_from_agreeing() {
    let known = listing(5, 20, &["a"]);
    for (said, name) in [
        (AuthorityName::Current, AuthorityName::CutOff),
        (AuthorityName::Relayed, AuthorityName::CutOff),
        (AuthorityName::Held, AuthorityName::CutOff),
        (AuthorityName::Agreed, AuthorityName::Agreed),
        (AuthorityName::CutOff, AuthorityName::Agreed),
        (AuthorityName::Starting, AuthorityName::Agreed),
    ] {
        let mut authority = knowing(&known);
        hear_of(&mut authority, "c", 0.0, Heard::Refused);
        hear(&mut authority, 0.0, word("b", said, None));
        check(&authority, 0.1, name, "");
    }
}

#[test]
fn a_confirmation_through_a_peer_carries_its_age() {
    let known = listing(5, 20, &["a"]);
    let mut authority = knowing(&known);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Current, Some(memory(&known))),
    );
    check(
        &authority,
        0.1,
        AuthorityName::Relayed,
        "through a peer 0.4 s ago",
    );
    // Asked at 0, 0.3 s old then: over at 1.2.
    check(&authority, 1.19, AuthorityName::Relayed, "");
    check(&authority, 1.2, AuthorityName::CutOff, "");
    let old = Word {
        age: Some(Duration::from_secs(2)),
        ..word("b", AuthorityName::Current, Some(memory(&known)))
    };
    let mut authority = knowing(&known);
    hear(&mut authority, 0.0, old);
    check(&authority, 0.1, AuthorityName::CutOff, "b is current");
}

#[test]
fn a_memory_is_told_once_and_its_edition_after_that() {
    let known = listing(5, 20, &["a"]);
    let mut authority = knowing(&known);
    let full = word("b", AuthorityName::Current, Some(memory(&known)));
    let brief = Word {
        memory: None,
        ..full.clone()
    };
    hear(&mut authority, 0.0, brief.clone());
    check(&authority, 0.1, AuthorityName::CutOff, "kept back a memory");
    hear(&mut authority, 0.2, full);
    let views = authority.standing();
    assert_eq!(views.peers()[0].edition, brief.edition);
    hear(&mut authority, 1.0, brief);
    check(&authority, 2.0, AuthorityName::Relayed, "");
}

#[test]
fn a_listing_ahead_is_taken_and_one_behind_is_not() {
    let (old, new) = (listing(5, 20, &["a"]), listing(6, 30, &["a", "b"]));
    let mut authority = knowing(&old);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Current, Some(memory(&new))),
    );
    assert_eq!(authority.listing(), Some(&new));
    check(&authority, 0.1, AuthorityName::Relayed, "");
    let mut authority = knowing(&new);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Current, Some(memory(&old))),
    );
    assert_eq!(authority.listing(), Some(&new));
    check(&authority, 0.1, AuthorityName::CutOff, "b is current");
    // Without anybody who sees the source, it is adopted, and confirms nothing.
    let mut authority = knowing(&old);
    hear_of(&mut authority, "c", 0.0, Heard::Refused);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Agreed, Some(memory(&new))),
    );
    assert_eq!(authority.listing(), Some(&new));
    check(&authority, 0.1, AuthorityName::Agreed, "");
    for said in [AuthorityName::Held, AuthorityName::Starting] {
        let mut authority = knowing(&old);
        hear(&mut authority, 0.0, word("b", said, Some(memory(&new))));
        assert_eq!(authority.listing(), Some(&old), "{said:?}");
    }
}

#[test]
fn a_broken_history_is_taken_over_and_stays() {
    let known = listing(5, 20, &["a"]);
    let broken = Memory {
        broken: Some((1, "generation 1.4, it was 1.5".to_owned())),
        ..memory(&known)
    };
    let mut authority = knowing(&known);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Held, Some(broken)),
    );
    check(&authority, 0.1, AuthorityName::Held, "it was 1.5");
    let told = authority.memory(jiff::Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(told.broken.map(|broken| broken.0), Some(1));
    let judgement = authority.listed(Arc::clone(&known), at(1.0), at(1.1));
    assert_eq!(judgement, Judgement::Refused);
    check(&authority, 900.0, AuthorityName::Held, "epoch above 1");
}

#[test]
fn without_memory_the_peers_are_asked_first() {
    let (old, new) = (listing(5, 20, &["a"]), listing(6, 30, &["a"]));
    let mut newborn = authority();
    assert_eq!(
        newborn.listed(Arc::clone(&old), at(0.0), at(0.1)),
        Judgement::Refused
    );
    check(
        &newborn,
        0.1,
        AuthorityName::Starting,
        "b is out of sight; c is out of sight. Nothing is known here",
    );
    // One peer with memory is enough: what it tells is what a reading is compared with.
    hear(
        &mut newborn,
        0.2,
        word("b", AuthorityName::CutOff, Some(memory(&new))),
    );
    let judgement = newborn.listed(Arc::clone(&old), at(0.3), at(0.4));
    assert!(matches!(judgement, Judgement::Examine(_)), "{judgement:?}");
    // Or all have answered or refused, and none knows anything.
    let mut newborn = authority();
    hear(&mut newborn, 0.0, word("b", AuthorityName::Starting, None));
    let judgement = newborn.listed(Arc::clone(&old), at(0.1), at(0.2));
    assert_eq!(judgement, Judgement::Refused);
    hear_of(&mut newborn, "c", 0.2, Heard::Refused);
    let judgement = newborn.listed(old, at(0.3), at(0.4));
    assert_eq!(judgement, Judgement::Accepted { changed: true });
}

#[test]
fn a_peer_with_more_keys_at_the_same_index_shows_that_rights_are_missing() {
    let (part, whole) = (listing(5, 20, &["a"]), listing(5, 20, &["a", "b"]));
    let mut authority = confirmed_alone(&part);
    hear(
        &mut authority,
        0.2,
        word("b", AuthorityName::Current, Some(memory(&whole))),
    );
    assert_eq!(authority.listing(), Some(&whole));
    check(&authority, 0.3, AuthorityName::Relayed, "");
    // The own source lists less still: it is asked for that key by name.
    let judgement = authority.listed(Arc::clone(&part), at(0.3), at(0.4));
    let Judgement::Examine(Questions { paths: asked }) = judgement else {
        panic!("{judgement:?}");
    };
    let (path, text) = ("b".to_owned(), "no right".to_owned());
    let findings = Findings {
        asked,
        denied: Some(Refusal { path, text }),
        ..findings(30)
    };
    authority.examined(part, at(0.3), &findings, at(0.5));
    check(
        &authority,
        1.6,
        AuthorityName::Held,
        "b is not listed and may not be read",
    );
}

#[test]
fn after_agreeing_the_old_listing_is_answered_until_no_peer_can_agree_on_it() {
    let (old, new) = (listing(5, 20, &["a"]), listing(6, 30, &["a", "b"]));
    let mut authority = knowing(&old);
    for slot in ["b", "c"] {
        hear_of(&mut authority, slot, 0.0, Heard::Refused);
    }
    check(&authority, 0.1, AuthorityName::Agreed, "");
    let judgement = authority.listed(Arc::clone(&new), at(0.1), at(0.2));
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    let answers = |authority: &Authority, second| authority.standing().answers(at(second));
    assert_eq!(answers(&authority, 0.3), Answers::WhatWasAgreed);
    // The words are too old: who knows what the others answer.
    assert_eq!(answers(&authority, 0.7), Answers::Nothing);
    assert_eq!(answers(&authority, 0.8), Answers::TheListing);
    check(&authority, 0.8, AuthorityName::Current, "");
}

#[test]
fn break_glass_takes_a_silent_peer_for_dead_until_it_is_heard() {
    let known = listing(5, 20, &["a"]);
    let mut authority = knowing(&known);
    hear_of(&mut authority, "c", 0.0, Heard::Refused);
    authority.assume_gone(&[slot("b")]);
    check(&authority, 0.1, AuthorityName::Agreed, "");
    let problems = authority.standing().problems("1").join("\n");
    assert!(problems.contains("assume_gone: peer b"), "{problems}");
    hear(&mut authority, 0.2, word("b", AuthorityName::CutOff, None));
    let standing = authority.standing();
    assert!(standing.problems("1").is_empty());
    let views = standing.peers();
    let counted: Vec<_> = views
        .iter()
        .map(|peer| standing.counted_as(peer, at(0.3)))
        .collect();
    assert_eq!(
        counted,
        [CountedAs::Heard(AuthorityName::CutOff), CountedAs::Dead]
    );
    check(&authority, 0.9, AuthorityName::CutOff, "b is out of sight");
}

#[test]
fn a_wrong_clock_silences_and_is_named() {
    let known = listing(5, 20, &["a"]);
    let mut authority = confirmed_alone(&known);
    for (slot_name, offset) in [("b", -7_000), ("c", -7_100)] {
        authority.clock_of_peer(&slot(slot_name), at(0.1), Offset(offset));
    }
    check(
        &authority,
        0.2,
        AuthorityName::CutOff,
        "all others are -7.0 s from it. Set it right, and start this replica again",
    );
    // What is known of the listing is as good as before, for others.
    let standing = authority.standing();
    assert_eq!(standing.name_for_peers(at(0.2)), AuthorityName::Current);
    for slot_name in ["b", "c"] {
        authority.clock_of_peer(&slot(slot_name), at(0.3), Offset(2_000));
    }
    check(&authority, 0.4, AuthorityName::Current, "");
    let problems = authority.standing().problems("1").join("\n");
    assert!(
        problems.contains("the clock of peer b is +2.0 s from ours"),
        "{problems}"
    );
}

#[test]
fn two_clauses_left_out_give_two_truths() {
    let (old, new) = (listing(5, 20, &["a"]), listing(6, 30, &["a", "b"]));
    let mut beside_held = knowing(&old).without(Clause::HeldCounts);
    hear_of(&mut beside_held, "c", 0.0, Heard::Refused);
    hear(&mut beside_held, 0.0, word("b", AuthorityName::Held, None));
    check(&beside_held, 0.1, AuthorityName::Agreed, "");
    let mut at_once = knowing(&old).without(Clause::Defer);
    for slot in ["b", "c"] {
        hear_of(&mut at_once, slot, 0.0, Heard::Refused);
    }
    at_once.listed(new, at(0.1), at(0.2));
    assert_eq!(at_once.standing().answers(at(0.3)), Answers::TheListing);
}
