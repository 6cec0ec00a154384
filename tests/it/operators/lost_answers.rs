//! Writes whose answer never comes: each is found out, and applied once.

use super::*;
use crate::harness::between::{Between, Treat};
use crate::harness::consul::Consul;
use crate::harness::tidegate::tidegate;
use crate::harness::wait::{check as check_that, eventually};

fn consul(place: &Place) -> &Consul {
    match place {
        Place::Consul(consul) => consul,
        Place::Folder(_) => unreachable!("these tests are about Consul"),
    }
}

/// What becomes of a command's transactions, and how many it sends.
type Case = (&'static str, fn(usize) -> Treat, usize);

const CASES: [Case; 4] = [
    ("applied, and not sent again", |_| Treat::LoseAnswer, 1),
    (
        "never arrived, and sent again",
        |number| [Treat::Hold, Treat::Pass][number - 1],
        2,
    ),
    (
        "late, so that the repeated one does not count",
        |number| [Treat::Hold, Treat::PassAfterHeld][number - 1],
        2,
    ),
    (
        "after the repeated one, and changes nothing",
        |number| [Treat::Hold, Treat::PassBeforeHeld][number - 1],
        2,
    ),
];

/// Drains the canary on this way, and expects that to be one change.
fn check((what, treat, tries): Case) {
    let place = Place::consul();
    set_up(&place);
    let (generation, records) = (place.generation(), history(&place, &[]).len());
    let between = Between::new(consul(&place).http(), treat);
    let drain = ["canary", "--gprd", "--drain", "--reason", "r"];
    let output = tidegate(&drain, &between.environment());
    expect(&output, 0, &["written to gprd"]);
    assert_eq!(between.transactions(), tries, "{what}: {output:?}");
    assert_eq!(place.generation(), generation + 1, "{what}");
    assert_eq!(place.json("canary-state")["state"], "drain", "{what}");
    let records = history(&place, &[]).len() - records;
    assert_eq!(records, 1, "{what}: one record");
}

#[test]
fn each_is_found_out_and_applied_once() {
    // Side by side: each waits for an answer that does not come.
    std::thread::scope(|scope| {
        for case in CASES {
            scope.spawn(move || check(case));
        }
    });
}

/// Somebody else's change came in between: the late one must not go over it.
#[test]
fn one_that_arrives_after_somebody_elses_write_is_never_applied() {
    let place = Place::consul();
    set_up(&place);
    let between = {
        let url = consul(&place).url();
        Between::new(consul(&place).http(), move |number| {
            if number == 1 {
                return Treat::Hold;
            }
            let environment = [("CONSUL_HTTP_ADDR".to_owned(), url.clone())];
            let maint = ["canary", "--gprd", "--maint", "--now"];
            assert_eq!(tidegate(&maint, &environment).code, Some(0));
            Treat::PassAfterHeld
        })
    };
    let output = tidegate(&["canary", "--gprd", "--drain"], &between.environment());
    let texts = ["somebody else wrote meanwhile, and changed canary-state"];
    expect(&output, 5, &texts);
    assert_eq!(place.json("canary-state")["state"], "maint");
    let drains = history(&place, &["canary-state"]);
    let drains = drains.iter().filter(|record| {
        record["command"]
            .as_str()
            .is_some_and(|c| c.contains("--drain"))
    });
    assert_eq!(drains.count(), 0);
}

/// It counted until then, and its record stands: no conflict.
#[test]
fn one_that_was_applied_and_overtaken_since_is_written() {
    let place = Place::consul();
    set_up(&place);
    let records = history(&place, &[]).len();
    let between = Between::new(consul(&place).http(), |_| Treat::LoseAnswer);
    let drain = ["canary", "--gprd", "--drain"];
    let output = std::thread::scope(|scope| {
        let draining = scope.spawn(|| tidegate(&drain, &between.environment()));
        eventually("the drain is applied", PATIENCE, || {
            let now = history(&place, &[]).len();
            check_that(now > records, || format!("{now} records"))
        });
        place.done(&["canary", "--ready"]);
        draining.join().expect("it does not panic")
    });
    let texts = [
        "written to gprd",
        "note: somebody has changed canary-state since",
    ];
    expect(&output, 0, &texts);
    assert_eq!(place.json("canary-state")["state"], "ready");
    assert_eq!(history(&place, &[]).len(), records + 2);
}
