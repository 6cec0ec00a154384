# gprd: values only. What they mean is said by the modules' READMEs.

terraform {
  required_version = ">= 1.9.0"

  # The bucket of your project that keeps Terraform's states.
  backend "gcs" {
    bucket = "example-gprd-terraform"
    prefix = "tidegate"
  }

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50.0, < 7.0.0"
    }
    consul = {
      source  = "hashicorp/consul"
      version = ">= 2.22.0, < 3.0.0"
    }
  }
}

provider "google" {
  project = "example-gprd"
  region  = "us-east1"
}

# The token comes from CONSUL_HTTP_TOKEN; it may write ACLs.
provider "consul" {
  address = "consul.gprd.example:8501"
  scheme  = "https"
}

module "tidegate" {
  source = "../../modules/tidegate"

  environment = "gprd"
  project     = "example-gprd"
  region      = "us-east1"
  network     = "projects/example-gprd/global/networks/main"
  subnetwork  = "projects/example-gprd/regions/us-east1/subnetworks/tidegate"

  address = "10.20.9.9"
  slots = {
    a = { zone = "us-east1-b", address = "10.20.9.10" }
    b = { zone = "us-east1-c", address = "10.20.9.11" }
    c = { zone = "us-east1-d", address = "10.20.9.12" }
  }

  haproxy_ranges = ["10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24"]
  http_ranges    = ["10.20.16.0/28", "10.20.32.0/24"]

  consul = {
    address      = "https://consul.gprd.example:8501"
    token_secret = "tidegate-consul-token"
  }
  peers_secret = { secret = "tidegate-peers-token" }

  # The package of a release, and the line of its checksums.
  package = {
    url    = "https://storage.googleapis.com/example-packages/tidegate_0.1.0_amd64.deb"
    sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
  }

  dns = {
    managed_zone = "gprd-internal"
    name         = "tidegate.gprd.example."
  }

  agent_check_servers = [
    { server = "web/gke-cny-web", groups = ["canary"] },
    { server = "canary_web/gke-cny-web", groups = ["canary"] },
    { server = "web/web-gke-us-east1-b" },
  ]
}

module "consul" {
  source = "../../modules/consul"

  environment = "gprd"
  operators   = ["release-managers", "sre"]

  pipeline = {
    issuer    = "https://gitlab.example"
    jwks_url  = "https://gitlab.example/oauth/discovery/keys"
    audiences = ["https://consul.gprd.example"]
    selector  = "value.project_path == \"release/deployer\" and value.ref_protected == \"true\""
  }

  # For the first apply of a new environment: bootstrap = { epoch = <what date +%s prints> }.

  settings = {
    guard = { groups = ["main"], rows_max = 8 }
    rails = { floors = { default = 1 } }
    rows = [
      { server = "web/gke-cny-web", groups = ["canary"] },
      { server = "canary_web/gke-cny-web", groups = ["canary"] },
      { server = "web/web-gke-us-east1-b", groups = ["main"], zone = "us-east1-b" },
      { server = "web/web-gke-us-east1-c", groups = ["main"], zone = "us-east1-c" },
      { server = "web/web-gke-us-east1-d", groups = ["main"], zone = "us-east1-d" },
    ]
  }
}

output "agent_check" {
  description = "Words for haproxy.cfg, by backend/server."
  value       = module.tidegate.agent_check
}

output "replicas" {
  description = "The replicas' HTTP listeners, by slot."
  value       = module.tidegate.replicas
}

output "responder_accessor" {
  description = "Whose secret goes to Secret Manager as tidegate-consul-token."
  value       = module.consul.responder_accessor
}
