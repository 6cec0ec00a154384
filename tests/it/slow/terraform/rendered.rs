//! What the module renders is what the programs take.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{ENVIRONMENTS, plan};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::process::run;
use crate::harness::state_folder::StateFolder;
use crate::harness::terraform::{Terraform, Tree, resources};
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::PATIENCE;

/// A file that a new instance writes.
pub(super) struct Rendered {
    path: String,
    text: String,
}

#[test]
fn the_configuration_of_each_replica_passes_check_config() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    for environment in ENVIRONMENTS {
        let instances = instances(&tree, environment);
        let mut digests = Vec::new();
        for files in &instances {
            let config = text_of(files, "/etc/tidegate/tidegate.toml");
            let file = tree.path().join("tidegate.toml");
            std::fs::write(&file, config).expect("the tree is writable");
            // The credentials that systemd hands over lie elsewhere here.
            std::fs::write(tree.path().join("consul-token"), "secret").expect("writable");
            let variables = text_of(files, "/etc/default/tidegate").replace(
                "/run/credentials/tidegate.service",
                &tree.path().display().to_string(),
            );
            let variables = variables_of(&variables);
            let file = file.display().to_string();
            let output = tidegate(&["check-config", &file], &variables);
            assert_eq!(output.code, Some(0), "{config}\n{output:?}");
            let digest = output.stdout.lines().last().map(str::to_owned);
            digests.push(digest.expect("the digest is printed last"));
        }
        assert_eq!(digests.len(), 3, "{environment}");
        digests.dedup();
        assert_eq!(
            digests.len(),
            1,
            "the same settings in all replicas: {digests:?}"
        );
    }
}

#[test]
fn a_configuration_that_the_program_does_not_know_is_noticed() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    let template = "modules/tidegate/files/tidegate.toml.tftpl";
    tree.change(template, "drain_for =", "drain_time =");
    let files = &instances(&tree, ENVIRONMENTS[0])[0];
    let file = tree.path().join("tidegate.toml");
    std::fs::write(&file, text_of(files, "/etc/tidegate/tidegate.toml")).expect("writable");
    let output = tidegate(&["check-config", &file.display().to_string()], &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("drain_time"), "{output:?}");
}

#[test]
fn the_scripts_of_a_new_instance_can_be_read_by_its_shell() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    let files = &instances(&tree, ENVIRONMENTS[0])[0];
    let mut scripts = 0;
    for file in files
        .iter()
        .filter(|file| file.text.starts_with("#!/bin/sh\n"))
    {
        let path = tree.path().join("script");
        std::fs::write(&path, &file.text).expect("the tree is writable");
        let mut command = Command::new("sh");
        command.arg("-n").arg(&path);
        let output = run("sh", &command, PATIENCE);
        assert_eq!(output.code, Some(0), "{}: {output:?}", file.path);
        scripts += 1;
    }
    assert_eq!(scripts, 2, "the secrets and the package");
}

/// What the scripts fetch, the unit of the package hands over, and the configuration takes.
#[test]
fn the_secrets_go_from_where_they_are_fetched_to_where_they_are_read() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    let files = &instances(&tree, ENVIRONMENTS[0])[0];
    let fetched = text_of(files, "/usr/local/sbin/tidegate-secrets");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd/tidegate.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is there");
    let read = [
        text_of(files, "/etc/tidegate/tidegate.toml"),
        text_of(files, "/etc/default/tidegate"),
    ]
    .concat();
    let credentials: Vec<_> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("LoadCredential=")?.split_once(':'))
        .collect();
    // Those of the HTTP listener are for who gives it a token or a certificate: the module does not.
    let of_module = |(id, _): &&(&str, &str)| !id.starts_with("http-");
    let ours: Vec<_> = credentials.iter().filter(of_module).collect();
    assert_eq!((ours.len(), credentials.len()), (2, 4), "{credentials:?}");
    for (id, name) in ours {
        assert!(
            fetched.contains(&format!(" '{name}'\n")),
            "{name}: {fetched}"
        );
        let place = format!("/run/credentials/tidegate.service/{id}");
        assert!(read.contains(&place), "{place}: {read}");
    }
}

#[test]
fn haproxy_accepts_the_words_and_tidegate_answers_their_request() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    let plan = plan(&tree, ENVIRONMENTS[0]);
    let words = plan["planned_values"]["outputs"]["agent_check"]["value"]
        .as_object()
        .expect("the words are known before anything is made");
    let state = StateFolder::new();
    state.put("canary-state", "40%");
    let service = Tidegate::start(&["--kv", &state.kv()]);
    assert!(words.contains_key("web/gke-cny-web"), "{words:?}");
    for (id, words) in words {
        let words = words.as_str().expect("the words are text");
        let (backend, server) = id.split_once('/').expect("backend/server");
        let config = format!(
            "global\n  setenv LB_ZONE us-east1-b\ndefaults\n  mode http\n  timeout connect 1s\n  \
             timeout client 1s\n  timeout server 1s\nbackend {backend}\n  \
             server {server} 127.0.0.1:1 check weight 100 {words}\n"
        );
        for version in Version::ALL {
            assert_eq!(Haproxy::accepts(version, &config), Ok(()), "{config}");
        }
        let line = words.split('"').nth(1).expect("agent-send is in quotes");
        let line = line.trim_end_matches("\\n");
        let line = line
            .replace("${HAPROXY_LOCALPEER}", "lb-1")
            .replace("${LB_ZONE}", "us-east1-b");
        let expected = if line.contains(" canary ") {
            "up ready 40%"
        } else {
            "up ready 100%"
        };
        assert_eq!(service.ask_line(&line), expected, "{line}");
    }
}

/// By slot, the files that cloud-init writes. They are YAML, which Terraform reads.
pub(super) fn instances(tree: &Tree<'_>, environment: &str) -> Vec<Vec<Rendered>> {
    const READ: &str = "variable \"text\" { type = string }
output \"files\" { value = yamldecode(var.text).write_files }\n";
    std::fs::create_dir_all(tree.path().join("read")).expect("the tree is writable");
    std::fs::write(tree.path().join("read/main.tf"), READ).expect("the tree is writable");
    let plan = plan(tree, environment);
    let templates = resources(&plan);
    let templates = templates
        .iter()
        .filter(|resource| resource["type"] == "google_compute_region_instance_template");
    templates
        .map(|template| {
            let user_data = &template["values"]["metadata"]["user-data"];
            let read = tree.plan("read", &json!({ "text": user_data }));
            let files = &read["planned_values"]["outputs"]["files"]["value"];
            let files = files.as_array().expect("cloud-init writes files").iter();
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            files
                .map(|file| Rendered {
                    path: text(&file["path"]),
                    text: text(&file["content"]),
                })
                .collect()
        })
        .collect()
}

pub(super) fn text_of<'a>(files: &'a [Rendered], path: &str) -> &'a str {
    let file = files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("{path} is not written")).text
}

/// What systemd makes of an environment file of plain lines.
fn variables_of(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().map(|line| line.split_once('='));
    pairs
        .map(|pair| pair.expect("a line is NAME=VALUE"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
