# Who may reach the replicas. What no rule allows is dropped without a word, as peers need it: a
# refused connection would mean to them that the replica is dead.

locals {
  # Google Cloud's probers.
  probe_ranges = ["35.191.0.0/16", "130.211.0.0/22"]
}

resource "google_compute_firewall" "haproxy" {
  project                 = var.project
  name                    = "${local.name}-haproxy"
  description             = "HAProxy nodes to the agent port"
  network                 = var.network
  direction               = "INGRESS"
  source_ranges           = var.haproxy_ranges
  target_service_accounts = [google_service_account.replica.email]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.agent_port)]
  }
}

resource "google_compute_firewall" "probes" {
  project                 = var.project
  name                    = "${local.name}-probes"
  description             = "Google Cloud's health checks to the HTTP port"
  network                 = var.network
  direction               = "INGRESS"
  source_ranges           = local.probe_ranges
  target_service_accounts = [google_service_account.replica.email]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.http_port)]
  }
}

resource "google_compute_firewall" "peers" {
  project                 = var.project
  name                    = "${local.name}-peers"
  description             = "Replicas to each other's HTTP port"
  network                 = var.network
  direction               = "INGRESS"
  source_service_accounts = [google_service_account.replica.email]
  target_service_accounts = [google_service_account.replica.email]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.http_port)]
  }
}

resource "google_compute_firewall" "http" {
  count = length(var.http_ranges) == 0 ? 0 : 1

  project                 = var.project
  name                    = "${local.name}-http"
  description             = "Prometheus and the commands to the HTTP port, which is read-only"
  network                 = var.network
  direction               = "INGRESS"
  source_ranges           = var.http_ranges
  target_service_accounts = [google_service_account.replica.email]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.http_port)]
  }
}
