//! Every link of a page leads to a file, and to a heading where it names one.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use super::{Document, all, repository};

#[test]
fn every_link_leads_to_a_file_and_to_its_heading() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a constant pattern");
    let mut wrong = Vec::new();
    let mut followed = 0;
    for page in all() {
        for (number, line) in page.prose() {
            for found in link.captures_iter(line) {
                followed += 1;
                if let Err(why) = follow(&page, &found[1]) {
                    wrong.push(format!("{}:{number}: {}: {why}", page.path, &found[1]));
                }
            }
        }
    }
    assert!(followed > 50, "only {followed} links found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn follow(page: &Document, link: &str) -> Result<(), String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return Ok(());
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let from = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let file = match path {
        "" => PathBuf::from(&page.path),
        path => plain(&from.join(path)),
    };
    let there = repository().join(&file);
    if !there.exists() {
        return Err("there is no such file".to_owned());
    }
    if heading.is_empty() {
        return Ok(());
    }
    let target = super::read(&file.display().to_string());
    let known = headings(&target);
    if known.contains(heading) {
        Ok(())
    } else {
        Err(format!("there is no such heading; there are {known:?}"))
    }
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(part) => plain.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// What the headings of a page are called in links: lower case, spaces as dashes, without other
/// marks, as GitHub and GitLab write them.
fn headings(page: &Document) -> BTreeSet<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len() && text.starts_with(' ')).then(|| anchor(text.trim()))
    };
    page.prose().filter_map(|(_, line)| heading(line)).collect()
}

fn anchor(text: &str) -> String {
    let kept = text.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

#[test]
fn a_link_that_leads_nowhere_is_noticed() {
    let page = super::read("README.md");
    for (link, text) in [
        ("docs/nothing.md", "no such file"),
        ("docs/operate.md#nothing", "no such heading"),
        ("#nothing", "no such heading"),
    ] {
        let error = follow(&page, link).unwrap_err();
        assert!(error.contains(text), "{link}: {error}");
    }
    assert_eq!(anchor("Fault → behaviour"), "fault--behaviour");
    assert_eq!(anchor("`deploys/<stage>`"), "deploysstage");
}
