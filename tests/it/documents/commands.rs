//! Every command that a page names is one, with the flags that it has.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::{Document, all, read};

/// The flags of each command, as `docs/command-line.md` has them; that page is what the program
/// says.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let flag = Regex::new(r"(?m)^ +(-[a-z], )?(--[a-z-]+)").expect("a constant pattern");
    let page = read("docs/command-line.md").text;
    let sections = page.split("\n## tidegate ").skip(1);
    let section = |text: &str| {
        let name = text.lines().next().unwrap_or_default().trim().to_owned();
        let mut flags = BTreeSet::new();
        for found in flag.captures_iter(text) {
            flags.extend(found.get(1).map(|short| short.as_str()[..2].to_owned()));
            flags.insert(found[2].to_owned());
        }
        (name, flags)
    };
    sections.map(section).collect()
}

#[test]
fn every_command_in_a_page_has_the_flags_that_it_is_given() {
    let known = known();
    assert!(known.len() > 15, "{:?}", known.keys());
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for page in all() {
        if page.path == "docs/command-line.md" {
            continue;
        }
        for (number, command) in named(&page) {
            looked_at += 1;
            if let Err(why) = check(&known, &command) {
                wrong.push(format!("{}:{number}: {command}: {why}", page.path));
            }
        }
    }
    assert!(looked_at > 100, "only {looked_at} commands found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What begins with `tidegate ` in code within a line, or on a line of a block.
fn named(page: &Document) -> Vec<(usize, String)> {
    let code = Regex::new(r"`(tidegate [^`]+)`").expect("a constant pattern");
    let of_line = |(number, line)| {
        let found = code.captures_iter(line);
        let found: Vec<_> = found.map(|found| (number, found[1].to_owned())).collect();
        found
    };
    let mut all: Vec<_> = page.prose().flat_map(of_line).collect();
    let command = Regex::new(r"(?:^|&& |\| |; |/)(tidegate .*?)(?: && | \| |;| +# |$)")
        .expect("a constant pattern");
    for block in page.blocks() {
        for (line, number) in block.lines.iter().zip(block.line..) {
            let found = command.captures_iter(line);
            all.extend(found.map(|found| (number, found[1].to_owned())));
        }
    }
    all
}

fn check(known: &BTreeMap<String, BTreeSet<String>>, command: &str) -> Result<(), String> {
    let mut words = command.split_whitespace().skip(1);
    let Some(name) = words.next() else {
        return Ok(());
    };
    // A word that stands for one, and the program's own flags.
    if name.starts_with(['-', '<']) || name.chars().all(char::is_uppercase) {
        return Ok(());
    }
    let below = words.clone().next().map(|word| format!("{name} {word}"));
    let flags = below
        .and_then(|below| known.get(&below))
        .or_else(|| known.get(name))
        .ok_or_else(|| format!("there is no command {name}"))?;
    for word in words.filter(|word| word.starts_with('-')) {
        let word = word.trim_end_matches(['.', ',', ')', ']', '\'']);
        let flag = word.split('=').next().unwrap_or(word);
        let flag = flag.split('[').next().unwrap_or(flag);
        if flag.len() > 1 && flag != "--help" && !flags.contains(flag) {
            return Err(format!("{name} has no {flag}"));
        }
    }
    Ok(())
}

#[test]
fn a_command_or_flag_that_is_not_there_is_noticed() {
    let known = known();
    for (command, why) in [
        ("tidegate frobnicate", "no command frobnicate"),
        ("tidegate canary --drian", "canary has no --drian"),
    ] {
        assert!(check(&known, command).unwrap_err().contains(why));
    }
    for command in ["tidegate canary --drain -z b", "tidegate COMMAND --help"] {
        assert_eq!(check(&known, command), Ok(()), "{command}");
    }
}
