//! What a peer that answers is told and believed.

use tidegate::domain::authority::{AuthorityName, Heard};
use tidegate::domain::key::Prefix;
use tidegate::domain::word::{Identity, Word};
use tidegate::peers::Ask as _;

use super::{LIMIT, Replica, TOKEN, ask, asking, expect_silence, identity, memory, name, parse};

#[tokio::test]
async fn a_word_is_told_with_its_memory_once_for_each_edition() {
    let replica = Replica::start(identity("b"), Some(memory(3)), 1_000).await;
    let first = word(ask(replica.address, LIMIT).await);
    assert_eq!(first.identity, identity("b"));
    assert_eq!(first.authority, AuthorityName::Starting);
    assert!(!first.stopping);
    let listing = memory(3).listing.expect("it has one");
    let told = first.memory.expect("it was not known").listing;
    assert!(told.expect("a listing").same_contents(&listing));

    let asking = asking(None, LIMIT);
    let known = word(asking.ask(&replica.as_peer(), first.edition).await);
    assert_eq!((known.memory, known.edition), (None, first.edition));
    let other = first.edition.map(|edition| edition + 1);
    let again = word(asking.ask(&replica.as_peer(), other).await);
    assert!(again.memory.is_some());
}

#[tokio::test]
async fn who_knows_nothing_and_stops_says_so() {
    let replica = Replica::start(identity("b"), None, 0).await;
    replica.stopping.cancel();
    let word = word(ask(replica.address, LIMIT).await);
    assert_eq!((word.edition, word.memory), (None, None));
    assert!(word.stopping);
}

#[tokio::test]
async fn a_memory_of_ten_thousand_keys_comes_whole() {
    let replica = Replica::start(identity("b"), Some(memory(10_000)), 0).await;
    let word = word(ask(replica.address, LIMIT).await);
    let listing = word.memory.expect("untold").listing.expect("a listing");
    assert_eq!(listing.entries.len(), 10_001);
}

#[tokio::test]
async fn who_is_of_another_kind_is_no_peer() {
    for (other, text) in [
        (
            Identity {
                prefix: Prefix::new("frontend", "gstg").expect("a prefix"),
                ..identity("b")
            },
            "it serves frontend/gstg/, not frontend/gprd/",
        ),
        (identity("c"), "it is slot c, not b"),
        (
            Identity {
                digest: 8,
                ..identity("b")
            },
            "poll_interval",
        ),
    ] {
        let replica = Replica::start(other, None, 0).await;
        let heard = ask(replica.address, LIMIT).await;
        let Heard::Stranger(why) = &heard else {
            panic!("{text}: {heard:?}");
        };
        assert!(why.contains(text), "{why}");
    }
}

#[tokio::test]
async fn only_the_token_of_the_peers_opens_and_it_can_be_replaced() {
    let replica = Replica::start(identity("b"), None, 0).await;
    replica.token.store(Some(parse(TOKEN).into()));
    let asking = asking(None, LIMIT);
    for token in [None, Some("0123456789abcdef-of-others")] {
        asking.set_token(token.map(parse));
        let heard = asking.ask(&replica.as_peer(), None).await;
        expect_silence(&heard, "give all replicas the same");
        expect_silence(&heard, "401");
    }
    asking.set_token(Some(parse(TOKEN)));
    let word = word(asking.ask(&replica.as_peer(), None).await);
    assert_eq!(word.identity.slot, name("b"));
    // It is read anew there, and not yet here.
    replica
        .token
        .store(Some(parse("another-token-of-the-peers").into()));
    expect_silence(&asking.ask(&replica.as_peer(), None).await, "401");
}

fn word(heard: Heard) -> Word {
    let Heard::Word(word) = heard else {
        panic!("no word: {heard:?}");
    };
    *word
}
