# Values that are refused, each by the variable that it is given to.

mock_provider "consul" {}

variables {
  environment = "gprd"
}

run "an_environment_with_a_slash" {
  command = plan

  variables {
    environment = "gprd/x"
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

run "an_operator_with_a_space" {
  command = plan

  variables {
    operators = ["Ann B"]
  }

  expect_failures = [var.operators]
}

run "an_issuer_without_tls" {
  command = plan

  variables {
    pipeline = { issuer = "http://gitlab.example", audiences = ["https://consul.example"], jwks_url = "https://gitlab.example/keys", selector = "value.ref == \"main\"" }
  }

  expect_failures = [var.pipeline]
}

run "tokens_for_anybody" {
  command = plan

  variables {
    pipeline = { issuer = "https://gitlab.example", audiences = [], jwks_url = "https://gitlab.example/keys", selector = "value.ref == \"main\"" }
  }

  expect_failures = [var.pipeline]
}

run "no_keys_to_check_tokens_by" {
  command = plan

  variables {
    pipeline = { issuer = "https://gitlab.example", audiences = ["https://consul.example"], selector = "value.ref == \"main\"" }
  }

  expect_failures = [var.pipeline]
}

run "two_sources_of_keys" {
  command = plan

  variables {
    pipeline = { issuer = "https://gitlab.example", audiences = ["https://consul.example"], jwks_url = "https://gitlab.example/keys", selector = "value.ref == \"main\"", public_keys = ["-----BEGIN PUBLIC KEY-----"] }
  }

  expect_failures = [var.pipeline]
}

run "every_job_of_the_issuer" {
  command = plan

  variables {
    pipeline = { issuer = "https://gitlab.example", audiences = ["https://consul.example"], jwks_url = "https://gitlab.example/keys", selector = " " }
  }

  expect_failures = [var.pipeline]
}

run "tokens_that_never_end" {
  command = plan

  variables {
    pipeline = { issuer = "https://gitlab.example", audiences = ["https://consul.example"], jwks_url = "https://gitlab.example/keys", selector = "value.ref == \"main\"", max_token_ttl = "" }
  }

  expect_failures = [var.pipeline]
}

run "an_epoch_in_milliseconds" {
  command = plan

  variables {
    bootstrap = { epoch = 1767225600000 }
  }

  expect_failures = [var.bootstrap]
}

run "a_canary_in_no_state" {
  command = plan

  variables {
    bootstrap = { epoch = 1767225600, canary_state = "down" }
  }

  expect_failures = [var.bootstrap]
}

run "settings_that_are_text" {
  command = plan

  variables {
    settings = "{}"
  }

  expect_failures = [var.settings]
}

run "settings_with_a_misspelling" {
  command = plan

  variables {
    settings = { guards = {} }
  }

  expect_failures = [var.settings]
}
