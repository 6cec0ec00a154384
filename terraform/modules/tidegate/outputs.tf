output "address" {
  description = "The balancer's address: agent-addr."
  value       = google_compute_forwarding_rule.agent.ip_address
}

output "agent_check" {
  description = "By backend/server, the words that its server line in haproxy.cfg ends with. Every server needs its own."
  value = {
    for row in var.agent_check_servers : row.server => join(" ", [
      "agent-check",
      "agent-addr ${var.address}",
      "agent-port ${var.agent_port}",
      "agent-inter ${var.poll_interval_ms}ms",
      "agent-send \"${join(" ", concat([row.server], row.groups, ["node=$${HAPROXY_LOCALPEER}", "zone=$${LB_ZONE}", "base=${row.weight}"]))}\\n\"",
    ])
  }
}

output "replicas" {
  description = "By slot, the URL of the replica's HTTP listener: for --replica, Prometheus and curl."
  value       = local.peers
}

output "config" {
  description = "By slot, the configuration file of the replica, as tidegate check-config reads it."
  value       = local.config
}

output "drain_for_s" {
  description = "How long a stopping replica goes on answering, in seconds: longer than the probe needs to notice."
  value       = local.drain_for_s

  precondition {
    condition     = local.drain_for_s > local.probe_notice_s && local.stop_timeout_s > local.drain_for_s && local.stop_timeout_s <= 90
    error_message = "A stopping replica must answer longer than the probe needs to notice, and be given longer than that to stop, within the 90 s that the cloud gives the machine."
  }
}

output "stop_timeout_s" {
  description = "How long systemd waits for the service to stop, in seconds."
  value       = local.stop_timeout_s
}

output "service_account_email" {
  description = "The account of the instances: to let it read the package, if that is not public."
  value       = google_service_account.replica.email
}

output "dns_name" {
  description = "The balancer's name, or null."
  value       = var.dns == null ? null : google_dns_record_set.balancer[0].name
}
