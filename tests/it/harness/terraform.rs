//! Terraform over copies of the repository's `terraform/`, with a stand-in for its providers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::copied::Copied;
use super::folder::Folder;
use super::process::{Output, Process, run};
use super::wait::{PATIENCE, check, eventually};

/// The stand-in is compiled by the first test that needs it.
const BUILD_MAX: Duration = Duration::from_mins(4);
/// All of a module's own tests, on a loaded machine.
const RUN_MAX: Duration = Duration::from_mins(2);

const STAND_IN: &str = "tools/schema-provider";

/// The running stand-in, which any number of copies share.
pub(crate) struct Terraform {
    /// Held for its end.
    _provider: Process,
    /// The value of `TF_REATTACH_PROVIDERS`.
    reattach: String,
    folder: Folder,
}

/// A copy of `terraform/` that a test may change.
pub(crate) struct Tree<'a> {
    terraform: &'a Terraform,
    copied: Copied,
}

impl Terraform {
    /// Builds the stand-in where that is needed, and starts it.
    pub(crate) fn new() -> Self {
        let folder = Folder::new("terraform");
        let mut command = Command::new(build());
        command.arg(folder.path());
        let schemas = ["google", "consul"];
        command
            .args(schemas.map(|name| repository().join(format!("{STAND_IN}/schemas/{name}.json"))));
        let mut provider = Process::start("schema-provider", folder.path(), &command);
        let reattach = eventually("the stand-in says where it listens", PATIENCE, || {
            provider.assert_running();
            let text = provider.log_text();
            check(text.ends_with('\n'), || text.clone())?;
            Ok(text.trim().to_owned())
        });
        // Read instead of the settings of whoever runs the tests.
        folder.write("terraform.rc", "");
        Self {
            _provider: provider,
            reattach,
            folder,
        }
    }

    /// A copy of the modules and environments as they are in the repository.
    pub(crate) fn tree(&self) -> Tree<'_> {
        Tree {
            terraform: self,
            copied: Copied::of("terraform"),
        }
    }
}

impl Tree<'_> {
    /// The copy itself.
    pub(crate) fn copied(&self) -> &Copied {
        &self.copied
    }

    pub(crate) fn path(&self) -> &Path {
        self.copied.path()
    }

    /// See [`Copied::change`].
    pub(crate) fn change(&self, file: &str, old: &str, new: &str) {
        self.copied.change(file, old, new);
    }

    /// Keeps an environment's state in the tree instead of where it says.
    pub(crate) fn keep_state_here(&self, environment: &str) {
        let file = format!("{environment}/backend_override.tf");
        self.copied
            .write(&file, "terraform {\n  backend \"local\" {}\n}\n");
    }

    /// One command of Terraform in a folder of the tree.
    pub(crate) fn run(&self, folder: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        command
            .current_dir(self.copied.join(folder))
            .args(arguments)
            .env("TF_REATTACH_PROVIDERS", &self.terraform.reattach)
            .env(
                "TF_CLI_CONFIG_FILE",
                self.terraform.folder.join("terraform.rc"),
            )
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1");
        run("terraform-command", &command, RUN_MAX)
    }

    /// The same; anything but success fails the test.
    pub(crate) fn expect(&self, folder: &str, arguments: &[&str]) -> Output {
        let output = self.run(folder, arguments);
        assert_eq!(output.code, Some(0), "terraform {arguments:?}: {output:?}");
        output
    }

    /// What a folder would make of a file of variables (JSON), as `terraform show -json` says it.
    pub(crate) fn plan(&self, folder: &str, variables: &Value) -> Value {
        let file = self
            .copied
            .write("variables.tfvars.json", &variables.to_string());
        let file = format!("-var-file={}", file.display());
        self.expect(folder, &["init", "-no-color", "-input=false"]);
        self.expect(
            folder,
            &["plan", "-no-color", "-input=false", "-out=plan", &file],
        );
        let shown = self.expect(folder, &["show", "-json", "plan"]).stdout;
        serde_json::from_str(&shown).expect("Terraform shows plans in JSON")
    }
}

/// All resources of a plan, those of its modules included.
pub(crate) fn resources(plan: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut modules = vec![&plan["planned_values"]["root_module"]];
    while let Some(module) = modules.pop() {
        found.extend(module["resources"].as_array().into_iter().flatten());
        modules.extend(module["child_modules"].as_array().into_iter().flatten());
    }
    found
}

/// `terraform` of the `PATH`. A missing one fails the test: skipping would prove nothing.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("terraform"));
    places.find(|place| place.is_file()).unwrap_or_else(|| {
        panic!("terraform is missing: put version 1.9 or newer on the PATH; see scripts/setup")
    })
}

/// The stand-in's program. Where nothing changed, cargo has nothing to do.
fn build() -> PathBuf {
    let manifest = repository().join(STAND_IN).join("Cargo.toml");
    let target = repository().join(STAND_IN).join("target");
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--locked", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target);
    let output = run("build-schema-provider", &command, BUILD_MAX);
    assert_eq!(output.code, Some(0), "cannot build {STAND_IN}: {output:?}");
    target.join("debug/schema-provider")
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
