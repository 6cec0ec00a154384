//! `docs/configure.md` has every setting as the code has it.

use std::fmt::Write as _;

use tidegate::config::settings::{Default, Kind, SETTINGS, Setting};

use super::read;
use crate::harness::folder::Folder;
use crate::harness::kept::expect_kept;
use crate::harness::tidegate::tidegate;

const PAGE: &str = "docs/configure.md";

/// After a change of the settings, run this test with `TIDEGATE_WRITE_DOCS=1`.
#[test]
fn the_page_of_the_settings_is_what_the_code_says() {
    expect_block_kept("settings", &table());
}

fn table() -> String {
    let mut text =
        "\n| key of the file | flag, variable | values | default | |\n|---|---|---|---|---|\n"
            .to_owned();
    for setting in SETTINGS {
        let Setting {
            key,
            flag,
            variable,
            doc,
            ..
        } = setting;
        let flag = match setting.kind {
            Kind::Switch => format!("--{flag}"),
            Kind::Text
            | Kind::OneOf(_)
            | Kind::Count { .. }
            | Kind::Span { .. }
            | Kind::List
            | Kind::Pairs => format!("--{flag} {}", setting.value_name).replace('|', "\\|"),
        };
        writeln!(
            text,
            "| `{key}` | `{flag}` `{variable}` | {} | {} | {} |",
            values(&setting),
            default(&setting),
            // Words such as <root> would be tags of HTML.
            doc.replace('<', "\\<"),
        )
        .expect("a text takes whatever is written");
    }
    text + "\n"
}

fn values(setting: &Setting) -> String {
    match setting.kind {
        Kind::Text => "text".to_owned(),
        Kind::OneOf(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::Count { min, max } => format!("{min} to {max}"),
        Kind::Span { min, max } => format!(
            "`{}` to `{}`",
            humantime::format_duration(min),
            humantime::format_duration(max)
        ),
        Kind::Switch => "`true`, `false`".to_owned(),
        Kind::List => "list".to_owned(),
        Kind::Pairs => "table".to_owned(),
    }
}

fn default(setting: &Setting) -> String {
    match setting.default {
        Default::Required => "required".to_owned(),
        Default::Text(text) => format!("`{text}`"),
        Default::Implied(text) => text.to_owned(),
        Default::Cores => "number of cores".to_owned(),
    }
}

/// A configuration that somebody copies from a page is one.
#[test]
fn every_configuration_file_of_the_documents_holds_together() {
    let mut checked = 0;
    for page in super::all() {
        let blocks = page.blocks_of("toml");
        for block in blocks {
            let folder = Folder::new("documents");
            let text = block.lines.join("\n");
            let file = folder.write("tidegate.toml", &text).display().to_string();
            let mut arguments = vec!["check-config", &file];
            if !text.contains("standalone") && !text.contains("peers") {
                arguments.push("--standalone");
            }
            if !text.contains("environment =") || text.contains("[migration]") {
                arguments.extend(["--env", "gprd"]);
            }
            let output = tidegate(&arguments, &[]);
            let place = format!("{}:{}", page.path, block.line);
            assert_eq!(output.code, Some(0), "{place}: {output:?}");
            checked += 1;
        }
    }
    assert!(checked > 1, "only {checked} configurations found");
}

/// What the code says of Consul's variables stands in its own documentation, as a table.
#[test]
fn the_page_names_every_variable_of_consul_as_the_code_does() {
    let code = read("src/kv/consul/environment.rs").text;
    let rows = code.lines().filter_map(|line| line.strip_prefix("//! |"));
    let table: String = rows.map(|row| format!("|{row}\n")).collect();
    assert!(table.matches("CONSUL_").count() > 10, "{table}");
    let table = table.replace("[`LoginSettings`]", "[signing in](#signing-in)");
    expect_block_kept("consul", &format!("\n{table}\n"));
}

/// Expects the part of the page between two comments to be this text.
#[track_caller]
fn expect_block_kept(name: &str, text: &str) {
    let begin = format!("<!-- begin: {name} -->\n");
    let end = format!("<!-- end: {name} -->\n");
    let page = read(PAGE).text;
    let parts = page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.unwrap_or_else(|| panic!("{PAGE} has no place for {name}"));
    expect_kept(PAGE, &format!("{before}{begin}{text}{end}{after}"));
}
