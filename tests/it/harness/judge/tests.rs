//! A judge that lets wrong histories pass would prove nothing: here is one of each kind.

use super::super::history::Write;
use super::*;

const KEY: &str = "canary-state";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// drain (10) at 1 s, 40% (20) at 2 s, maint (30) at 3 s; each is acknowledged 5 ms later.
fn history() -> History {
    let mut history = History::default();
    for (index, word, sent) in [(10, "drain", 1000), (20, "40%", 2000), (30, "maint", 3000)] {
        history.add(Write {
            key: KEY.to_owned(),
            word: word.to_owned(),
            index,
            sent: ms(sent),
            acked: ms(sent + 5),
        });
    }
    history
}

fn bounds() -> Bounds {
    Bounds {
        staleness: ms(375),
        poll_interval: ms(500),
        agreed: Vec::new(),
    }
}

/// Looks of 100 ms apart: (when, state, index), no index: lost.
fn slot(looks: &[(u64, &str, Option<u64>)]) -> Slot {
    let look = |&(at, state, index): &(u64, &str, Option<u64>)| Seen {
        after: ms(at - 100),
        at: ms(at),
        state: state.to_owned(),
        last_poll: match index {
            Some(index) => LastPoll::Answered {
                index,
                replica: "a".to_owned(),
            },
            None => LastPoll::Lost("L4CON".to_owned()),
        },
    };
    Slot {
        name: "lb-1 web/s01".to_owned(),
        keys: vec![KEY.to_owned()],
        seen: looks.iter().map(look).collect(),
        end: ms(9000),
    }
}

/// Polls that take 10 ms: (when heard, word, index); no word: silence.
fn replica(name: &str, polls: &[(u64, &str, u64)]) -> Replica {
    let poll = |&(heard, word, index): &(u64, &str, u64)| Poll {
        sent: ms(heard - 10),
        heard: ms(heard),
        reply: match word {
            "" => Reply::Silence,
            word => Reply::Answer {
                index,
                word: word.to_owned(),
            },
        },
    };
    Replica {
        name: name.to_owned(),
        keys: vec![KEY.to_owned()],
        polls: polls.iter().map(poll).collect(),
    }
}

fn of_slot(looks: &[(u64, &str, Option<u64>)]) -> Findings {
    judge(&history(), &bounds(), &[slot(looks)], &[])
}

fn of_replica(polls: &[(u64, &str, u64)]) -> Findings {
    judge(&history(), &bounds(), &[], &[replica("a", polls)])
}

fn counts(findings: &Findings) -> (usize, usize, usize) {
    (findings.lost, findings.wrong.len(), findings.flaps.len())
}

#[test]
fn a_server_that_follows_the_keys_is_right() {
    let story = [
        (1300, "drain", Some(10)),
        (2400, "40%", Some(20)),
        (3100, "maint", Some(30)),
    ];
    assert_eq!(counts(&of_slot(&story)), (0, 0, 0));
    // Before anything was written, and between an acknowledgement and the bound.
    assert_eq!(
        counts(&of_slot(&[(500, "100%", Some(9)), (1380, "100%", Some(9))])),
        (0, 0, 0)
    );
    assert_eq!(
        counts(&of_replica(&[(1380, "100%", 9), (1500, "drain", 10)])),
        (0, 0, 0)
    );
}

#[test]
fn a_server_that_goes_from_new_to_old_flaps() {
    let story = [
        (2100, "40%", Some(20)),
        (2300, "drain", Some(10)),
        (2500, "40%", Some(20)),
    ];
    assert_eq!(counts(&of_slot(&story)), (0, 0, 1));
    // Lost polls and a new process between them hide nothing.
    let mut slot = slot(&[
        (2100, "40%", Some(20)),
        (2200, "40%", None),
        (2300, "drain", Some(10)),
    ]);
    slot.seen.insert(
        2,
        Seen {
            last_poll: LastPoll::None,
            ..slot.seen[1].clone()
        },
    );
    let findings = judge(&history(), &bounds(), &[slot], &[]);
    assert_eq!(findings.flaps.len(), 1, "{findings:?}");
    assert_eq!(
        counts(&of_replica(&[(2100, "40%", 20), (2150, "drain", 10)])),
        (0, 0, 1)
    );
}

#[test]
fn an_answer_that_its_listing_does_not_hold_is_wrong() {
    assert_eq!(counts(&of_slot(&[(2100, "maint", Some(20))])), (0, 1, 0));
    assert_eq!(counts(&of_replica(&[(2100, "100%", 20)])), (0, 1, 0));
}

#[test]
fn an_answer_that_is_older_than_the_bound_is_wrong_unless_it_was_agreed_upon() {
    // Acknowledged at 2005, and asked more than 375 ms later.
    assert_eq!(counts(&of_replica(&[(2380, "drain", 10)])), (0, 0, 0));
    assert_eq!(counts(&of_replica(&[(2400, "drain", 10)])), (0, 1, 0));
    // A look sees it up to 100 ms of looking and 100 ms of HAProxy later.
    assert_eq!(counts(&of_slot(&[(2570, "drain", Some(10))])), (0, 0, 0));
    assert_eq!(counts(&of_slot(&[(2590, "drain", Some(10))])), (0, 1, 0));

    let agreed = Bounds {
        agreed: vec![(ms(2300), ms(2600))],
        ..bounds()
    };
    let of = |heard| {
        judge(
            &history(),
            &agreed,
            &[],
            &[replica("a", &[(heard, "drain", 10)])],
        )
    };
    assert_eq!(counts(&of(2400)), (0, 0, 0));
    assert_eq!(counts(&of(2700)), (0, 1, 0), "only while it was");
}

#[test]
fn a_server_that_changes_without_an_answer_is_wrong() {
    assert_eq!(
        counts(&of_slot(&[(2100, "40%", Some(20)), (2300, "40%", None)])).1,
        0
    );
    assert_eq!(
        counts(&of_slot(&[(2100, "40%", Some(20)), (2300, "100%", None)])).1,
        1
    );
}

#[test]
fn what_is_no_answer_is_wrong() {
    let mut slot = slot(&[(2100, "40%", Some(20))]);
    slot.seen[0].last_poll = LastPoll::Unreadable("unknown-group".to_owned());
    let mut replica = replica("a", &[(2100, "", 0)]);
    replica.polls[0].reply = Reply::Unreadable("unknown-group".to_owned());
    let findings = judge(&history(), &bounds(), &[slot], &[replica]);
    assert_eq!(findings.wrong.len(), 2, "{findings:?}");
}

#[test]
fn lost_polls_are_counted_by_the_time_without_an_answer() {
    let story = [
        (1300, "drain", Some(10)),
        (1800, "drain", None),
        (1900, "drain", Some(10)),
    ];
    let findings = of_slot(&story);
    assert_eq!((findings.lost, findings.silence), (1, ms(100)));
    let story = [
        (2100, "40%", Some(20)),
        (2200, "40%", None),
        (3200, "maint", Some(30)),
    ];
    let findings = of_slot(&story);
    assert_eq!((findings.lost, findings.silence), (2, ms(1000)));
    // Not answered until the end.
    let findings = of_slot(&[(2100, "40%", Some(20)), (7000, "40%", None)]);
    assert_eq!((findings.lost, findings.silence), (4, ms(2000)));
}

#[test]
fn replicas_differ_as_long_as_both_answer_from_different_listings() {
    let one = replica(
        "a",
        &[(2050, "40%", 20), (2100, "40%", 20), (2200, "40%", 20)],
    );
    let other = replica(
        "b",
        &[(2060, "drain", 10), (2110, "drain", 10), (2210, "40%", 20)],
    );
    let findings = judge(&history(), &bounds(), &[], &[one.clone(), other]);
    assert_eq!(findings.difference, ms(150));
    let silent = replica("b", &[(2060, "drain", 10), (2080, "", 0), (2110, "", 0)]);
    let findings = judge(&history(), &bounds(), &[], &[one, silent]);
    assert_eq!(findings.difference, ms(20));
}

#[test]
fn a_new_era_is_newer_than_everything_before_it_however_low_its_indices() {
    let mut history = history();
    history.begin_era(ms(5000), 0);
    history.add(Write {
        key: KEY.to_owned(),
        word: "drain".to_owned(),
        index: 5,
        sent: ms(5000),
        acked: ms(5010),
    });
    let story = [(3300, "maint", Some(30)), (5200, "drain", Some(5))];
    let findings = judge(&history, &bounds(), &[slot(&story)], &[]);
    assert_eq!(counts(&findings), (0, 0, 0));
    let late = [(5200, "drain", Some(5)), (5600, "maint", Some(4))];
    let findings = judge(&history, &bounds(), &[slot(&late)], &[]);
    assert_eq!(counts(&findings), (0, 2, 1), "{findings:?}");
}
