//! Writes whose answer never comes: each is found out, and applied once.

use super::*;
use crate::harness::between::{Between, Treat};
use crate::harness::consul::Consul;
use crate::harness::tidegate::tidegate;

fn consul(place: &Place) -> &Consul {
    match place {
        Place::Consul(consul) => consul,
        Place::Folder(_) => unreachable!("these tests are about Consul"),
    }
}

/// Drains the canary on this way, and expects that to be one change, after so many tries.
fn check(treat: fn(usize) -> Treat, tries: usize) {
    let place = Place::consul();
    set_up(&place);
    let (generation, records) = (place.generation(), history(&place, &[]).len());
    let between = Between::new(consul(&place).http(), treat);
    let drain = ["canary", "--gprd", "--drain", "--reason", "r"];
    let output = tidegate(&drain, &between.environment());
    expect(&output, 0, &["written to gprd"]);
    assert_eq!(between.transactions(), tries, "{output:?}");
    assert_eq!(place.generation(), generation + 1);
    assert_eq!(place.json("canary-state")["state"], "drain");
    let records = history(&place, &[]).len() - records;
    assert_eq!(records, 1, "one record");
}

#[test]
fn one_that_was_applied_is_not_sent_again() {
    check(|_| Treat::LoseAnswer, 1);
}

#[test]
fn one_that_never_arrived_is_sent_again() {
    check(
        |number| match number {
            1 => Treat::Hold,
            _ => Treat::Pass,
        },
        2,
    );
}

/// The first one arrives when the second one is on its way already.
#[test]
fn one_that_arrives_late_counts_and_the_repeated_one_does_not() {
    check(
        |number| match number {
            1 => Treat::Hold,
            _ => Treat::PassAfterHeld,
        },
        2,
    );
}

#[test]
fn one_that_arrives_after_the_repeated_one_changes_nothing() {
    check(
        |number| match number {
            1 => Treat::Hold,
            _ => Treat::PassBeforeHeld,
        },
        2,
    );
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
