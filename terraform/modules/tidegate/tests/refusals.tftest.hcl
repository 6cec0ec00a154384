# Values that are refused, each by the variable that it is given to.

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

run "an_environment_that_cannot_be_part_of_a_name" {
  command = plan

  variables {
    environment = "Gprd_1"
  }

  expect_failures = [var.environment]
}

run "a_root_with_a_slash_at_its_end" {
  command = plan

  variables {
    root = "frontend/"
  }

  expect_failures = [var.root]
}

run "a_name_for_the_balancers_address" {
  command = plan

  variables {
    address = "tidegate.example"
  }

  expect_failures = [var.address]
}

run "two_slots" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-east1-c", address = "10.0.9.11" } }
  }

  expect_failures = [var.slots]
}

run "two_slots_in_one_zone" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-east1-b", address = "10.0.9.11" }, c = { zone = "us-east1-d", address = "10.0.9.12" } }
  }

  expect_failures = [var.slots]
}

run "a_slot_in_another_region" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-west1-b", address = "10.0.9.11" }, c = { zone = "us-east1-d", address = "10.0.9.12" } }
  }

  expect_failures = [var.slots]
}

run "one_address_for_two_slots" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-east1-c", address = "10.0.9.10" }, c = { zone = "us-east1-d", address = "10.0.9.12" } }
  }

  expect_failures = [var.slots]
}

run "the_balancers_address_for_a_slot" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-east1-c", address = "10.0.9.9" }, c = { zone = "us-east1-d", address = "10.0.9.12" } }
  }

  expect_failures = [var.slots]
}

run "a_slot_without_an_address" {
  command = plan

  variables {
    slots = { a = { zone = "us-east1-b", address = "10.0.9.10" }, b = { zone = "us-east1-c", address = "replica-b" }, c = { zone = "us-east1-d", address = "10.0.9.12" } }
  }

  expect_failures = [var.slots]
}

run "a_slots_name_in_capitals" {
  command = plan

  variables {
    slots = { b = { zone = "us-east1-c", address = "10.0.9.11" }, c = { zone = "us-east1-d", address = "10.0.9.12" }, A = { zone = "us-east1-b", address = "10.0.9.10" } }
  }

  expect_failures = [var.slots]
}

run "no_haproxy_at_all" {
  command = plan

  variables {
    haproxy_ranges = []
  }

  expect_failures = [var.haproxy_ranges]
}

run "everybody_as_haproxy" {
  command = plan

  variables {
    haproxy_ranges = ["0.0.0.0/0"]
  }

  expect_failures = [var.haproxy_ranges]
}

run "a_range_that_is_none" {
  command = plan

  variables {
    haproxy_ranges = ["10.0.0.0"]
  }

  expect_failures = [var.haproxy_ranges]
}

run "everybody_as_a_reader" {
  command = plan

  variables {
    http_ranges = ["10.0.16.0/28", "0.0.0.0/0"]
  }

  expect_failures = [var.http_ranges]
}

run "a_port_of_the_system" {
  command = plan

  variables {
    agent_port = 80
  }

  expect_failures = [var.agent_port]
}

run "one_port_for_both" {
  command = plan

  variables {
    http_port = 8790
  }

  expect_failures = [var.http_port]
}

run "an_interval_that_no_service_takes" {
  command = plan

  variables {
    poll_interval_ms = 100
  }

  expect_failures = [var.poll_interval_ms]
}

run "a_time_out_longer_than_the_interval" {
  command = plan

  variables {
    probe = { interval_s = 1, timeout_s = 2 }
  }

  expect_failures = [var.probe]
}

run "a_probe_that_never_fails" {
  command = plan

  variables {
    probe = { unhealthy_threshold = 0 }
  }

  expect_failures = [var.probe]
}

run "a_probe_slower_than_the_stop_of_a_machine" {
  command = plan

  variables {
    probe = { interval_s = 10, unhealthy_threshold = 7 }
  }

  expect_failures = [var.probe]
}

run "a_consul_without_a_scheme" {
  command = plan

  variables {
    consul = { address = "consul.example:8501", token_secret = "consul-token" }
  }

  expect_failures = [var.consul]
}

run "a_secret_by_its_path" {
  command = plan

  variables {
    consul = { address = "https://consul.example:8501", token_secret = "projects/x/secrets/y" }
  }

  expect_failures = [var.consul]
}

run "a_ca_by_its_file" {
  command = plan

  variables {
    consul = { address = "https://consul.example:8501", token_secret = "consul-token", ca_pem = "/etc/ca.pem" }
  }

  expect_failures = [var.consul]
}

run "a_version_that_is_none" {
  command = plan

  variables {
    peers_secret = { secret = "peers-token", version = "newest" }
  }

  expect_failures = [var.peers_secret]
}

run "a_package_without_tls" {
  command = plan

  variables {
    package = { url = "http://packages.example/tidegate.deb", sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }
  }

  expect_failures = [var.package]
}

run "a_package_without_a_checksum" {
  command = plan

  variables {
    package = { url = "https://packages.example/tidegate.deb", sha256 = "" }
  }

  expect_failures = [var.package]
}

run "a_name_without_its_dot" {
  command = plan

  variables {
    dns = { managed_zone = "internal", name = "tidegate.example" }
  }

  expect_failures = [var.dns]
}

run "a_server_without_its_backend" {
  command = plan

  variables {
    agent_check_servers = [{ server = "gke-cny-web" }]
  }

  expect_failures = [var.agent_check_servers]
}

run "a_group_with_a_space" {
  command = plan

  variables {
    agent_check_servers = [{ server = "web/cny", groups = ["the canary"] }]
  }

  expect_failures = [var.agent_check_servers]
}

run "a_server_of_weight_0" {
  command = plan

  variables {
    agent_check_servers = [{ server = "web/cny", weight = 0 }]
  }

  expect_failures = [var.agent_check_servers]
}
