# What the module makes of good values. `mock_provider` makes up what Google Cloud computes.

mock_provider "google" {}

variables {
  environment    = "gprd"
  project        = "example"
  region         = "us-east1"
  network        = "main"
  subnetwork     = "tidegate"
  address        = "10.0.9.9"
  haproxy_ranges = ["10.0.0.0/24"]
  slots = {
    a = { zone = "us-east1-b", address = "10.0.9.10" }
    b = { zone = "us-east1-c", address = "10.0.9.11" }
    c = { zone = "us-east1-d", address = "10.0.9.12" }
  }
  consul       = { address = "https://consul.example:8501", token_secret = "consul-token" }
  peers_secret = { secret = "peers-token" }
  package = {
    url    = "https://storage.googleapis.com/packages/tidegate_0.1.0_amd64.deb"
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
  }
}

run "each_slot_has_its_address_and_is_told_of_all" {
  assert {
    condition     = { for name, slot in google_compute_address.slot : name => slot.address } == { a = "10.0.9.10", b = "10.0.9.11", c = "10.0.9.12" }
    error_message = "Each slot reserves the address that it was given."
  }

  assert {
    condition     = alltrue([for name, text in output.config : strcontains(text, "\nslot = \"${name}\"\n")])
    error_message = "Each configuration names its own slot."
  }

  assert {
    condition     = alltrue([for text in values(output.config) : strcontains(text, "[peers]\na = \"http://10.0.9.10:8791\"\nb = \"http://10.0.9.11:8791\"\nc = \"http://10.0.9.12:8791\"\n")])
    error_message = "Each configuration has the same list of all replicas, by their own addresses."
  }

  assert {
    condition     = output.replicas == { a = "http://10.0.9.10:8791", b = "http://10.0.9.11:8791", c = "http://10.0.9.12:8791" }
    error_message = "The HTTP listeners by slot."
  }
}

run "a_stopping_replica_answers_until_the_probe_has_noticed" {
  variables {
    probe = { interval_s = 5, timeout_s = 2, unhealthy_threshold = 3 }
  }

  assert {
    condition     = google_compute_region_health_check.ready.check_interval_sec == 5 && google_compute_region_health_check.ready.timeout_sec == 2 && google_compute_region_health_check.ready.unhealthy_threshold == 3
    error_message = "The probe is as it was asked for."
  }

  assert {
    condition     = output.drain_for_s > 5 * 3 + 2
    error_message = "drain_for is longer than interval x threshold + time-out."
  }

  assert {
    condition     = alltrue([for text in values(output.config) : strcontains(text, "\ndrain_for = \"${output.drain_for_s}s\"\n")])
    error_message = "The configuration says the same."
  }

  assert {
    condition     = output.stop_timeout_s >= output.drain_for_s + 10
    error_message = "systemd waits longer than that."
  }

  assert {
    condition     = alltrue([for text in values(local.user_data) : anytrue([for file in yamldecode(text).write_files : strcontains(file.content, "TimeoutStopSec=${output.stop_timeout_s}\n") if file.path == "/etc/systemd/system/tidegate.service.d/50-balancer.conf"])])
    error_message = "The unit's drop-in says so."
  }

  assert {
    condition     = google_compute_region_backend_service.agent.connection_draining_timeout_sec == output.drain_for_s
    error_message = "The balancer leaves the open connections of a leaving replica as long."
  }
}

run "the_longest_probe_still_fits_into_the_stop_of_a_machine" {
  variables {
    probe = { interval_s = 8, timeout_s = 1, unhealthy_threshold = 8 }
  }

  assert {
    condition     = output.stop_timeout_s <= 90
    error_message = "Google Cloud gives a machine 90 s."
  }
}

run "the_balancer_asks_readiness_and_healing_asks_life" {
  assert {
    condition     = google_compute_region_health_check.ready.http_health_check[0].request_path == "/readyz" && google_compute_region_health_check.ready.http_health_check[0].port == 8791
    error_message = "The balancer asks /readyz at the HTTP port."
  }

  assert {
    condition     = google_compute_region_backend_service.agent.health_checks == toset([google_compute_region_health_check.ready.id])
    error_message = "The balancer's check is the one for readiness."
  }

  assert {
    condition     = google_compute_region_health_check.healing.http_health_check[0].request_path == "/livez" && local.instance.health_check == google_compute_region_health_check.healing.id
    error_message = "A machine is made anew when its process does not run, never for want of readiness."
  }

  assert {
    condition     = google_compute_region_health_check.healing.check_interval_sec * google_compute_region_health_check.healing.unhealthy_threshold >= 60
    error_message = "Slowly."
  }
}

run "the_balancer_forwards_the_agent_port_only" {
  assert {
    condition     = google_compute_forwarding_rule.agent.ports == toset(["8790"]) && google_compute_forwarding_rule.agent.load_balancing_scheme == "INTERNAL" && !coalesce(google_compute_forwarding_rule.agent.all_ports, false)
    error_message = "The agent port, inside the network."
  }

  assert {
    condition     = output.address == "10.0.9.9" && google_compute_forwarding_rule.agent.allow_global_access == false
    error_message = "At its fixed address, for its own region."
  }

  assert {
    condition     = length(google_compute_region_backend_service.agent.backend) == 3 && google_compute_region_backend_service.agent.load_balancing_scheme == "INTERNAL" && google_compute_region_backend_service.agent.protocol == "TCP" && google_compute_region_backend_service.agent.session_affinity == "NONE"
    error_message = "To three groups, each connection for itself."
  }

  assert {
    condition     = length(google_compute_region_backend_service.agent.failover_policy) == 0
    error_message = "When all are unready, connections go to all: no policy that drops them."
  }
}

run "the_firewalls_let_in_who_has_to_come_in_and_nobody_else" {
  variables {
    http_ranges = ["10.0.16.0/28"]
  }

  assert {
    condition     = one(google_compute_firewall.haproxy.allow).ports == tolist(["8790"]) && google_compute_firewall.haproxy.source_ranges == toset(["10.0.0.0/24"])
    error_message = "HAProxy nodes to the agent port."
  }

  assert {
    condition     = one(google_compute_firewall.probes.allow).ports == tolist(["8791"]) && google_compute_firewall.probes.source_ranges == toset(["35.191.0.0/16", "130.211.0.0/22"])
    error_message = "The probers to the HTTP port."
  }

  assert {
    condition     = one(google_compute_firewall.peers.allow).ports == tolist(["8791"]) && google_compute_firewall.peers.source_service_accounts == toset([google_service_account.replica.email]) && google_compute_firewall.peers.source_ranges == null
    error_message = "Replicas to each other's HTTP port."
  }

  assert {
    condition     = one(google_compute_firewall.http[0].allow).ports == tolist(["8791"]) && google_compute_firewall.http[0].source_ranges == toset(["10.0.16.0/28"])
    error_message = "Readers to the HTTP port."
  }

  assert {
    condition = alltrue([
      for rule in [google_compute_firewall.haproxy, google_compute_firewall.probes, google_compute_firewall.peers, google_compute_firewall.http[0]] :
      rule.target_service_accounts == toset([google_service_account.replica.email]) && one(rule.allow).protocol == "tcp" && rule.direction == "INGRESS"
    ])
    error_message = "To the replicas only."
  }
}

run "without_readers_there_is_no_rule_for_them" {
  assert {
    condition     = length(google_compute_firewall.http) == 0
    error_message = "No range, no rule: a rule without a source would let everybody in."
  }
}

run "the_account_reads_the_two_secrets_and_nothing_else" {
  assert {
    condition     = { for secret, member in google_secret_manager_secret_iam_member.replica : secret => member.role } == { consul-token = "roles/secretmanager.secretAccessor", peers-token = "roles/secretmanager.secretAccessor" }
    error_message = "secretAccessor on the two secrets."
  }

  assert {
    condition     = alltrue([for member in values(google_secret_manager_secret_iam_member.replica) : member.member == "serviceAccount:${google_service_account.replica.email}"])
    error_message = "For the replicas' account."
  }
}

run "a_new_instance_writes_its_configuration_and_installs_the_package" {
  variables {
    consul = {
      address              = "https://consul.example:8501"
      ca_pem               = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
      token_secret         = "consul-token"
      token_secret_version = "3"
    }
  }

  assert {
    condition     = alltrue([for text in values(local.user_data) : startswith(text, "#cloud-config\n")])
    error_message = "cloud-init knows its own by the first line."
  }

  assert {
    condition     = alltrue([for name, text in local.user_data : yamldecode(text).write_files[0].path == "/etc/tidegate/tidegate.toml" && yamldecode(text).write_files[0].content == output.config[name]])
    error_message = "The configuration is the slot's own."
  }

  assert {
    condition     = one([for file in yamldecode(local.user_data["a"]).write_files : file.content if file.path == "/etc/default/tidegate"]) == "CONSUL_HTTP_ADDR=https://consul.example:8501\nCONSUL_HTTP_TOKEN_FILE=/run/credentials/tidegate.service/consul-token\nCONSUL_CACERT=/etc/tidegate/consul-ca.pem\n"
    error_message = "Consul is found, and believed."
  }

  assert {
    condition     = one([for file in yamldecode(local.user_data["a"]).write_files : file.content if file.path == "/etc/tidegate/consul-ca.pem"]) == var.consul.ca_pem
    error_message = "The CA's certificates are there."
  }

  assert {
    condition     = strcontains(local.secrets_script, "secret 'consul-token/versions/3' 'tidegate.consul-token'\nsecret 'peers-token/versions/latest' 'tidegate.peers-token'\n")
    error_message = "Each secret goes to where the unit takes it from."
  }

  assert {
    condition     = strcontains(local.install_script, "url='${var.package.url}'") && strcontains(local.install_script, "${var.package.sha256}  ")
    error_message = "The package is fetched, and its bytes looked at."
  }

  assert {
    condition     = yamldecode(local.user_data["a"]).runcmd == [["/usr/local/sbin/tidegate-secrets"], ["/usr/local/sbin/tidegate-install"]]
    error_message = "The secrets are there before the service starts."
  }
}

run "the_name_is_optional" {
  variables {
    dns = { managed_zone = "internal", name = "tidegate.gprd.example." }
  }

  assert {
    condition     = google_dns_record_set.balancer[0].rrdatas == tolist(["10.0.9.9"]) && google_dns_record_set.balancer[0].type == "A" && output.dns_name == "tidegate.gprd.example."
    error_message = "The name is the balancer's."
  }
}

run "the_words_for_haproxy_are_ready_to_be_pasted" {
  variables {
    agent_check_servers = [
      { server = "web/gke-cny-web", groups = ["canary"] },
      { server = "web/gke-b", weight = 50 },
    ]
  }

  assert {
    condition = output.agent_check == {
      "web/gke-cny-web" = "agent-check agent-addr 10.0.9.9 agent-port 8790 agent-inter 2000ms agent-send \"web/gke-cny-web canary node=$${HAPROXY_LOCALPEER} zone=$${LB_ZONE} base=100\\n\""
      "web/gke-b"       = "agent-check agent-addr 10.0.9.9 agent-port 8790 agent-inter 2000ms agent-send \"web/gke-b node=$${HAPROXY_LOCALPEER} zone=$${LB_ZONE} base=50\\n\""
    }
    error_message = "A line's words per server."
  }
}
