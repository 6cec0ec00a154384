//! Planted mistakes: each must turn red, and for its own reason.

use super::{plan_fails, test};
use crate::harness::copied::{Mistake, mistake};
use crate::harness::terraform::Terraform;

const BALANCER: &str = "modules/tidegate/balancer.tf";
const CLOUD_INIT: &str = "modules/tidegate/cloud_init.tf";
const CONFIG: &str = "modules/tidegate/files/tidegate.toml.tftpl";
const CONSUL: &str = "modules/consul/main.tf";
const FIREWALLS: &str = "modules/tidegate/firewalls.tf";
const GPRD: &str = "environments/gprd/main.tf";
const MAIN: &str = "modules/tidegate/main.tf";
const OUTPUTS: &str = "modules/tidegate/outputs.tf";
const SLOT: &str = "modules/tidegate/slot/main.tf";

/// What `terraform validate` knows by the schemas.
const AGAINST_THE_SCHEMAS: &[Mistake] = &[
    mistake(
        BALANCER,
        "  session_affinity ",
        "  session_afinity ",
        "Unsupported argument",
    ),
    mistake(
        FIREWALLS,
        "  source_service_accounts ",
        "  source_accounts ",
        "Unsupported argument",
    ),
    mistake(
        SLOT,
        "  stateful_internal_ip {",
        "  stateful_ip {",
        "Unsupported block type",
    ),
    mistake(
        SLOT,
        "  target_size               = 1",
        "  target_size               = \"one\"",
        "a number is required",
    ),
    mistake(
        SLOT,
        "    minimal_action                 = \"REPLACE\"\n",
        "",
        "Missing required argument",
    ),
    mistake(
        SLOT,
        "    initial_delay_sec = 300\n",
        "",
        "Missing required argument",
    ),
    mistake(
        MAIN,
        "google_service_account.replica.email\n",
        "google_service_account.replica.mail\n",
        "Unsupported attribute",
    ),
    mistake(
        MAIN,
        "google_compute_region_health_check.healing.id",
        "google_compute_region_health_check.heal.id",
        "Reference to undeclared resource",
    ),
    mistake(
        OUTPUTS,
        "google_compute_forwarding_rule.agent.ip_address",
        "google_compute_forwarding_rule.agent.address",
        "Unsupported attribute",
    ),
    mistake(
        CONSUL,
        "  bind_type   =",
        "  bind_kind   =",
        "Unsupported argument",
    ),
    mistake(
        CONSUL,
        "  policies    = [consul_acl_policy.role[each.key].id]",
        "  policies    = { id = 1 }",
        "set of string required",
    ),
];

/// What the modules' own tests know. Mistakes of one batch are planted together, which saves
/// minutes: each is noticed by words of its own. The first fails the plan itself, so it is alone.
const AGAINST_THE_TESTS: &[&[Mistake]] = &[
    &[mistake(
        MAIN,
        "  drain_for_s    = local.probe_notice_s + 3",
        "  drain_for_s    = var.probe.interval_s",
        "must answer longer than the probe",
    )],
    &[
        mistake(
            MAIN,
            "  stop_timeout_s = local.drain_for_s + 10",
            "  stop_timeout_s = local.drain_for_s + 1",
            "systemd waits longer",
        ),
        mistake(
            CONFIG,
            "drain_for = \"${drain_for_s}s\"",
            "drain_for = \"8s\"",
            "The configuration says the same",
        ),
        mistake(
            CONFIG,
            "${name} = \"${url}\"",
            "${name} = \"http://10.0.9.9:8791\"",
            "the same list of all replicas",
        ),
        mistake(
            FIREWALLS,
            "tostring(var.agent_port)",
            "tostring(var.http_port)",
            "HAProxy nodes to the agent port",
        ),
        mistake(
            FIREWALLS,
            "\"35.191.0.0/16\", ",
            "",
            "The probers to the HTTP port",
        ),
        mistake(
            BALANCER,
            "[tostring(var.agent_port)]",
            "[tostring(var.agent_port), tostring(var.http_port)]",
            "The agent port, inside the network",
        ),
        mistake(
            BALANCER,
            "request_path = \"/livez\"",
            "request_path = \"/readyz\"",
            "never for want of readiness",
        ),
        mistake(
            MAIN,
            "roles/secretmanager.secretAccessor",
            "roles/secretmanager.admin",
            "secretAccessor on the two secrets",
        ),
        mistake(
            CLOUD_INIT,
            "[[\"/usr/local/sbin/tidegate-secrets\"], [\"/usr/local/sbin/tidegate-install\"]]",
            "[[\"/usr/local/sbin/tidegate-install\"]]",
            "The secrets are there before",
        ),
        mistake(
            OUTPUTS,
            "base=${row.weight}",
            "base=100",
            "A line's words per server",
        ),
    ],
    &[
        mistake(
            CONFIG,
            "slot = \"${slot}\"",
            "slot = \"a\"",
            "names its own slot",
        ),
        mistake(
            FIREWALLS,
            "length(var.http_ranges) == 0 ? 0 : 1",
            "1",
            "a rule without a source",
        ),
        mistake(
            BALANCER,
            "request_path = \"/readyz\"",
            "request_path = \"/livez\"",
            "The balancer asks /readyz",
        ),
        mistake(
            BALANCER,
            "[google_compute_region_health_check.ready.id]",
            "[google_compute_region_health_check.healing.id]",
            "the one for readiness",
        ),
        mistake(
            BALANCER,
            "[module.first, module.second, module.third]",
            "[module.first, module.second]",
            "To three groups",
        ),
        mistake(
            MAIN,
            "toset([var.consul.token_secret, var.peers_secret.secret])",
            "toset([var.consul.token_secret])",
            "secretAccessor on the two secrets",
        ),
    ],
    &[
        mistake(
            SLOT,
            "max_surge_fixed                = 0",
            "max_surge_fixed                = 1",
            "on one machine only",
        ),
        mistake(
            SLOT,
            "    network_ip = var.slot.address\n",
            "",
            "With its fixed address",
        ),
        mistake(
            SLOT,
            "    email = var.instance.service_account\n",
            "",
            "As its own account",
        ),
        mistake(
            SLOT,
            "  wait_for_instances        = true\n",
            "  wait_for_instances        = false\n",
            "waits for it before",
        ),
    ],
    &[
        mistake(
            CONSUL,
            "    ignore_changes = all\n",
            "",
            "take the history back",
        ),
        mistake(
            CONSUL,
            "[consul_acl_role.role[\"responder\"].name]",
            "[consul_acl_role.role[\"operator\"].name]",
            "may read only",
        ),
        mistake(
            CONSUL,
            "  max_token_ttl = var.pipeline.max_token_ttl\n",
            "",
            "whose tokens end",
        ),
    ],
];

/// What the variables refuse in an environment.
const AGAINST_THE_VALUES: &[Mistake] = &[
    mistake(
        GPRD,
        "zone = \"us-east1-c\", address",
        "zone = \"us-east1-b\", address",
        "each in a zone of its own",
    ),
    mistake(
        GPRD,
        "address = \"10.20.9.11\"",
        "address = \"10.20.9.10\"",
        "addresses that differ",
    ),
    mistake(GPRD, "\"10.20.0.0/24\"", "\"0.0.0.0/0\"", "not everybody"),
    mistake(GPRD, "  rails = {", "  rail = {", "is a misspelling"),
    mistake(
        GPRD,
        "  peers_secret = { secret = \"tidegate-peers-token\" }\n",
        "",
        "Missing required argument",
    ),
    mistake(
        GPRD,
        "module.tidegate.replicas",
        "module.tidegate.replica",
        "Unsupported attribute",
    ),
];

#[test]
fn the_schemas_turn_mistakes_red() {
    let terraform = Terraform::new();
    for mistake in AGAINST_THE_SCHEMAS {
        let tree = terraform.tree();
        mistake.plant(tree.copied());
        let module = module_of(mistake.file);
        let init = ["init", "-no-color", "-input=false"];
        let mut output = tree.run(module, &init);
        if output.code == Some(0) {
            output = tree.run(module, &["validate", "-no-color"]);
        }
        expect_said(
            mistake,
            output.code == Some(0),
            &(output.stdout + &output.stderr),
        );
    }
}

#[test]
fn the_modules_own_tests_turn_mistakes_red() {
    let terraform = Terraform::new();
    for batch in AGAINST_THE_TESTS {
        let tree = terraform.tree();
        for mistake in *batch {
            mistake.plant(tree.copied());
        }
        let module = module_of(batch[0].file);
        let main = match module {
            "modules/consul" => "-filter=tests/consul.tftest.hcl",
            "modules/tidegate" => "-filter=tests/replicas.tftest.hcl",
            _ => "-filter=tests/slot.tftest.hcl",
        };
        let said = test(&tree, module, &[main]);
        for mistake in *batch {
            expect_said(mistake, said.contains("Success!"), &said);
        }
    }
}

#[test]
fn the_variables_turn_bad_values_of_an_environment_red() {
    let terraform = Terraform::new();
    for mistake in AGAINST_THE_VALUES {
        let tree = terraform.tree();
        mistake.plant(tree.copied());
        let said = plan_fails(&tree, module_of(mistake.file));
        expect_said(mistake, said.is_none(), &said.unwrap_or_default());
    }
}

/// Terraform breaks lines where it likes, behind a bar.
fn expect_said(mistake: &Mistake, passed: bool, said: &str) {
    let words = said.replace('│', " ");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    mistake.expect_noticed(passed, &words);
}

/// The folder in which Terraform runs for a file.
fn module_of(file: &str) -> &str {
    [
        "modules/tidegate/slot",
        "modules/tidegate",
        "modules/consul",
        "environments/gprd",
    ]
    .into_iter()
    .find(|module| file.starts_with(module))
    .expect("the file lies in a module or an environment")
}
