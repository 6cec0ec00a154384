//! `docs/kv.md` and `docs/settings.md` are what the parsers read.

use std::collections::BTreeSet;

use regex::Regex;
use tidegate::domain::deploy::Deploy;
use tidegate::domain::directive::Directive;
use tidegate::domain::key::Key;
use tidegate::domain::sentinel::Generation;
use tidegate::domain::settings::Settings;

use super::read;

const PAGE: &str = "docs/kv.md";

/// The files that hold the wire forms of all keys.
const WIRES: [&str; 6] = [
    "src/domain/deploy.rs",
    "src/domain/directive/wire.rs",
    "src/domain/history.rs",
    "src/domain/sentinel.rs",
    "src/domain/settings/rails.rs",
    "src/domain/settings/wire.rs",
];

/// A block is of the kind `kv <path>`, and holds the value of that key.
#[test]
fn every_example_of_a_key_is_read_by_its_parser() {
    let blocks = read(PAGE).blocks_of("kv");
    assert!(blocks.len() > 10, "only {} examples found", blocks.len());
    for block in blocks {
        let path = block.kind.strip_prefix("kv ").unwrap_or_default();
        let value = block.lines.join("\n");
        let place = format!("{PAGE}:{}: {path} = {value}", block.line);
        parse(path, &value).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert!(parse("canary-state", "reddy").is_err());
    assert!(parse("canary-states", "ready").is_err());
    assert!(parse("settings", r#"{"rails":{"floor":1}}"#).is_err());
}

fn parse(path: &str, value: &str) -> Result<(), String> {
    let bytes = value.as_bytes();
    match Key::parse(path) {
        Key::Meta => Generation::parse(bytes)
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Key::Settings => {
            let (settings, unknown) = Settings::parse(bytes)?;
            match (settings.faults.first(), unknown.first()) {
                (None, None) => Ok(()),
                (Some(fault), _) => Err(fault.clone()),
                (None, Some(unknown)) => Err(format!("{unknown} is not known")),
            }
        }
        Key::Deploy(_) => Deploy::parse(bytes).map(|_| ()),
        Key::Directive(_) => Directive::parse(bytes)
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Key::Folder | Key::Unknown => Err("this is no key".to_owned()),
    }
}

/// The table of errors: a value, and what its error says.
#[test]
fn every_error_of_the_page_is_what_the_parser_says() {
    let page = read(PAGE).text;
    let (_, table) = page
        .split_once("| value | error |\n|---|---|\n")
        .expect("the page has a table of errors");
    let rows: Vec<_> = table
        .lines()
        .map_while(|line| line.strip_prefix("| `"))
        .collect();
    assert!(rows.len() > 8, "only {} errors found", rows.len());
    for row in rows {
        let (value, error) = row.split_once("` | ").expect("a value, and its error");
        let error = error.trim_end_matches(" |").replace('`', "");
        match Directive::parse(value.as_bytes()) {
            Ok(directive) => panic!("{value} is read as {directive:?}"),
            Err(said) => {
                let said = said.to_string().replace('`', "");
                assert!(said.contains(&error), "{value}: {said}, not {error}");
            }
        }
    }
}

/// A field that the code reads and no page names is found by nobody.
#[test]
fn every_field_that_a_parser_reads_is_on_a_page() {
    let word = Regex::new(r"[a-z_]+").expect("a constant pattern");
    let code = Regex::new(r"`[^`]+`").expect("a constant pattern");
    let mut named = BTreeSet::new();
    for page in [PAGE, "docs/settings.md"].map(read) {
        for (_, line) in page.prose() {
            let words = code
                .find_iter(line)
                .flat_map(|code| word.find_iter(code.as_str()));
            named.extend(words.map(|word| word.as_str().to_owned()));
        }
    }
    let fields: BTreeSet<_> = WIRES.iter().flat_map(|file| fields(file)).collect();
    assert!(fields.len() > 40, "{fields:?}");
    let missing: Vec<_> = fields.difference(&named).collect();
    assert!(missing.is_empty(), "in no page: {missing:?}");
}

/// The fields of the structures of a file that are deserialised, as they are written.
fn fields(file: &str) -> BTreeSet<String> {
    let code = read(file).text;
    let structure =
        Regex::new(r"(?s)#\[derive\([^)]*Deserialize[^)]*\)\][^{]*struct \w+ \{\n(.*?)\n\}")
            .expect("a constant pattern");
    let field = Regex::new(r"(?m)^ +(?:pub )?(?:r#)?([a-z_]+): ").expect("a constant pattern");
    let mut fields: BTreeSet<_> = structure
        .captures_iter(&code)
        .flat_map(|structure| {
            let body = structure.get(1).map_or("", |body| body.as_str());
            field.captures_iter(body).map(|field| field[1].to_owned())
        })
        .collect();
    // What is gathered there for errors, and the rest of a row, are no fields of their own.
    fields.remove("others");
    fields.remove("shape");
    fields
}
