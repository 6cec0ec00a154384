variable "environment" {
  description = "The environment: what is kept below <root>/<environment>/. Part of every name."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,14}[a-z0-9]$", var.environment))
    error_message = "environment: 2 to 16 lower-case letters, digits and dashes."
  }
}

variable "root" {
  description = "The KV path that all environments stand below."
  type        = string
  default     = "frontend"

  validation {
    condition     = can(regex("^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$", var.root))
    error_message = "root: names joined by single slashes, none at its ends."
  }
}

variable "operators" {
  description = "Names for which a token of the role operator is made. Its secret is not in Terraform's state: see README.md."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for name in var.operators : can(regex("^[a-z0-9._-]{1,64}$", name))])
    error_message = "operators: names of lower-case letters, digits, and . _ -."
  }
}

variable "pipeline" {
  description = "How CI jobs sign in with their identity token (JWT): whose tokens are believed, and which of their claims must hold. Null: no auth method."
  type = object({
    issuer         = string
    audiences      = set(string)
    jwks_url       = optional(string)
    public_keys    = optional(list(string), [])
    algorithms     = optional(set(string), ["RS256"])
    claim_mappings = optional(map(string), { project_path = "project_path", ref = "ref", ref_protected = "ref_protected" })
    selector       = string
    max_token_ttl  = optional(string, "30m")
  })
  default = null

  validation {
    condition     = var.pipeline == null || try(startswith(var.pipeline.issuer, "https://"), false)
    error_message = "pipeline.issuer: the URL in the tokens' claim iss, https://..."
  }

  validation {
    condition     = var.pipeline == null || try(length(var.pipeline.audiences) > 0, false)
    error_message = "pipeline.audiences: at least one. Without, a token that was meant for somebody else would do."
  }

  validation {
    condition     = var.pipeline == null || try((var.pipeline.jwks_url == null) != (length(var.pipeline.public_keys) == 0), false)
    error_message = "pipeline: either jwks_url, which Consul's servers reach, or public_keys in PEM."
  }

  validation {
    condition     = var.pipeline == null || try(length(trimspace(var.pipeline.selector)) > 0, false)
    error_message = "pipeline.selector: which jobs, as value.project_path == \"group/deployer\". Without, every job of the issuer could drain the canary."
  }

  validation {
    condition     = var.pipeline == null || can(regex("^([0-9]+h)?([0-9]+m)?([0-9]+s)?$", var.pipeline.max_token_ttl)) && try(var.pipeline.max_token_ttl != "", false)
    error_message = "pipeline.max_token_ttl: a time such as 30m. What a job that died left behind ends by it."
  }
}

variable "bootstrap" {
  description = "For a new environment: writes _meta and canary-state, once. epoch is the time now in Unix seconds (date +%s). Never for one that is there: its history would go back, and all replicas would hold. Null: nothing is written; tidegate init does the same."
  type = object({
    epoch        = number
    canary_state = optional(string, "ready")
  })
  default = null

  validation {
    condition     = var.bootstrap == null || try(var.bootstrap.epoch >= 1600000000 && var.bootstrap.epoch < 10000000000 && var.bootstrap.epoch == floor(var.bootstrap.epoch), false)
    error_message = "bootstrap.epoch: Unix seconds, as date +%s prints them."
  }

  validation {
    condition     = var.bootstrap == null || try(contains(["ready", "drain", "maint"], var.bootstrap.canary_state), false)
    error_message = "bootstrap.canary_state: ready, drain or maint."
  }
}

variable "settings" {
  description = "The key settings, as in docs/settings.md. It then belongs to Terraform: no role may write it. Null: it is left alone."
  type        = any
  default     = null

  validation {
    condition     = var.settings == null || can(keys(var.settings))
    error_message = "settings: one object."
  }

  validation {
    condition     = length(setsubtract(try(keys(var.settings), []), ["guard", "rows", "nodes", "rails"])) == 0
    error_message = "settings: of guard, rows, nodes and rails; what else stands there is a misspelling."
  }
}
