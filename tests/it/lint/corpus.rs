//! One small faulty file for each rule, and the files of the repository, which are clean.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::domain::haproxy::lint::{ALL, Evidence, Severity};

use super::{judge, judge_with};
use crate::harness::haproxy::{Haproxy, Version};

/// How a first line begins that says what lint is told.
const TOLD: &str = "# tidegate lint --haproxy-version ";
/// Rules that look at more than files: `beside.rs`.
const BESIDE: [&str; 5] = [
    "running-missing",
    "running-agent",
    "running-agent-disabled",
    "running-weight",
    "not-polling",
];
/// Files that HAProxy 2.6 and 2.8 refuse: the fault is one for them too.
pub(crate) const REFUSED: [&str; 2] = ["syntax", "init-state"];

pub(crate) fn files(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut found,
    );
    found.sort();
    assert!(!found.is_empty(), "no .cfg below {folder}");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("the repository is readable");
        let name = path.file_stem().expect("it ends with .cfg");
        (name.to_string_lossy().into_owned(), text)
    };
    found.into_iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the repository is readable") {
        let path = entry.expect("the repository is readable").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "cfg") {
            found.push(path);
        }
    }
}

#[test]
fn each_faulty_file_has_exactly_the_fault_that_it_is_called_after() {
    let mut seen = BTreeSet::from(BESIDE);
    let corpus = files("tests/it/lint/corpus");
    for (name, text) in &corpus {
        let told = text.lines().find_map(|line| line.strip_prefix(TOLD));
        let evidence = Evidence {
            version: told.map(|version| version.parse().expect("a version")),
            ..Evidence::default()
        };
        let report = judge(name, text, &evidence);
        let found: BTreeSet<_> = report.findings.iter().map(|f| f.rule.id).collect();
        assert_eq!(found, BTreeSet::from([name.as_str()]), "{report}");
        seen.insert(name);
    }
    let rules: BTreeSet<_> = ALL.iter().map(|rule| rule.id).collect();
    assert_eq!(
        seen, rules,
        "a rule without a file, or a file without a rule"
    );
}

/// A fault that HAProxy finds itself would need no lint.
pub(crate) fn check_haproxy(version: Version) {
    for (name, text) in files("tests/it/lint/corpus") {
        let accepted = Haproxy::accepts(version, &text);
        let refused = REFUSED.contains(&name.as_str());
        assert_eq!(
            accepted.is_err(),
            refused,
            "{version:?} {name}: {accepted:?}"
        );
    }
}

#[test]
fn haproxy_2_8_accepts_the_faulty_files() {
    check_haproxy(Version::V28);
}

#[test]
fn the_files_of_the_repository_are_clean() {
    for folder in ["examples", "deploy"] {
        if folder == "deploy"
            && !Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("deploy/haproxy")
                .is_dir()
        {
            continue;
        }
        for (name, text) in files(folder) {
            for version in ["2.6.13", "2.8.25"] {
                let evidence = Evidence {
                    version: Some(version.parse().expect("a version")),
                    ..Evidence::default()
                };
                // Beside Tidegate in a pod, the pod says which zone it stands in.
                let zone = [("LB_ZONE", "us-east1-b")];
                let mut report = judge_with(&zone, &name, &text, &evidence);
                report
                    .findings
                    .retain(|finding| finding.rule.severity != Severity::Note);
                assert!(report.findings.is_empty(), "{folder}: {report}");
            }
        }
    }
}
