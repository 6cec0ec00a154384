//! The files as they stand.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::keepalived::Keepalived;

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/onprem")
        .join(name)
}

pub(super) fn text(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn haproxy_accepts_the_balancer() {
    for version in Version::ALL {
        let output = Haproxy::says(version, &file("balancer.cfg"), &[]);
        assert_eq!(output.code, Some(0), "{version:?}: {output:?}");
    }
}

#[test]
fn keepalived_accepts_its_files_on_each_machine_and_says_what_is_misspelt() {
    for name in ["keepalived.conf", "lvs.conf"] {
        for machine in ["a", "b", "c"] {
            let said = Keepalived::accepts(machine, &text(name));
            assert_eq!(said, Ok(()), "{name}, {machine}");
        }
    }
    for (name, old, new) in [
        ("keepalived.conf", "advert_int", "advert_in"),
        ("keepalived.conf", "fall 2", "full 2"),
        ("lvs.conf", "lvs_method DR", "lvs_methd DR"),
    ] {
        let text = text(name).replace(old, new);
        let said = Keepalived::accepts("a", &text).expect_err(new);
        let word = new.split(' ').next().expect("there is a word");
        assert!(said.contains(&format!("'{word}'")), "{said}");
    }
}

/// A replica that stops answers until whoever stands before it has noticed.
#[test]
fn each_way_notices_before_a_replica_that_stops_ends() {
    let drain = 8_000;
    let seconds = |text: &str, word: &str| number(text, word) * 1_000;
    let vip = text("keepalived.conf");
    // The last check may begin right before; then the advertisements of the next machine.
    let script = seconds(&vip, "interval") * number(&vip, "fall") + seconds(&vip, "timeout");
    assert!(script + 2_000 < drain, "{script} ms");
    let balancer = text("balancer.cfg");
    let check = balancer
        .lines()
        .find(|line| line.contains("default-server"))
        .expect("servers are checked");
    assert!(check.contains(" inter 1s fastinter 250ms "), "{check}");
    assert_eq!(number(check, "fall"), 2);
    assert!(1_000 + 250 + 500 < drain);
}

/// The number behind a word.
fn number(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|each| *each != word);
    let number = words.nth(1).and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("no number behind {word}"))
}
