//! What only Consul has: rights, certificates, and agents that fail.

use tidegate::kv::consul::ConsulKv;
use tidegate::kv::consul::environment::{ConsulSettings, SettingErrors};

use crate::harness::consul::Consul;

/// A store for an agent, with more variables of the environment.
pub(crate) fn connect(consul: &Consul, more: &[(&str, &str)]) -> ConsulKv {
    let url = consul.url();
    let mut variables = vec![("CONSUL_HTTP_ADDR", url.as_str())];
    variables.extend(more);
    with(&variables).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A store configured by these variables alone.
pub(crate) fn with(variables: &[(&str, &str)]) -> Result<ConsulKv, SettingErrors> {
    let settings = ConsulSettings::from_lookup(|name| {
        let found = variables
            .iter()
            .rev()
            .find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    })?;
    ConsulKv::new(settings)
}
