# Roles, tokens and keys. What the policies allow is tested against a real Consul, not here.

mock_provider "consul" {}

variables {
  environment = "gprd"
}

run "each_role_has_its_policy" {
  assert {
    condition     = output.policies == { operator = "tidegate-gprd-operator", pipeline = "tidegate-gprd-pipeline", responder = "tidegate-gprd-responder" }
    error_message = "Three roles."
  }

  assert {
    condition     = alltrue([for role in ["operator", "pipeline", "responder"] : consul_acl_role.role[role].policies == toset([consul_acl_policy.role[role].id])])
    error_message = "Each role has its own policy and no other."
  }

  assert {
    condition     = consul_acl_token.responder.roles == toset(["tidegate-gprd-responder"])
    error_message = "The replicas' token may read only."
  }

  assert {
    condition     = length(consul_acl_token.operator) == 0 && length(consul_acl_auth_method.pipeline) == 0 && length(consul_keys.bootstrap) == 0 && length(consul_keys.settings) == 0
    error_message = "Nothing that was not asked for."
  }
}

run "operators_have_a_token_each" {
  variables {
    operators = ["ann", "bob"]
  }

  assert {
    condition     = sort(keys(output.operator_accessors)) == tolist(["ann", "bob"]) && alltrue([for token in values(consul_acl_token.operator) : token.roles == toset(["tidegate-gprd-operator"])])
    error_message = "A token each, of the role operator."
  }
}

run "jobs_sign_in" {
  variables {
    pipeline = {
      issuer    = "https://gitlab.example"
      audiences = ["https://consul.example"]
      jwks_url  = "https://gitlab.example/oauth/discovery/keys"
      selector  = "value.project_path == \"release/deployer\""
    }
  }

  assert {
    condition     = jsondecode(consul_acl_auth_method.pipeline[0].config_json).BoundIssuer == "https://gitlab.example" && jsondecode(consul_acl_auth_method.pipeline[0].config_json).BoundAudiences == ["https://consul.example"]
    error_message = "Tokens of this issuer, for this audience."
  }

  assert {
    condition     = consul_acl_auth_method.pipeline[0].type == "jwt" && consul_acl_auth_method.pipeline[0].max_token_ttl == "30m" && output.login_method == "tidegate-gprd-pipeline"
    error_message = "A JWT method whose tokens end."
  }

  assert {
    condition     = consul_acl_binding_rule.pipeline[0].bind_name == "tidegate-gprd-pipeline" && consul_acl_binding_rule.pipeline[0].bind_type == "role" && consul_acl_binding_rule.pipeline[0].selector == "value.project_path == \"release/deployer\""
    error_message = "The jobs that the selector names, for the role pipeline."
  }
}

run "a_new_environment_begins" {
  variables {
    bootstrap = { epoch = 1767225600 }
    settings  = { rails = { floors = { default = 2 } } }
  }

  assert {
    condition     = { for key in consul_keys.bootstrap[0].key : key.path => key.value } == { "frontend/gprd/_meta" = "{\"epoch\":1767225600,\"gen\":1,\"schema\":1}", "frontend/gprd/canary-state" = "ready" }
    error_message = "The sentinel and the canary."
  }

  assert {
    condition     = alltrue([for key in setunion(consul_keys.bootstrap[0].key, consul_keys.settings[0].key) : key.delete == false])
    error_message = "Keys stay when Terraform lets go of them."
  }

  assert {
    condition     = one(consul_keys.settings[0].key).path == "frontend/gprd/settings" && jsondecode(one(consul_keys.settings[0].key).value) == { rails = { floors = { default = 2 } } }
    error_message = "The settings."
  }
}

run "what_it_began_with_is_never_written_again" {
  variables {
    bootstrap = { epoch = 1767225601, canary_state = "drain" }
  }

  assert {
    condition     = { for key in consul_keys.bootstrap[0].key : key.path => key.value }["frontend/gprd/_meta"] == "{\"epoch\":1767225600,\"gen\":1,\"schema\":1}"
    error_message = "From then on the commands own these keys: writing them again would take the history back."
  }
}
