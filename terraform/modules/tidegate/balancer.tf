# The internal passthrough load balancer. It forwards packets as they are: to the clients' source
# address, the balancer's destination address, and replies go straight back.

resource "google_compute_region_health_check" "ready" {
  project             = var.project
  region              = var.region
  name                = "${local.name}-ready"
  description         = "May this replica answer?"
  check_interval_sec  = var.probe.interval_s
  timeout_sec         = var.probe.timeout_s
  healthy_threshold   = var.probe.healthy_threshold
  unhealthy_threshold = var.probe.unhealthy_threshold

  http_health_check {
    port         = var.http_port
    request_path = "/readyz"
  }
}

# Never /readyz: without Consul no replica may be ready, and a new machine would be no more so.
resource "google_compute_region_health_check" "healing" {
  project             = var.project
  region              = var.region
  name                = "${local.name}-healing"
  description         = "Does the process run? A minute without a word, and the machine is made anew."
  check_interval_sec  = 10
  timeout_sec         = 5
  healthy_threshold   = 1
  unhealthy_threshold = 6

  http_health_check {
    port         = var.http_port
    request_path = "/livez"
  }
}

# No failover policy: when all are unready, connections go to all as a last resort, and a replica
# that may not answer closes without a byte.
resource "google_compute_region_backend_service" "agent" {
  project                         = var.project
  region                          = var.region
  name                            = local.name
  load_balancing_scheme           = "INTERNAL"
  protocol                        = "TCP"
  session_affinity                = "NONE"
  health_checks                   = [google_compute_region_health_check.ready.id]
  connection_draining_timeout_sec = local.drain_for_s

  dynamic "backend" {
    for_each = [module.first, module.second, module.third]

    content {
      group          = backend.value.instance_group
      balancing_mode = "CONNECTION"
    }
  }
}

resource "google_compute_address" "balancer" {
  project      = var.project
  region       = var.region
  name         = local.name
  description  = "agent-addr of Tidegate ${var.environment}"
  address_type = "INTERNAL"
  subnetwork   = var.subnetwork
  address      = var.address
  labels       = local.labels
}

# The agent port only. Whoever reads the HTTP port asks a replica, by its own address.
resource "google_compute_forwarding_rule" "agent" {
  project               = var.project
  region                = var.region
  name                  = local.name
  load_balancing_scheme = "INTERNAL"
  ip_protocol           = "TCP"
  ip_address            = google_compute_address.balancer.address
  ports                 = [tostring(var.agent_port)]
  backend_service       = google_compute_region_backend_service.agent.id
  network               = var.network
  subnetwork            = var.subnetwork
  allow_global_access   = var.allow_global_access
  labels                = local.labels
}

resource "google_dns_record_set" "balancer" {
  count = var.dns == null ? 0 : 1

  project      = var.project
  managed_zone = var.dns.managed_zone
  name         = var.dns.name
  type         = "A"
  ttl          = var.dns.ttl_s
  rrdatas      = [google_compute_address.balancer.address]
}
