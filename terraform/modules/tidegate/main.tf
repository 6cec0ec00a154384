# Three replicas behind an internal passthrough load balancer: one slot, one zone, one fixed address
# each. See README.md.

locals {
  name   = "tidegate-${var.environment}"
  labels = merge(var.labels, { app = "tidegate", environment = var.environment })

  # A stopping replica answers until the balancer has surely noticed: its slowest notice, and a
  # margin for the probe's own clock and the way of the news.
  probe_notice_s = var.probe.interval_s * var.probe.unhealthy_threshold + var.probe.timeout_s
  drain_for_s    = local.probe_notice_s + 3
  # Then it finishes open polls and writes out its traces, which takes some seconds at most.
  stop_timeout_s = local.drain_for_s + 10

  slot_names = sort(keys(var.slots))

  # The secrets that the instances read, and nobody else's.
  secrets = toset([var.consul.token_secret, var.peers_secret.secret])
}

resource "google_service_account" "replica" {
  project      = var.project
  account_id   = local.name
  display_name = "Tidegate ${var.environment}"
  description  = "Reads the replicas' own two secrets. No other right."
}

resource "google_secret_manager_secret_iam_member" "replica" {
  for_each = local.secrets

  project   = var.project
  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = "serviceAccount:${google_service_account.replica.email}"
}

resource "google_compute_address" "slot" {
  for_each = var.slots

  project      = var.project
  region       = var.region
  name         = "${local.name}-${each.key}"
  description  = "Slot ${each.key} of Tidegate ${var.environment}"
  address_type = "INTERNAL"
  subnetwork   = var.subnetwork
  address      = each.value.address
  labels       = local.labels
}

# The replicas are named one by one, each after the one before it: Terraform changes instances of a
# for_each side by side, and then all three would be away at once.
module "first" {
  source = "./slot"

  slot     = local.slots[local.slot_names[0]]
  instance = local.instance
  # The first start reads the secrets.
  depends_on = [google_secret_manager_secret_iam_member.replica]
}

module "second" {
  source = "./slot"

  slot       = local.slots[local.slot_names[1]]
  instance   = local.instance
  depends_on = [module.first]
}

module "third" {
  source = "./slot"

  slot       = local.slots[local.slot_names[2]]
  instance   = local.instance
  depends_on = [module.second]
}

locals {
  # What the replicas have in common.
  instance = {
    project         = var.project
    region          = var.region
    subnetwork      = var.subnetwork
    machine_type    = var.machine_type
    image           = var.image
    service_account = google_service_account.replica.email
    labels          = local.labels
    health_check    = google_compute_region_health_check.healing.id
  }

  # What each has of its own.
  slots = {
    for name, slot in var.slots : name => {
      name      = "${local.name}-${name}"
      zone      = slot.zone
      address   = google_compute_address.slot[name].address
      user_data = local.user_data[name]
    }
  }
}
