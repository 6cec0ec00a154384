//! The READMEs of the modules name every variable and output, in the words of the code.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[test]
fn the_readmes_name_every_variable_and_output() {
    for module in ["consul", "tidegate"] {
        let readme = read(module, "README.md");
        let tables = tables(module);
        assert!(
            readme.ends_with(&tables),
            "terraform/modules/{module}/README.md must end with:\n{tables}"
        );
    }
}

fn tables(module: &str) -> String {
    let mut text = "## Inputs\n\n| variable | default | |\n|---|---|---|\n".to_owned();
    for block in blocks(&read(module, "variables.tf"), "variable") {
        let default = match block.default {
            Some(default) => format!("`{default}`"),
            None => "required".to_owned(),
        };
        let row = writeln!(
            text,
            "| `{}` | {default} | {} |",
            block.name, block.description
        );
        row.expect("a text takes whatever is written");
    }
    text += "\n## Outputs\n\n| output | |\n|---|---|\n";
    for block in blocks(&read(module, "outputs.tf"), "output") {
        let row = writeln!(text, "| `{}` | {} |", block.name, block.description);
        row.expect("a text takes whatever is written");
    }
    text
}

struct Block {
    name: String,
    description: String,
    default: Option<String>,
}

/// The blocks of one kind in a file that `terraform fmt` has laid out.
fn blocks(text: &str, kind: &str) -> Vec<Block> {
    let begin = format!("{kind} \"");
    let blocks: Vec<_> = text
        .split(&begin)
        .skip(1)
        .map(|part| Block {
            name: part.split('"').next().unwrap_or_default().to_owned(),
            description: value(part, "description")
                .map(|text| text.trim_matches('"').replace("\\\"", "\""))
                .expect("every variable and output is described"),
            default: value(part, "default"),
        })
        .collect();
    assert!(!blocks.is_empty(), "no {kind} found");
    blocks
}

/// What a block's own argument is given, in one line.
fn value(block: &str, name: &str) -> Option<String> {
    block.lines().find_map(|line| {
        let (argument, value) = line.strip_prefix("  ")?.split_once('=')?;
        (argument.trim_end() == name).then(|| value.trim().to_owned())
    })
}

fn read(module: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("terraform/modules")
        .join(module)
        .join(file);
    fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
