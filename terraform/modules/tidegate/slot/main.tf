# One replica: a template with its fixed address and its configuration, and a group of one instance
# in one zone. A group over three zones can only change all zones at once, and knows no addresses.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50.0, < 7.0.0"
    }
  }
}

variable "slot" {
  description = "What this replica has of its own."
  type = object({
    name      = string
    zone      = string
    address   = string
    user_data = string
  })
}

variable "instance" {
  description = "What all replicas have in common."
  type = object({
    project         = string
    region          = string
    subnetwork      = string
    machine_type    = string
    image           = string
    service_account = string
    labels          = map(string)
    health_check    = string
  })
}

resource "google_compute_region_instance_template" "replica" {
  project      = var.instance.project
  region       = var.instance.region
  name_prefix  = "${var.slot.name}-"
  machine_type = var.instance.machine_type
  labels       = var.instance.labels

  metadata = {
    user-data              = var.slot.user_data
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
  }

  disk {
    boot         = true
    auto_delete  = true
    source_image = var.instance.image
    disk_size_gb = 10
  }

  # No access_config: no address outside the network.
  network_interface {
    subnetwork = var.instance.subnetwork
    network_ip = var.slot.address
  }

  service_account {
    email = var.instance.service_account
    # What the account may do is said by its roles.
    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  # A group cannot let go of a template before it has the next one.
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_region_instance_group_manager" "replica" {
  project                   = var.instance.project
  region                    = var.instance.region
  name                      = var.slot.name
  base_instance_name        = var.slot.name
  distribution_policy_zones = [var.slot.zone]
  target_size               = 1

  # The next replica waits for this one.
  wait_for_instances        = true
  wait_for_instances_status = "UPDATED"

  version {
    instance_template = google_compute_region_instance_template.replica.id
  }

  stateful_internal_ip {
    interface_name = "nic0"
    delete_rule    = "NEVER"
  }

  # The address can be on one machine only: the old one goes first.
  update_policy {
    type                           = "PROACTIVE"
    minimal_action                 = "REPLACE"
    most_disruptive_allowed_action = "REPLACE"
    replacement_method             = "RECREATE"
    instance_redistribution_type   = "NONE"
    max_surge_fixed                = 0
    max_unavailable_fixed          = 1
  }

  # The first start installs the package.
  auto_healing_policies {
    health_check      = var.instance.health_check
    initial_delay_sec = 300
  }

  timeouts {
    create = "15m"
    update = "15m"
  }
}

output "instance_group" {
  description = "The group, as the balancer's backend."
  value       = google_compute_region_instance_group_manager.replica.instance_group
}
