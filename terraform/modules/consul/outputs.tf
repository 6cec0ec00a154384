output "policies" {
  description = "By role (responder, operator, pipeline), the name of its policy and role."
  value       = { for role, policy in consul_acl_policy.role : role => policy.name }
}

output "responder_accessor" {
  description = "The accessor id of the replicas' token. Its secret goes to Secret Manager: see README.md."
  value       = consul_acl_token.responder.accessor_id
}

output "operator_accessors" {
  description = "By name, the accessor id of each operator's token."
  value       = { for name, token in consul_acl_token.operator : name => token.accessor_id }
}

output "login_method" {
  description = "What CI jobs set as TIDEGATE_CONSUL_LOGIN_METHOD, or null."
  value       = var.pipeline == null ? null : consul_acl_auth_method.pipeline[0].name
}
