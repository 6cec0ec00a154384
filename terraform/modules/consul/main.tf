# Who may do what with an environment's keys, and the keys that it begins with. See README.md.

locals {
  name   = "tidegate-${var.environment}"
  prefix = "${var.root}/${var.environment}"

  roles = {
    responder = "The replicas of Tidegate ${var.environment}: read only"
    operator  = "People who change the state of ${var.environment}"
    pipeline  = "Deploy pipelines of ${var.environment}: the canary, and the deploy lock"
  }
}

resource "consul_acl_policy" "role" {
  for_each = local.roles

  name        = "${local.name}-${each.key}"
  description = each.value
  rules = templatefile("${path.module}/policies/${each.key}.hcl.tftpl", {
    root        = var.root
    environment = var.environment
  })
}

resource "consul_acl_role" "role" {
  for_each = local.roles

  name        = "${local.name}-${each.key}"
  description = each.value
  policies    = [consul_acl_policy.role[each.key].id]
}

# The secrets are Consul's: Terraform learns the accessor ids only.
resource "consul_acl_token" "responder" {
  description = local.roles.responder
  roles       = [consul_acl_role.role["responder"].name]
}

resource "consul_acl_token" "operator" {
  for_each = var.operators

  description = "${local.roles.operator}: ${each.value}"
  roles       = [consul_acl_role.role["operator"].name]
}

resource "consul_acl_auth_method" "pipeline" {
  count = var.pipeline == null ? 0 : 1

  name          = "${local.name}-pipeline"
  type          = "jwt"
  description   = "CI jobs of ${var.environment}, by their identity token"
  max_token_ttl = var.pipeline.max_token_ttl
  config_json = jsonencode(merge(
    {
      BoundIssuer      = var.pipeline.issuer
      BoundAudiences   = var.pipeline.audiences
      JWTSupportedAlgs = var.pipeline.algorithms
      ClaimMappings    = var.pipeline.claim_mappings
    },
    var.pipeline.jwks_url == null ? {} : { JWKSURL = var.pipeline.jwks_url },
    length(var.pipeline.public_keys) == 0 ? {} : { JWTValidationPubKeys = var.pipeline.public_keys },
  ))
}

resource "consul_acl_binding_rule" "pipeline" {
  count = var.pipeline == null ? 0 : 1

  auth_method = consul_acl_auth_method.pipeline[0].name
  description = local.roles.pipeline
  bind_type   = "role"
  bind_name   = consul_acl_role.role["pipeline"].name
  selector    = var.pipeline.selector
}

# Written once. From then on these belong to the commands; and they stay when Terraform lets go.
resource "consul_keys" "bootstrap" {
  count = var.bootstrap == null ? 0 : 1

  key {
    path   = "${local.prefix}/_meta"
    value  = jsonencode({ schema = 1, epoch = var.bootstrap.epoch, gen = 1 })
    delete = false
  }

  key {
    path   = "${local.prefix}/canary-state"
    value  = var.bootstrap.canary_state
    delete = false
  }

  lifecycle {
    ignore_changes = all
  }
}

resource "consul_keys" "settings" {
  count = var.settings == null ? 0 : 1

  key {
    path   = "${local.prefix}/settings"
    value  = jsonencode(var.settings)
    delete = false
  }
}
