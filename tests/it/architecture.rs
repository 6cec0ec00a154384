//! The rules of the source tree: what is not checked is a wish.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod imports;
mod words;

/// A file is read in one sitting.
const LINES_MAX: usize = 500;

/// A source file: its path below the repository, and its lines without comments.
struct Source {
    path: String,
    lines: usize,
    code: Vec<(usize, String)>,
}

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let folders = [
        "src",
        "tests",
        "benches",
        "fuzz/src",
        "fuzz/fuzz_targets",
        "tools/schema-provider/src",
    ];
    let all = folders.iter().flat_map(|folder| sources(folder));
    let long: Vec<_> = all
        .filter(|source| source.lines > LINES_MAX)
        .map(|source| format!("{}: {} lines", source.path, source.lines))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

/// A file that no `mod` line names is never compiled, and rots.
#[test]
fn every_file_is_part_of_a_crate() {
    for (folder, roots) in [
        ("src", &["src/lib.rs", "src/main.rs"][..]),
        ("tests", &["tests/it/main.rs"]),
    ] {
        let mut reached = BTreeSet::new();
        for root in roots {
            reach(Path::new(root), true, &mut reached);
        }
        let known = reached.iter().map(|path| path.display().to_string());
        let known: BTreeSet<_> = known.collect();
        let there: BTreeSet<_> = sources(folder).map(|source| source.path).collect();
        let lost: Vec<_> = there.difference(&known).collect();
        assert!(lost.is_empty(), "no `mod` line leads to {lost:#?}");
    }
}

/// Follows the `mod` lines from one file; `own_folder`: it is a root or a `mod.rs`, whose children
/// lie beside it.
fn reach(file: &Path, own_folder: bool, reached: &mut BTreeSet<PathBuf>) {
    let text = read(file);
    reached.insert(file.to_owned());
    let parent = file.parent().expect("a source file lies in a folder");
    let folder = if own_folder {
        parent.to_owned()
    } else {
        parent.join(file.file_stem().expect("a source file has a name"))
    };
    for line in text.lines() {
        let Some(name) = module(line) else { continue };
        let plain = folder.join(format!("{name}.rs"));
        if repository().join(&plain).is_file() {
            reach(&plain, false, reached);
        } else {
            reach(&folder.join(name).join("mod.rs"), true, reached);
        }
    }
}

/// The name in `mod name;`, whatever its visibility.
fn module(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.rsplit_once("mod ")?;
    let visibility = before.is_empty() || (before.starts_with("pub") && before.ends_with(' '));
    visibility.then_some(name)
}

/// Every Rust file below a folder of the repository.
fn sources(folder: &str) -> impl Iterator<Item = Source> {
    let mut found = Vec::new();
    collect(&repository().join(folder), &mut found);
    assert!(!found.is_empty(), "no source below {folder}");
    found.sort();
    found.into_iter().map(|path| Source::read(&path))
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder stays readable").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(repository());
            found.push(below.expect("it lies in the repository").to_owned());
        }
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(repository().join(path))
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = read(path);
        let code = text.lines().enumerate().filter_map(|(at, line)| {
            // A `//` in a string is cut as well: what is looked for is never behind one.
            let code = line.split("//").next().unwrap_or_default().trim();
            (!code.is_empty()).then(|| (at + 1, code.to_owned()))
        });
        Self {
            path: path.display().to_string(),
            lines: text.lines().count(),
            code: code.collect(),
        }
    }

    /// The places where one of these words stands in the code.
    fn places_of(&self, words: &[&str]) -> Vec<String> {
        let named = self.code.iter().filter_map(|(line, code)| {
            let word = words.iter().find(|word| code.contains(**word))?;
            Some(format!("{}:{line}: {word}", self.path))
        });
        named.collect()
    }
}
