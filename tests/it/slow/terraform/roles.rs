//! The policies, roles, login and keys of a plan, applied to a real Consul: each role can do what
//! it must, and no more.

use serde_json::{Value, json};

use crate::harness::consul::Consul;
use crate::harness::issuer::{AUDIENCE, ISSUER, Issuer};
use crate::harness::terraform::{Terraform, Tree, resources};
use crate::harness::tidegate::{Tidegate, consul_environment_as, tidegate};
use crate::harness::wait::PATIENCE;

const MODULE: &str = "modules/consul";
const RESPONDER: &str = "tidegate-gprd-responder";
const OPERATOR: &str = "tidegate-gprd-operator";
const PIPELINE: &str = "tidegate-gprd-pipeline";
const CANARY: &str = "web/gke-cny-web canary node=lb-1 zone=us-east1-b";

/// Which keys who may write; everybody may list the environment, and nothing else.
const KEYS: [(&str, &[&str]); 14] = [
    ("frontend/gprd/_meta", &[OPERATOR, PIPELINE]),
    ("frontend/gprd/canary-state", &[OPERATOR, PIPELINE]),
    ("frontend/gprd/deploys/cny", &[OPERATOR, PIPELINE]),
    ("frontend/gprd/group-states/main", &[OPERATOR]),
    ("frontend/gprd/server-overrides/web/gke-b", &[OPERATOR]),
    ("frontend/gprd/zones/us-east1-b/canary-state", &[OPERATOR]),
    ("frontend/gprd/nodes/lb-1/canary-state", &[OPERATOR]),
    ("frontend-history/gprd/01", &[OPERATOR, PIPELINE]),
    ("frontend/gprd/settings", &[]),
    ("frontend/gprd/canary-state-2", &[]),
    ("frontend/gstg/canary-state", &[]),
    ("frontend-history/gstg/01", &[]),
    ("frontend/gprd2/canary-state", &[]),
    ("elsewhere", &[]),
];

/// A Consul with everything that a plan holds.
struct Applied {
    consul: Consul,
    issuer: Issuer,
}

#[test]
fn each_role_writes_its_keys_and_no_other_whether_listings_need_a_right_or_not() {
    let terraform = Terraform::new();
    let tree = terraform.tree();
    for consul in [Consul::dev_with_acl(), Consul::dev_with_filtering_acl()] {
        let applied = Applied::new(&tree, consul);
        assert_eq!(applied.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_policy_that_gives_more_or_less_is_noticed() {
    let terraform = Terraform::new();
    for (policy, old, new, noticed) in [
        (
            "responder",
            "policy = \"list\"",
            "policy = \"write\"",
            "tidegate-gprd-responder may write",
        ),
        (
            "responder",
            "${root}/${environment}/",
            "${root}/",
            "tidegate-gprd-responder lists frontend/gstg/",
        ),
        (
            "responder",
            "policy = \"list\"",
            "policy = \"read\"",
            "tidegate-gprd-responder cannot list",
        ),
        (
            "pipeline",
            "key \"${root}/${environment}/canary-state\"",
            "key_prefix \"${root}/${environment}/canary-state\"",
            "canary-state-2",
        ),
        (
            "pipeline",
            "${root}-history/${environment}/",
            "${root}-history/",
            "frontend-history/gstg/01",
        ),
        (
            "operator",
            "server-overrides/\"",
            "server-override/\"",
            "cannot write frontend/gprd/server-overrides",
        ),
    ] {
        let tree = terraform.tree();
        tree.change(&format!("{MODULE}/policies/{policy}.hcl.tftpl"), old, new);
        let found = Applied::new(&tree, Consul::dev_with_acl()).violations();
        let is_noticed = found.iter().any(|line| line.contains(noticed));
        assert!(is_noticed, "{policy}: {new} for {old}: {found:#?}");
    }
}

#[test]
fn the_service_serves_what_terraform_bootstrapped_and_operators_change_it() {
    let terraform = Terraform::new();
    let applied = Applied::new(&terraform.tree(), Consul::dev_with_acl());
    let consul = &applied.consul;
    let service = Tidegate::start_as(consul, &applied.token(RESPONDER));
    assert_eq!(service.ask_line(CANARY), "up ready 100%");
    assert_eq!(service.problems(), vec![]);

    let operator = consul_environment_as(consul, &applied.token(OPERATOR));
    let replica = format!("http://{}", service.http());
    let run = |arguments: &[&str]| {
        let arguments = [arguments, &["--replica", &replica]].concat();
        let output = tidegate(&arguments, &operator);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    };
    run(&["canary", "--gprd", "--drain", "--reason", "bad deploy"]);
    service.await_answer(CANARY, "up drain", PATIENCE);
    run(&["canary", "--gprd", "--ready", "--zone", "us-east1-b"]);
    service.await_answer(CANARY, "up ready 100%", PATIENCE);
    run(&[
        "set",
        "--env",
        "gprd",
        "maint",
        "web/gke-cny-web",
        "--now",
        "--yes",
        "--reason",
        "disk",
    ]);
    service.await_answer(CANARY, "up maint", PATIENCE);
    run(&["clear", "--env", "gprd", "web/gke-cny-web", "--yes"]);
    service.await_answer(CANARY, "up ready 100%", PATIENCE);
    run(&["canary", "--gprd", "--clear", "--zone", "us-east1-b"]);
    service.await_answer(CANARY, "up drain", PATIENCE);
}

#[test]
fn a_pipeline_signs_in_and_may_change_the_canary_and_nothing_else() {
    let terraform = Terraform::new();
    let applied = Applied::new(&terraform.tree(), Consul::dev_with_acl());
    let job = applied.job("release");
    for arguments in [
        &["deploy", "start", "--env", "gprd", "cny"][..],
        &["deploy", "finish", "--env", "gprd", "cny"],
        &["canary", "--gprd", "--drain", "--reason", "rollback"],
        &["history", "--env", "gprd"],
        &["canary", "--gprd", "--ready"],
    ] {
        let output = tidegate(arguments, &job);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    }
    let server = [
        "set",
        "--env",
        "gprd",
        "drain",
        "web/gke-cny-web",
        "--yes",
        "--reason",
        "x",
    ];
    let output = tidegate(&server, &job);
    assert_ne!(output.code, Some(0), "{output:?}");
    assert!(
        output.stderr.contains("403") || output.stderr.contains("ermission"),
        "{output:?}"
    );

    let other = tidegate(&["canary", "--gprd", "--drain"], &applied.job("somebody"));
    assert_eq!(
        other.code,
        Some(6),
        "not the job that the selector names: {other:?}"
    );
    assert_eq!(
        applied.consul.login_tokens(),
        Vec::<String>::new(),
        "all signed out"
    );
}

impl Applied {
    /// Plans the module and writes what the plan holds.
    fn new(tree: &Tree<'_>, consul: Consul) -> Self {
        let issuer = Issuer::new();
        let variables = json!({
            "environment": "gprd",
            "operators": ["sre"],
            "bootstrap": { "epoch": 1_767_225_600 },
            "settings": {
                "rails": { "floors": { "default": 1 } },
                "rows": [{ "server": "web/gke-cny-web", "groups": ["canary"] }],
            },
            "pipeline": {
                "issuer": ISSUER,
                "audiences": [AUDIENCE],
                "public_keys": [issuer.public_pem()],
                "algorithms": ["ES256"],
                "claim_mappings": { "sub": "sub" },
                "selector": "value.sub == \"release\"",
            },
        });
        let plan = tree.plan(MODULE, &variables);
        // What refers to something stands behind it.
        for kind in [
            "consul_acl_policy",
            "consul_acl_role",
            "consul_acl_auth_method",
            "consul_acl_binding_rule",
            "consul_keys",
        ] {
            let all = resources(&plan);
            let found: Vec<_> = all
                .iter()
                .filter(|resource| resource["type"] == kind)
                .collect();
            assert!(!found.is_empty(), "the plan has no {kind}");
            for resource in found {
                apply(&consul, kind, &resource["values"]);
            }
        }
        Self { consul, issuer }
    }

    /// The secret of a new token of a role.
    fn token(&self, role: &str) -> String {
        let token = json!({ "Roles": [{ "Name": role }] });
        let token = self.consul.acl_write("/v1/acl/token", &token);
        let secret = token["SecretID"].as_str();
        secret.expect("a new token has a secret").to_owned()
    }

    /// The variables of a CI job whose identity token is for this subject.
    fn job(&self, subject: &str) -> Vec<(String, String)> {
        let bearer = self.issuer.token(subject);
        [
            ("CONSUL_HTTP_ADDR", self.consul.url()),
            ("TIDEGATE_CONSUL_LOGIN_METHOD", PIPELINE.to_owned()),
            ("TIDEGATE_CONSUL_BEARER_TOKEN", bearer),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// What a role can do and should not, or the other way round.
    fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for role in [RESPONDER, OPERATOR, PIPELINE] {
            let token = self.token(role);
            let status = |method: &str, path: &str| {
                let answer = self.consul.call_as(Some(&token), method, path, b"x");
                answer.status
            };
            // So that there is something to list, and to delete.
            for (key, _) in KEYS {
                self.consul.kv_put(key, "x");
            }
            if status("GET", "/v1/kv/frontend/gprd/?recurse") != 200 {
                found.push(format!("{role} cannot list frontend/gprd/"));
            }
            if status("GET", "/v1/kv/frontend/gstg/?recurse") == 200 {
                found.push(format!("{role} lists frontend/gstg/"));
            }
            for prefix in [
                "frontend/gprd/",
                "frontend/gprd",
                "frontend/",
                "frontend-history/",
            ] {
                if status("DELETE", &format!("/v1/kv/{prefix}?recurse")) == 200 {
                    found.push(format!("{role} may delete all of {prefix}"));
                }
            }
            for (key, writers) in KEYS {
                let writes = status("PUT", &format!("/v1/kv/{key}")) == 200;
                match (writes, writers.contains(&role)) {
                    (true, false) => found.push(format!("{role} may write {key}")),
                    (false, true) => found.push(format!("{role} cannot write {key}")),
                    (true, true) | (false, false) => {}
                }
            }
            if status("PUT", "/v1/acl/policy") == 200 || status("GET", "/v1/snapshot") == 200 {
                found.push(format!("{role} may do what only the root token may"));
            }
        }
        found
    }
}

/// One resource of the plan, as the provider would write it.
fn apply(consul: &Consul, kind: &str, values: &Value) {
    let text = |name: &str| values[name].as_str().expect("known in the plan");
    match kind {
        "consul_acl_policy" => consul.policy(text("name"), text("rules")),
        "consul_acl_role" => {
            // A role's policy has an id only then; the module's own tests say that it is its own.
            let role = json!({ "Name": text("name"), "Policies": [{ "Name": text("name") }] });
            consul.acl_write("/v1/acl/role", &role);
        }
        "consul_acl_auth_method" => {
            let config: Value = serde_json::from_str(text("config_json")).expect("JSON");
            let method = json!({
                "Name": text("name"), "Type": text("type"),
                "MaxTokenTTL": text("max_token_ttl"), "Config": config,
            });
            consul.acl_write("/v1/acl/auth-method", &method);
        }
        "consul_acl_binding_rule" => {
            let rule = json!({
                "AuthMethod": text("auth_method"), "BindType": text("bind_type"),
                "BindName": text("bind_name"), "Selector": text("selector"),
            });
            consul.acl_write("/v1/acl/binding-rule", &rule);
        }
        "consul_keys" => {
            for key in values["key"].as_array().expect("keys are blocks") {
                let text = |name: &str| key[name].as_str().expect("known in the plan");
                consul.kv_put(text("path"), text("value"));
            }
        }
        other => panic!("{other} is not applied"),
    }
}
