# What a new instance does first: write the configuration, fetch the secrets, install the package.

locals {
  peers = { for name, slot in var.slots : name => "http://${slot.address}:${var.http_port}" }

  config = {
    for name in local.slot_names : name => templatefile("${path.module}/files/tidegate.toml.tftpl", {
      environment      = var.environment
      root             = var.root
      slot             = name
      peers            = local.peers
      poll_interval_ms = var.poll_interval_ms
      drain_for_s      = local.drain_for_s
      agent_port       = var.agent_port
      http_port        = var.http_port
    })
  }

  consul_ca_file = "/etc/tidegate/consul-ca.pem"

  # How Consul is found: the variables of Consul's own command line.
  service_environment = join("", concat(
    ["CONSUL_HTTP_ADDR=${var.consul.address}\n"],
    # A credential of the unit, from what tidegate-secrets writes.
    ["CONSUL_HTTP_TOKEN_FILE=/run/credentials/tidegate.service/consul-token\n"],
    var.consul.ca_pem == null ? [] : ["CONSUL_CACERT=${local.consul_ca_file}\n"],
  ))

  secrets_script = templatefile("${path.module}/files/tidegate-secrets.tftpl", {
    project = var.project
    secrets = {
      "tidegate.consul-token" = "${var.consul.token_secret}/versions/${var.consul.token_secret_version}"
      "tidegate.peers-token"  = "${var.peers_secret.secret}/versions/${var.peers_secret.version}"
    }
  })

  install_script = templatefile("${path.module}/files/tidegate-install.tftpl", {
    url    = var.package.url
    sha256 = var.package.sha256
  })

  # The unit of the package knows nothing of this balancer.
  unit_drop_in = "[Service]\nTimeoutStopSec=${local.stop_timeout_s}\n"

  # Path, text and mode of each file but the configuration, which is each slot's own.
  common_files = concat(
    [
      ["/etc/default/tidegate", local.service_environment, "0644"],
      ["/etc/systemd/system/tidegate.service.d/50-balancer.conf", local.unit_drop_in, "0644"],
      ["/usr/local/sbin/tidegate-secrets", local.secrets_script, "0755"],
      ["/usr/local/sbin/tidegate-install", local.install_script, "0755"],
    ],
    var.consul.ca_pem == null ? [] : [[local.consul_ca_file, var.consul.ca_pem, "0644"]],
  )

  user_data = {
    for name, config in local.config : name => "#cloud-config\n${yamlencode({
      write_files = [
        for file in concat([["/etc/tidegate/tidegate.toml", config, "0644"]], local.common_files) : {
          path        = file[0]
          content     = file[1]
          permissions = file[2]
          owner       = "root:root"
        }
      ]
      runcmd = [["/usr/local/sbin/tidegate-secrets"], ["/usr/local/sbin/tidegate-install"]]
    })}"
  }
}
