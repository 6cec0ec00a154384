//! Every line of every `sh` block of the documents runs, and ends as the document says: with 0, or
//! with N behind `# ends with N`. Each document has a machine of its own (`sandbox.sh`), in which
//! its addresses and places are real; what cannot run there is listed in `stand_ins`, with reasons.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use regex::Regex;

use crate::documents::{Block, Document, all, read, repository, tracked};
use crate::harness::folder::Folder;
use crate::harness::process::{Output, run};
use crate::harness::terminal::TERMINAL;
use crate::harness::tools::tool;

/// The longest document has ramps and waits of some seconds each.
const DOCUMENT_MAX: Duration = Duration::from_mins(4);
const HERE: &str = "tests/it/slow/documents";
/// What a line of the story ends with.
const END: &str = "TIDEGATE_END_OF_LINE";

/// What runs when the first command of a document does.
#[derive(Clone, Copy)]
enum Scene {
    /// Consul alone.
    Consul,
    /// The environment, a replica, and two nodes that follow it.
    Fleet,
    /// Consul with ACLs.
    Acl,
}

/// The documents that set everything up themselves, or need another Consul.
const SCENES: [(&str, Scene); 6] = [
    ("README.md", Scene::Consul),
    ("docs/configure.md", Scene::Consul),
    ("examples/README.md", Scene::Consul),
    ("fuzz/README.md", Scene::Consul),
    ("terraform/README.md", Scene::Consul),
    ("terraform/modules/tidegate/README.md", Scene::Acl),
];

/// Documents whose commands other tests run, and which.
const ELSEWHERE: [(&str, &str); 1] = [(
    "tools/schema-provider/README.md",
    "slow::terraform builds and starts it, and runs terraform against it",
)];

/// Those that have a test of their own below; the others share one.
const OWN: [&str; 6] = [
    "README.md",
    "docs/operate.md",
    "docs/observe.md",
    "docs/haproxy.md",
    "docs/migration.md",
    "deploy/haproxy/README.md",
];

#[test]
fn the_commands_of_the_readme_run() {
    check("README.md");
}

#[test]
fn the_commands_of_operating_run() {
    check("docs/operate.md");
}

#[test]
fn the_commands_of_looking_run() {
    check("docs/observe.md");
}

#[test]
fn the_commands_of_the_haproxy_side_run() {
    check("docs/haproxy.md");
    check("docs/migration.md");
    check("deploy/haproxy/README.md");
}

#[test]
fn the_commands_of_every_other_document_run() {
    let pages = all();
    let with_commands = pages.iter().filter(|page| !page.blocks_of("sh").is_empty());
    let paths: Vec<_> = with_commands.map(|page| page.path.as_str()).collect();
    let known = SCENES.map(|(path, _)| path).into_iter().chain(OWN);
    for path in known.chain(ELSEWHERE.map(|(path, _)| path)) {
        assert!(paths.contains(&path), "no command stands in {path}");
    }
    for path in paths {
        let elsewhere = ELSEWHERE.iter().any(|(other, _)| *other == path);
        if !elsewhere && !OWN.contains(&path) {
            check(path);
        }
    }
}

/// A command that ends otherwise than its document says is red.
#[test]
fn a_command_that_ends_otherwise_is_noticed() {
    let page = |text: &str| Document {
        path: "docs/nothing.md".to_owned(),
        text: format!("```sh\n{text}\n```\n"),
    };
    for (text, said) in [
        ("tidegate canary --gprd --drian", "it ended with 2"),
        (
            "true # ends with 3: a rail",
            "it ended with 0, the document says 3",
        ),
        ("systemctl frobnicate tidegate", "it ended with 97"),
        ("nothing-of-that-name", "it ended with 127"),
    ] {
        let output = play(&page(text), Scene::Consul);
        assert_eq!(output.code, Some(1), "{text}: {output:?}");
        assert!(output.stdout.contains(said), "{text}: {output:?}");
    }
    let output = play(&page("false # ends with 1: as said"), Scene::Consul);
    assert_eq!(output.code, Some(0), "{output:?}");
}

fn check(path: &str) {
    let other = SCENES.iter().find(|(known, _)| *known == path);
    let scene = other.map_or(Scene::Fleet, |(_, scene)| *scene);
    let output = play(&read(path), scene);
    let text = output.stdout.replace('\r', "");
    println!("{text}");
    assert_eq!(output.code, Some(0), "{path}\n{text}{}", output.stderr);
}

/// Runs the commands of a document, at a terminal at which every question is answered with yes.
fn play(page: &Document, scene: Scene) -> Output {
    assert!(
        rustix::process::geteuid().is_root(),
        "a machine of its own needs root: run this test as root"
    );
    let folder = Folder::new("documents");
    lay_out(folder.path(), page);
    let scene = match scene {
        Scene::Consul => "consul",
        Scene::Fleet => "fleet",
        Scene::Acl => "acl",
    };
    let sandbox = repository().join(HERE).join("sandbox.sh");
    let machine = "unshare --mount --net --pid --fork --kill-child --mount-proc";
    let line = format!(
        "{machine} bash {} {scene} {}",
        sandbox.display(),
        folder.path().display()
    );
    let mut command = Command::new("sh");
    let typing = format!("yes y | head -n 20 | {TERMINAL}");
    command.args(["-c", &typing]).env("COMMAND", line);
    for (name, _) in std::env::vars_os() {
        let ours = ["CONSUL_", "TIDEGATE_", "OTEL_"];
        let of_ours = |name: &str| ours.iter().any(|begin| name.starts_with(begin));
        if name.to_str().is_some_and(of_ours) {
            command.env_remove(name);
        }
    }
    run("documents", &command, DOCUMENT_MAX)
}

/// Writes what the sandbox needs: the story, the programs, a copy of the repository.
fn lay_out(folder: &Path, page: &Document) {
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    };
    write("story.sh", &story(page));
    for name in ["haproxy.cfg", "settings.json"] {
        write(name, &read(&format!("{HERE}/{name}")).text);
    }
    if let Some(block) = page.blocks_of("toml").first() {
        write("tidegate.toml", &block.lines.join("\n"));
    }
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("the folder is ours");
    symlink(env!("CARGO_BIN_EXE_tidegate"), bin.join("tidegate")).expect("the folder is ours");
    let consul = tool("consul");
    let tools = consul.parent().expect("a program lies in a folder");
    // What no document names here may be missing.
    for (name, program) in [
        ("consul", "consul"),
        ("haproxy", "haproxy-2.6"),
        ("kubectl", "kubectl"),
    ] {
        let program = tools.join(program);
        let launcher = format!("#!/bin/sh\nexec {} \"$@\"\n", program.display());
        write(&format!("bin/{name}"), &launcher);
        make_executable(&bin.join(name));
    }
    for file in tracked() {
        let (from, to) = (
            repository().join(&file),
            folder.join("checkout").join(&file),
        );
        let parent = to.parent().expect("a file lies in a folder");
        fs::create_dir_all(parent).expect("the folder is ours");
        if from.is_file() {
            fs::copy(&from, &to).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
    }
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, permissions).expect("the file is ours");
}

/// The commands of a document as `step` of the sandbox takes them.
fn story(page: &Document) -> String {
    let mut story = String::new();
    // Its own files lie beside it.
    let beside = page.path == "deploy/haproxy/README.md";
    if beside {
        story += "cd deploy/haproxy\n";
    }
    for block in page.blocks_of("sh") {
        for (line, text) in commands(&block) {
            let place = format!("{}:{line}", page.path);
            let code = ends_with(&text);
            writeln!(story, "step {place} {code} 9<<'{END}'\n{text}\n{END}")
                .expect("a text takes whatever is written");
        }
    }
    story
}

/// The commands of a block with the line that each begins in: a line that ends in a backslash goes
/// on, and a line of nothing but a comment is none.
fn commands(block: &Block) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (text, line) in block.lines.iter().zip(block.line..) {
        if goes_on {
            let last = commands.last_mut().expect("a line came before");
            write!(last.1, "\n{text}").expect("a text takes whatever is written");
        } else if !text.trim().is_empty() && !text.starts_with('#') {
            commands.push((line, text.clone()));
        } else {
            continue;
        }
        goes_on = text.ends_with('\\');
    }
    commands
}

/// The exit code that the document announces.
fn ends_with(text: &str) -> u32 {
    let said = Regex::new(r"# ends with (\d+)").expect("a constant pattern");
    let code = said.captures(text).and_then(|said| said[1].parse().ok());
    code.unwrap_or(0)
}
