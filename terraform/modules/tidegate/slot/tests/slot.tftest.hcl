# One replica: where it stands, and how it is replaced.

mock_provider "google" {}

variables {
  slot = {
    name      = "tidegate-gprd-a"
    zone      = "us-east1-b"
    address   = "10.0.9.10"
    user_data = "#cloud-config\n"
  }
  instance = {
    project         = "example"
    region          = "us-east1"
    subnetwork      = "tidegate"
    machine_type    = "e2-small"
    image           = "ubuntu"
    service_account = "tidegate-gprd@example.iam.gserviceaccount.com"
    labels          = { app = "tidegate" }
    health_check    = "healing"
  }
}

run "one_machine_in_its_zone_with_its_address" {
  assert {
    condition     = google_compute_region_instance_group_manager.replica.target_size == 1 && google_compute_region_instance_group_manager.replica.distribution_policy_zones == toset(["us-east1-b"])
    error_message = "One machine in one zone."
  }

  assert {
    condition     = google_compute_region_instance_template.replica.network_interface[0].network_ip == "10.0.9.10" && length(google_compute_region_instance_template.replica.network_interface[0].access_config) == 0
    error_message = "With its fixed address, and none outside the network."
  }

  assert {
    condition     = one(google_compute_region_instance_group_manager.replica.stateful_internal_ip).delete_rule == "NEVER"
    error_message = "Which it keeps."
  }

  assert {
    condition     = google_compute_region_instance_template.replica.metadata["user-data"] == "#cloud-config\n"
    error_message = "Configured by cloud-init."
  }

  assert {
    condition     = google_compute_region_instance_template.replica.service_account[0].email == "tidegate-gprd@example.iam.gserviceaccount.com"
    error_message = "As its own account, never the project's default one."
  }
}

run "the_old_machine_goes_before_the_new_one_comes" {
  assert {
    condition = alltrue([
      for policy in google_compute_region_instance_group_manager.replica.update_policy :
      policy.max_surge_fixed == 0 && policy.max_unavailable_fixed == 1 && policy.replacement_method == "RECREATE" && policy.type == "PROACTIVE" && policy.instance_redistribution_type == "NONE"
    ])
    error_message = "An address can be on one machine only."
  }

  assert {
    condition     = google_compute_region_instance_group_manager.replica.wait_for_instances && google_compute_region_instance_group_manager.replica.wait_for_instances_status == "UPDATED"
    error_message = "Terraform waits for it before it touches the next."
  }

  assert {
    condition     = google_compute_region_instance_group_manager.replica.auto_healing_policies[0].health_check == "healing" && google_compute_region_instance_group_manager.replica.auto_healing_policies[0].initial_delay_sec >= 120
    error_message = "Healed when it does not live, and not while it is being installed."
  }
}
