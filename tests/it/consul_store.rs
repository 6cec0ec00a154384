//! What only Consul has: rights, certificates, and agents that fail.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

use tidegate::domain::key::Prefix;
use tidegate::kv::consul::ConsulKv;
use tidegate::kv::consul::environment::{ConsulSettings, SettingErrors};
use tidegate::kv::{Expect, Operation};

use crate::harness::consul::Consul;

mod faults;
mod names;
mod peer;
mod rights;
mod tls;

/// A store for an agent, with more variables of the environment.
pub(crate) fn connect(consul: &Consul, more: &[(&str, &str)]) -> ConsulKv {
    let url = consul.url();
    let mut variables = vec![("CONSUL_HTTP_ADDR", url.as_str())];
    variables.extend(more);
    with(&variables).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A store configured by these variables alone.
pub(crate) fn with(variables: &[(&str, &str)]) -> Result<ConsulKv, SettingErrors> {
    ConsulKv::new(settings(variables)?)
}

/// Settings by these variables alone; of a variable that stands twice the last counts.
fn settings(variables: &[(&str, &str)]) -> Result<ConsulSettings, SettingErrors> {
    ConsulSettings::from_lookup(|name| {
        let mut latest_first = variables.iter().rev();
        let found = latest_first.find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

fn gprd() -> Prefix {
    Prefix::new("frontend", "gprd").unwrap()
}

fn set(key: &str, value: impl Into<bytes::Bytes>) -> Operation {
    Operation::Set {
        key: key.to_owned(),
        value: value.into(),
        expect: Expect::Anything,
    }
}
