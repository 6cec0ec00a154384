//! What docs/security.md claims. Each claim names its tests, and each test here is named by a claim.

mod agent_port;
mod files;
mod hostile;
mod http_port;
mod secrets;
mod tls;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::process::run;
use crate::harness::wait::PATIENCE;

const PAGE: &str = "docs/security.md";
/// The head of a table of claims.
const HEAD: &str = "| claim | test |";

#[test]
fn each_claim_names_tests_that_exist_and_no_test_is_without_a_claim() {
    let known = known_tests();
    let rows = claims();
    assert!(
        rows.len() > 20,
        "{} claims: is {HEAD:?} the head?",
        rows.len()
    );
    let mut named = BTreeSet::new();
    for (claim, tests) in &rows {
        assert!(!tests.is_empty(), "without a test: {claim}");
        for test in tests {
            assert!(known.contains(test), "there is no test {test}, of: {claim}");
            named.insert(test.clone());
        }
    }
    let own = known.iter().filter(|test| test.starts_with("security::"));
    let this = module_path!().split_once("::").expect("a crate's module").1;
    let lost: Vec<_> = own
        .filter(|test| !named.contains(*test) && !test.starts_with(&format!("{this}::each_claim")))
        .collect();
    assert!(lost.is_empty(), "{PAGE} does not name {lost:#?}");
}

/// The claims of the page, each with the names of its tests.
fn claims() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let text = fs::read_to_string(path).expect("the page is there");
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == HEAD) {
        let table = lines
            .by_ref()
            .skip(1)
            .take_while(|line| line.starts_with('|'));
        for line in table {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [claim, tests] = cells[..] else {
                panic!("a row of two cells: {line}");
            };
            let names = tests.split('`').skip(1).step_by(2).map(str::to_owned);
            rows.push((claim.to_owned(), names.collect()));
        }
    }
    rows
}

/// Every test of this binary, the slow ones too.
fn known_tests() -> BTreeSet<String> {
    let own = std::env::current_exe().expect("a test is a program");
    let mut command = Command::new(own);
    command.arg("--list");
    let output = run("list", &command, PATIENCE);
    let lines = output.stdout.lines();
    let names = lines.filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}
