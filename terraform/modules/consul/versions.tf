terraform {
  # 1.9: a validation may look at another variable.
  required_version = ">= 1.9.0"

  required_providers {
    consul = {
      source  = "hashicorp/consul"
      version = ">= 2.22.0, < 3.0.0"
    }
  }
}
