//! The documents say what is so: their links lead somewhere, their commands and flags are there,
//! and what they say of settings and keys is what the code reads. `slow::documents` runs the
//! commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod commands;
mod configure;
mod kv;
mod links;

/// A page of the repository.
pub(crate) struct Document {
    /// Its path below the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block {
    /// What stands behind the fence, such as `sh`.
    pub(crate) kind: String,
    /// The number of its first line in the page, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
}

/// Every page that git knows, but the changelog: it says what was so.
pub(crate) fn all() -> Vec<Document> {
    let mut pages = Vec::new();
    collect(repository(), &mut pages);
    assert!(pages.len() > 10, "{} pages found", pages.len());
    pages.sort();
    let below = |path: PathBuf| {
        let path = path.strip_prefix(repository());
        path.expect("it lies in the repository")
            .display()
            .to_string()
    };
    pages.into_iter().map(|path| read(&below(path))).collect()
}

/// One page.
pub(crate) fn read(path: &str) -> Document {
    let text = fs::read_to_string(repository().join(path));
    Document {
        path: path.to_owned(),
        text: text.unwrap_or_else(|error| panic!("cannot read {path}: {error}")),
    }
}

impl Document {
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (line, number) in self.text.lines().zip(1..) {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                open = !open;
                if open {
                    blocks.push(Block {
                        kind: kind.trim().to_owned(),
                        line: number + 1,
                        lines: Vec::new(),
                    });
                }
            } else if open {
                let block = blocks.last_mut().expect("a block is open");
                block.lines.push(line.to_owned());
            }
        }
        assert!(!open, "{}: a block without an end", self.path);
        blocks
    }

    /// Its blocks of one kind.
    pub(crate) fn blocks_of(&self, kind: &str) -> Vec<Block> {
        let mut blocks = self.blocks();
        blocks.retain(|block| block.kind.split(' ').next() == Some(kind));
        blocks
    }

    /// The lines outside of blocks.
    pub(crate) fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut open = false;
        let lines = self.text.lines().zip(1..);
        lines.filter_map(move |(line, number)| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            (!open && !fence).then_some((number, line))
        })
    }
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files that git knows or would take.
pub(crate) fn tracked() -> Vec<String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = command.current_dir(repository()).output();
    let output = output.expect("git runs, and this is its checkout");
    let text = String::from_utf8(output.stdout).expect("paths here are text");
    let files: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(!files.is_empty(), "git knows no file here");
    files
}

fn collect(repository: &Path, pages: &mut Vec<PathBuf>) {
    let files = tracked();
    let page = |file: &&Path| {
        file.extension().is_some_and(|end| end == "md") && *file != Path::new("CHANGELOG.md")
    };
    let there = files.iter().map(Path::new).filter(page);
    let there = there.map(|file| repository.join(file));
    pages.extend(there.filter(|file| file.is_file()));
}
