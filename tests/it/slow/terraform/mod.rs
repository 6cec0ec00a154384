//! The Terraform modules: formatted, valid, tested, planned, and their documents complete. No
//! provider is needed; what that cannot prove is said in terraform/README.md.

mod first_start;
mod mistakes;
mod readme;
mod rendered;
mod roles;

use serde_json::{Value, json};

use crate::harness::terraform::{Terraform, Tree, resources};

const MODULES: [&str; 3] = [
    "modules/consul",
    "modules/tidegate",
    "modules/tidegate/slot",
];
const ENVIRONMENTS: [&str; 2] = ["environments/gprd", "environments/gstg"];

#[test]
fn every_file_is_formatted_as_terraform_does_it() {
    let terraform = Terraform::new();
    terraform
        .tree()
        .expect(".", &["fmt", "-check", "-diff", "-recursive"]);
}

#[test]
fn the_modules_own_tests_pass() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    for module in MODULES {
        let output = test(&tree, module, &[]);
        assert!(output.contains("Success!"), "{module}: {output}");
        assert!(output.contains(" 0 failed"), "{module}: {output}");
    }
}

/// Initialises and tests one module; gives what was printed, whether it passed or not.
fn test(tree: &Tree<'_>, module: &str, arguments: &[&str]) -> String {
    tree.expect(module, &["init", "-no-color", "-input=false"]);
    let arguments = [&["test", "-no-color"], arguments].concat();
    let output = tree.run(module, &arguments);
    output.stdout + &output.stderr
}

#[test]
fn the_environments_are_valid_as_they_stand() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    for environment in ENVIRONMENTS {
        tree.expect(environment, &["init", "-backend=false", "-input=false"]);
        tree.expect(environment, &["validate"]);
    }
}

#[test]
fn the_environments_plan_three_replicas_a_balancer_and_the_roles() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    for environment in ENVIRONMENTS {
        let plan = plan(&tree, environment);
        let count = |kind: &str| {
            let all = resources(&plan);
            all.iter()
                .filter(|resource| resource["type"] == kind)
                .count()
        };
        for (kind, expected) in [
            ("google_compute_region_instance_group_manager", 3),
            ("google_compute_region_instance_template", 3),
            ("google_compute_address", 4),
            ("google_compute_firewall", 4),
            ("google_compute_region_health_check", 2),
            ("google_compute_forwarding_rule", 1),
            ("google_secret_manager_secret_iam_member", 2),
            ("consul_acl_policy", 3),
        ] {
            assert_eq!(count(kind), expected, "{environment}: {kind}");
        }
        assert_eq!(
            count("google_project_iam_member"),
            0,
            "no right on the project"
        );
    }
}

/// Side by side, all three would be away at once.
#[test]
fn the_replicas_are_changed_one_after_the_other() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    assert_eq!(order(&tree), Ok(()));
    tree.change(
        "modules/tidegate/main.tf",
        "  depends_on = [module.second]\n",
        "",
    );
    order(&tree).expect_err("the third no longer waits for the second");
}

/// In Terraform's own graph, each replica's group waits for the one before it.
fn order(tree: &Tree<'_>) -> Result<(), String> {
    let module = "modules/tidegate";
    tree.expect(module, &["init", "-no-color", "-input=false"]);
    let graph = tree.expect(module, &["graph"]).stdout;
    let group = "google_compute_region_instance_group_manager.replica";
    for (later, earlier) in [("second", "first"), ("third", "second")] {
        let template = "google_compute_region_instance_template.replica";
        // The later replica's first resource waits for the earlier one's last.
        let edge = format!("\"module.{later}.{template}\" -> \"module.{earlier}.{group}\"");
        if !graph.contains(&edge) {
            return Err(format!("no {edge} in\n{graph}"));
        }
    }
    Ok(())
}

fn plan(tree: &Tree<'_>, environment: &str) -> Value {
    tree.keep_state_here(environment);
    tree.plan(environment, &json!({}))
}

/// What a plan fails with, if it does.
fn plan_fails(tree: &Tree<'_>, environment: &str) -> Option<String> {
    tree.keep_state_here(environment);
    for command in ["init", "plan"] {
        let output = tree.run(environment, &[command, "-no-color", "-input=false"]);
        if output.code != Some(0) {
            return Some(output.stdout + &output.stderr);
        }
    }
    None
}
