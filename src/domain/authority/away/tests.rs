use std::sync::Arc;

use super::super::peers::tests::{
    at, authority, check, confirmed_alone, findings, hear, knowing, listing, memory, word,
};
use crate::domain::authority::{Authority, AuthorityName, Judgement};
use crate::domain::memory::Memory;

#[test]
fn after_a_start_with_memory_the_peers_are_asked_before_the_source_is_believed() {
    let known = listing(5, 20, &["a"]);
    // Restored and written to: nothing in it is lower than what this replica remembers.
    let restored = listing(6, 30, &["a"]);
    let read = |authority: &mut Authority, second| {
        authority.listed(Arc::clone(&restored), at(second - 0.05), at(second))
    };
    let accepted = Judgement::Accepted { changed: true };
    let mut authority = knowing(&known);
    assert_eq!(read(&mut authority, 0.0), Judgement::Refused);
    check(&authority, 0.0, AuthorityName::CutOff, "asked first");
    // A word's time and a question's: nobody tells anything.
    assert_eq!(read(&mut authority, 0.84), Judgement::Refused);
    assert_eq!(read(&mut authority, 0.85), accepted);
    // One peer is enough.
    let mut authority = knowing(&known);
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::CutOff, Some(memory(&known))),
    );
    assert_eq!(read(&mut authority, 0.1), accepted);
    // It knows that the history went back.
    let mut authority = knowing(&known);
    let went_back = Memory {
        broken: Some((1, "lower".to_owned())),
        ..memory(&known)
    };
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Held, Some(went_back)),
    );
    assert_eq!(read(&mut authority, 0.9), Judgement::Refused);
    check(&authority, 0.9, AuthorityName::Held, "lower");
}

#[test]
fn after_an_interruption_the_table_wide_index_is_asked_for() {
    let known = listing(5, 20, &["a"]);
    // Restored and written to: only what other prefixes were written to meanwhile is lower.
    let restored = listing(6, 30, &["a"]);
    let mut authority = confirmed_alone(&known);
    authority.examined(Arc::clone(&known), at(0.1), &findings(90), at(0.2));
    // While it watches, a newer listing needs no question.
    let judgement = authority
        .clone()
        .listed(Arc::clone(&restored), at(0.3), at(0.4));
    assert_eq!(judgement, Judgement::Accepted { changed: true });
    authority.unreachable("refused".to_owned());
    let judgement = authority.listed(Arc::clone(&restored), at(0.3), at(0.4));
    assert!(matches!(judgement, Judgement::Examine(_)), "{judgement:?}");
    for second in [0.4, 0.6] {
        let (sent, received) = (at(second), at(second + 0.1));
        let judgement = authority.examined(Arc::clone(&restored), sent, &findings(40), received);
        assert_eq!(judgement, Judgement::Refused);
    }
    check(
        &authority,
        0.8,
        AuthorityName::Held,
        "index is 40, it was 90",
    );
}

#[test]
fn after_a_start_keys_that_a_peer_knows_are_asked_for_by_name() {
    let (part, whole) = (listing(5, 20, &["a"]), listing(5, 20, &["a", "b"]));
    let mut authority = authority();
    hear(
        &mut authority,
        0.0,
        word("b", AuthorityName::Held, Some(memory(&whole))),
    );
    let judgement = authority.listed(Arc::clone(&part), at(0.1), at(0.2));
    let Judgement::Examine(questions) = judgement else {
        panic!("{judgement:?}");
    };
    assert_eq!(questions.paths, ["b"]);
    // Once a reading was believed, a peer that is behind is no reason to ask.
    let mut authority = confirmed_alone(&part);
    hear(
        &mut authority,
        0.2,
        word("b", AuthorityName::Held, Some(memory(&whole))),
    );
    let judgement = authority.listed(part, at(0.3), at(0.4));
    assert_eq!(judgement, Judgement::Accepted { changed: false });
}
