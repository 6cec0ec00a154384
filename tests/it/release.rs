//! What a release is made of, and what hinders one. Building it takes minutes: `scripts/release
//! --verify` does, twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::folder::Folder;
use crate::harness::process::{Output, run};

/// cargo reads the manifests of 300 crates.
const RUN_MAX: Duration = Duration::from_mins(1);
const EPOCH: &str = "1767225600";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What `scripts/dependencies` prints.
fn dependencies(kind: &str) -> String {
    let mut command = Command::new(repository().join("scripts/dependencies"));
    command.arg(kind).env("SOURCE_DATE_EPOCH", EPOCH);
    let output = run("dependencies", &command, RUN_MAX);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

#[test]
fn the_list_of_dependencies_has_each_crate_with_its_checksum_and_licence() {
    let text = dependencies("sbom");
    assert!(text == dependencies("sbom"), "two lists differ");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(list["bomFormat"], "CycloneDX");
    assert_eq!(list["metadata"]["timestamp"], "2026-01-01T00:00:00Z");
    let components = list["components"].as_array().expect("a list");
    let mut scopes = BTreeMap::new();
    for component in components {
        let text = |name: &str| component[name].as_str().unwrap_or_default();
        let (name, purl) = (text("name"), text("purl"));
        scopes.insert(name.to_owned(), text("scope").to_owned());
        assert!(component["licenses"][0].is_object(), "{component}");
        if purl.starts_with("pkg:cargo/") {
            let checksum = component["hashes"][0]["content"].as_str();
            assert_eq!(checksum.map(str::len), Some(64), "{component}");
        }
    }
    for (name, scope) in [
        ("tokio", Some("required")),
        ("rustls", Some("required")),
        ("consulrs", Some("required")),
        // C code that is compiled in, by its own name too.
        ("openssl-src", Some("required")),
        ("openssl", Some("required")),
        ("rust-std", Some("required")),
        // Macros, and what only builds.
        ("serde_derive", Some("excluded")),
        ("cc", Some("excluded")),
        // The tests' own.
        ("proptest", None),
        ("divan", None),
    ] {
        assert_eq!(scopes.get(name).map(String::as_str), scope, "{name}");
    }
    expect_whole(&list);
}

/// Everything that is named is there, and the program leads to all of it.
fn expect_whole(list: &Value) {
    let text = |value: &Value| value.as_str().expect("a reference").to_owned();
    let components = list["components"].as_array().expect("a list");
    let known: BTreeSet<_> = components.iter().map(|one| text(&one["bom-ref"])).collect();
    assert_eq!(
        known.len(),
        components.len(),
        "a reference is one component's"
    );
    let edges = list["dependencies"].as_array().expect("a list").iter();
    let edges: BTreeMap<_, Vec<_>> = edges
        .map(|edge| {
            let to = edge["dependsOn"].as_array().expect("a list");
            (text(&edge["ref"]), to.iter().map(text).collect())
        })
        .collect();
    let root = text(&list["metadata"]["component"]["bom-ref"]);
    let (mut reached, mut left) = (BTreeSet::new(), vec![root]);
    while let Some(from) = left.pop() {
        for to in edges.get(&from).into_iter().flatten() {
            if reached.insert(to.clone()) {
                left.push(to.clone());
            }
        }
    }
    assert_eq!(reached, known);
}

#[test]
fn the_licences_are_those_of_everything_that_is_linked() {
    let (text, list) = (dependencies("licences"), dependencies("sbom"));
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let (head, texts) = text.split_once("====").expect("texts follow the list");
    for component in list["components"].as_array().expect("a list") {
        let [name, version, purl] =
            ["name", "version", "purl"].map(|field| component[field].as_str().expect("a text"));
        if !purl.starts_with("pkg:cargo/") {
            continue;
        }
        let line = format!("\n{name} {version}: ");
        let is_linked = component["scope"] == "required";
        assert_eq!(head.contains(&line), is_linked, "{name} {version}");
        let has_text = texts.contains(&format!("{name} {version}"));
        assert!(has_text || !is_linked, "no text of {name} {version}");
    }
    for part in [
        "Apache License",
        "Permission is hereby granted",
        "Mozilla Public License",
    ] {
        assert!(texts.contains(part), "{part}");
    }
}

/// A repository that could be released as 1.2.0.
struct Tree {
    folder: Folder,
}

impl Tree {
    fn new() -> Self {
        let folder = Folder::new("release");
        fs::create_dir(folder.join("scripts")).expect("the folder takes folders");
        fs::copy(
            repository().join("scripts/release"),
            folder.join("scripts/release"),
        )
        .expect("the script is there");
        folder.write(
            "Cargo.toml",
            "[package]\nname = \"tidegate\"\nversion = \"1.2.0\"\n",
        );
        folder.write(
            "CHANGELOG.md",
            "# Changelog\n\n## 1.2.0 - 2026-11-30\n\n- Something.\n",
        );
        let tree = Self { folder };
        tree.git(&["init", "--quiet"]);
        tree.git(&["add", "--all"]);
        tree.git(&["commit", "--quiet", "--message", "One"]);
        tree
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=a", "-c", "user.email=a@b.invalid"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = run("git", &command, RUN_MAX);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    }

    fn release(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let script: PathBuf = self.folder.join("scripts/release");
        let mut command = Command::new(script);
        command
            .args(arguments)
            .env_remove("TIDEGATE_PROFILE")
            .envs([("DEBFULLNAME", "Ana"), ("DEBEMAIL", "ana@example.org")])
            .envs(variables.iter().copied());
        run("release", &command, RUN_MAX)
    }
}

#[test]
fn a_tree_that_is_no_release_is_refused_with_everything_that_is_wrong() {
    let tree = Tree::new();
    let refused = |version: &str, variables: &[(&str, &str)], expected: &[&str]| {
        let output = tree.release(&[version], variables);
        assert_eq!(output.code, Some(1), "{version}: {output:?}");
        let lines: Vec<_> = output.stderr.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines.len(), expected.len(), "{version}: {lines:#?}");
        for (line, begin) in lines.iter().zip(expected) {
            assert!(line.starts_with(begin), "{version}: {lines:#?}");
        }
        assert!(!tree.folder.join("target").exists(), "something was built");
    };
    let nobody = [("DEBEMAIL", "")];
    refused("1.2.0", &nobody, &["DEBFULLNAME and DEBEMAIL are not set"]);
    let debug = [("TIDEGATE_PROFILE", "dev")];
    refused("1.2.0", &debug, &["TIDEGATE_PROFILE=dev is for --verify"]);
    let other = [
        "Cargo.toml says version 1.2.0",
        "CHANGELOG.md has no section",
    ];
    refused("1.3.0", &[], &other);
    // A dot is a dot.
    refused("1x2.0", &[], &["1x2.0 is no version", other[0], other[1]]);
    tree.git(&["tag", "v1.2.0"]);
    refused("1.2.0", &[], &["the tag v1.2.0 is there already"]);
    tree.folder.write("forgotten", "");
    refused("1.2.0", &[], &["the tree is not clean", "the tag v1.2.0"]);
    let output = tree.release(&[], &[]);
    assert!(
        output.stderr.contains("write scripts/release VERSION"),
        "{output:?}"
    );
}
