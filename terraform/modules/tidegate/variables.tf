variable "environment" {
  description = "The environment: what is kept below <root>/<environment>/ in Consul. Part of every name."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,14}[a-z0-9]$", var.environment))
    error_message = "environment: 2 to 16 lower-case letters, digits and dashes, as Google Cloud wants names."
  }
}

variable "root" {
  description = "The KV path that all environments stand below."
  type        = string
  default     = "frontend"

  validation {
    condition     = can(regex("^[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*$", var.root))
    error_message = "root: names joined by single slashes, none at its ends."
  }
}

variable "project" {
  description = "The Google Cloud project."
  type        = string
}

variable "region" {
  description = "The region of the balancer, the addresses and the instances."
  type        = string
}

variable "network" {
  description = "The network: its id or self link."
  type        = string
}

variable "subnetwork" {
  description = "The subnetwork of the region that all addresses lie in: its id or self link."
  type        = string
}

variable "address" {
  description = "The balancer's address: what HAProxy has as agent-addr. Inside the subnetwork, and nobody else's."
  type        = string

  validation {
    condition     = can(cidrhost("${var.address}/32", 0))
    error_message = "address: an IPv4 address. HAProxy looks a name up once, and does not start without it."
  }
}

variable "slots" {
  description = "The three replicas: a slot's name, the zone it stands in, and its fixed address inside the subnetwork. A replacement keeps all three."
  type = map(object({
    zone    = string
    address = string
  }))

  validation {
    condition     = length(var.slots) == 3
    error_message = "slots: exactly three. With one out of sight the two others still agree."
  }

  validation {
    condition     = alltrue([for name in keys(var.slots) : can(regex("^[a-z]([a-z0-9-]{0,6}[a-z0-9])?$", name))])
    error_message = "slots: names of 1 to 8 lower-case letters, digits and dashes; they stand in every answer."
  }

  validation {
    condition     = length(distinct([for slot in values(var.slots) : slot.zone])) == length(var.slots)
    error_message = "slots: each in a zone of its own, or one zone takes two of them along."
  }

  validation {
    condition     = alltrue([for slot in values(var.slots) : startswith(slot.zone, "${var.region}-")])
    error_message = "slots: zones of the region; the balancer is a regional one."
  }

  validation {
    condition     = alltrue([for slot in values(var.slots) : can(cidrhost("${slot.address}/32", 0))])
    error_message = "slots: an IPv4 address each."
  }

  validation {
    condition     = length(distinct(concat([for slot in values(var.slots) : slot.address], [var.address]))) == 1 + length(var.slots)
    error_message = "slots: addresses that differ, from each other's and from the balancer's. Replicas ask each other directly, never through the balancer."
  }
}

variable "haproxy_ranges" {
  description = "Source ranges of the HAProxy nodes: who may reach the agent port. The balancer keeps the client's source address."
  type        = set(string)

  validation {
    condition     = length(var.haproxy_ranges) > 0 && alltrue([for range in var.haproxy_ranges : can(cidrhost(range, 0))])
    error_message = "haproxy_ranges: at least one range, as 10.0.0.0/24."
  }

  validation {
    condition     = alltrue([for range in var.haproxy_ranges : !endswith(range, "/0")])
    error_message = "haproxy_ranges: not everybody. Name the ranges of the HAProxy nodes."
  }
}

variable "http_ranges" {
  description = "Source ranges that may read the HTTP port: Prometheus, and machines on which people run the commands."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for range in var.http_ranges : can(cidrhost(range, 0)) && !endswith(range, "/0")])
    error_message = "http_ranges: ranges as 10.0.0.0/24, and not everybody."
  }
}

variable "agent_port" {
  description = "The port of the agent checks, at the balancer and on the instances."
  type        = number
  default     = 8790

  validation {
    condition     = var.agent_port >= 1024 && var.agent_port <= 65535 && var.agent_port == floor(var.agent_port)
    error_message = "agent_port: 1024 to 65535; the service has no right to a lower one."
  }
}

variable "http_port" {
  description = "The port of health, metrics and the read-only API, on the instances only."
  type        = number
  default     = 8791

  validation {
    condition     = var.http_port >= 1024 && var.http_port <= 65535 && var.http_port == floor(var.http_port)
    error_message = "http_port: 1024 to 65535; the service has no right to a lower one."
  }

  validation {
    condition     = var.http_port != var.agent_port
    error_message = "http_port: not the agent's port."
  }
}

variable "poll_interval_ms" {
  description = "The smallest agent-inter of the fleet, in milliseconds. How long a reading counts follows from it."
  type        = number
  default     = 2000

  validation {
    condition     = var.poll_interval_ms >= 200 && var.poll_interval_ms <= 60000 && var.poll_interval_ms == floor(var.poll_interval_ms)
    error_message = "poll_interval_ms: 200 to 60000."
  }
}

variable "probe" {
  description = "The balancer's probe of /readyz, in seconds. How long a stopping replica goes on answering follows from it."
  type = object({
    interval_s          = optional(number, 2)
    timeout_s           = optional(number, 1)
    healthy_threshold   = optional(number, 2)
    unhealthy_threshold = optional(number, 2)
  })
  default = {}

  validation {
    condition     = var.probe.timeout_s >= 1 && var.probe.interval_s >= var.probe.timeout_s
    error_message = "probe: a time-out of 1 s at least, and no longer than the interval."
  }

  validation {
    condition     = alltrue([for threshold in [var.probe.healthy_threshold, var.probe.unhealthy_threshold] : threshold >= 1 && threshold <= 10])
    error_message = "probe: thresholds of 1 to 10."
  }

  validation {
    # Of the 90 s that Google Cloud gives a machine to stop, 20 belong to the end of the service and
    # of the rest of the machine.
    condition     = var.probe.interval_s * var.probe.unhealthy_threshold + var.probe.timeout_s <= 65
    error_message = "probe: interval x unhealthy_threshold + time-out of 65 s at most. A machine that stops is given 90 s, and the service answers longer than the probe needs to notice."
  }
}

variable "consul" {
  description = "Where Consul is: a URL, the CA's certificates in PEM unless the machine knows it, and the Secret Manager secret of the project (its name, and a version) that holds the token of the policy responder."
  type = object({
    address              = string
    ca_pem               = optional(string)
    token_secret         = string
    token_secret_version = optional(string, "latest")
  })

  validation {
    condition     = can(regex("^https?://[^/ ]+$", var.consul.address))
    error_message = "consul.address: as https://consul.example:8501, without a path."
  }

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,255}$", var.consul.token_secret)) && can(regex("^(latest|[1-9][0-9]*)$", var.consul.token_secret_version))
    error_message = "consul.token_secret: a secret's name in this project; the version a number, or latest."
  }

  validation {
    condition     = var.consul.ca_pem == null || can(regex("^-----BEGIN CERTIFICATE-----", var.consul.ca_pem))
    error_message = "consul.ca_pem: certificates in PEM."
  }
}

variable "peers_secret" {
  description = "The Secret Manager secret of the project (its name, and a version) by which replicas know each other: 16 to 512 visible characters."
  type = object({
    secret  = string
    version = optional(string, "latest")
  })

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,255}$", var.peers_secret.secret)) && can(regex("^(latest|[1-9][0-9]*)$", var.peers_secret.version))
    error_message = "peers_secret: a secret's name in this project; the version a number, or latest."
  }
}

variable "package" {
  description = "The Debian package to install: its URL and the SHA-256 of its bytes. From Cloud Storage (https://storage.googleapis.com/...) it is fetched as the service account, which then needs to read that object."
  type = object({
    url    = string
    sha256 = string
  })

  validation {
    condition     = can(regex("^https://[^ '\"]+[.]deb$", var.package.url))
    error_message = "package.url: https://.../....deb."
  }

  validation {
    condition     = can(regex("^[0-9a-f]{64}$", var.package.sha256))
    error_message = "package.sha256: 64 hexadecimal digits, as sha256sum prints them."
  }
}

variable "image" {
  description = "The machine image. It must hold cloud-init, as Ubuntu's do and Google's Debian images do not."
  type        = string
  default     = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
}

variable "machine_type" {
  description = "The machine type of the instances. Two cores answer a fleet of 80 nodes many times over."
  type        = string
  default     = "e2-small"
}

variable "dns" {
  description = "A DNS record for the balancer: the managed zone and the full name with its final dot. For people and commands; HAProxy takes the address. Null: none."
  type = object({
    managed_zone = string
    name         = string
    ttl_s        = optional(number, 300)
  })
  default = null

  validation {
    condition     = var.dns == null || can(regex("^([a-z0-9-]+[.])+$", var.dns.name))
    error_message = "dns.name: a full name with its final dot, as tidegate.gprd.example."
  }
}

variable "allow_global_access" {
  description = "Whether HAProxy nodes in other regions may reach the balancer."
  type        = bool
  default     = false
}

variable "agent_check_servers" {
  description = "Servers for which the output agent_check holds the words of their line in haproxy.cfg: backend/server, the groups, and the configured weight."
  type = list(object({
    server = string
    groups = optional(list(string), [])
    weight = optional(number, 100)
  }))
  default = []

  validation {
    condition     = alltrue([for row in var.agent_check_servers : can(regex("^[A-Za-z0-9._:-]{1,128}/[A-Za-z0-9._:-]{1,128}$", row.server))])
    error_message = "agent_check_servers: backend/server, of letters, digits, and . _ : -."
  }

  validation {
    condition     = alltrue([for row in var.agent_check_servers : length(row.groups) <= 8 && alltrue([for group in row.groups : can(regex("^[A-Za-z0-9._:-]{1,128}$", group))])])
    error_message = "agent_check_servers: at most 8 groups of letters, digits, and . _ : -."
  }

  validation {
    condition     = alltrue([for row in var.agent_check_servers : row.weight >= 1 && row.weight <= 256])
    error_message = "agent_check_servers: a weight of 1 to 256."
  }
}

variable "labels" {
  description = "Labels of the instances and addresses."
  type        = map(string)
  default     = {}
}
