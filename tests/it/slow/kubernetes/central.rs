//! What has to hold for the central service.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::configuration::{Configuration, configuration};
use super::rules::{
    image_is_named, is_alive_by_livez, is_confined, port_of, secrets_are_mounted, selects,
};
use crate::harness::kubernetes::{Rendered, name_of, named};
use crate::harness::wait::check;

/// Google's probes of a node: 8 s apart, three of them, the last one times out after 1 s.
const BALANCER_NOTICES_WITHIN: u64 = 25;
/// For polls that are open when `drain_for` is over.
const ROOM_TO_END: u64 = 10;
/// Of what is kept in `data_dir`: the name of the claim and the path.
const DATA: &str = "data";

/// One environment, and what its replicas have in common.
struct Central<'a> {
    rendered: &'a Rendered,
    set: &'a Value,
    template: &'a Value,
    pod: &'a Value,
    container: &'a Value,
    configuration: Configuration,
}

type Rule = fn(&Central<'_>) -> Result<(), String>;

const RULES: &[Rule] = &[
    peers_are_the_replicas,
    peers_find_each_other,
    listeners_are_ports,
    probes_ask_what_they_should,
    the_end_is_waited_for,
    the_balancer_is_internal,
    the_balancer_has_the_agent_port_alone,
    haproxy_alone_reaches_the_agent,
    readers_reach_http_alone,
    consul_is_reached,
    what_is_known_is_kept,
    one_at_a_time,
    |central| is_confined(central.pod, central.container),
    |central| secrets_are_mounted(central.pod, central.container, &central.configuration),
    |central| image_is_named(central.container),
];

/// Everything that is not as it must be.
pub(super) fn wrong(rendered: &Rendered) -> Vec<String> {
    match Central::read(rendered) {
        Ok(central) => RULES
            .iter()
            .filter_map(|rule| rule(&central).err())
            .collect(),
        Err(error) => vec![error],
    }
}

impl<'a> Central<'a> {
    fn read(rendered: &'a Rendered) -> Result<Self, String> {
        let set = rendered.one("StatefulSet", "tidegate")?;
        let template = &set["spec"]["template"];
        let pod = &template["spec"];
        let container = named(&pod["containers"], "tidegate").ok_or("no container tidegate")?;
        let replicas = set["spec"]["replicas"].as_u64().unwrap_or_default();
        let mut all = Vec::new();
        for number in 0..replicas {
            let name = format!("{}-{number}", name_of(set));
            let mut read = configuration(rendered, pod, container, &name)?;
            let slot = read.settings.remove("slot");
            check(slot.as_ref() == Some(&name), || {
                format!("the slot of {name} is {slot:?}")
            })?;
            read.variables.remove("TIDEGATE_SLOT");
            all.push(read);
        }
        all.dedup();
        match (all.pop(), all.is_empty()) {
            (Some(configuration), true) => Ok(Self {
                rendered,
                set,
                template,
                pod,
                container,
                configuration,
            }),
            (None, _) => Err("there is no replica".to_owned()),
            (Some(_), false) => Err("the replicas' settings differ".to_owned()),
        }
    }

    fn port(&self, setting: &str) -> Result<u64, String> {
        Ok(self.configuration.listener(setting)?.0)
    }

    fn service(&self, name: &str) -> Result<&Value, String> {
        let service = &self.rendered.one("Service", name)?["spec"];
        selects(&service["selector"], self.template)
            .map_err(|error| format!("service {name}: {error}"))?;
        Ok(service)
    }

    fn policy(&self, name: &str) -> Result<&Value, String> {
        let policy = &self.rendered.one("NetworkPolicy", name)?["spec"];
        selects(&policy["podSelector"]["matchLabels"], self.template)
            .map_err(|error| format!("network policy {name}: {error}"))?;
        Ok(policy)
    }

    /// The ports that a rule of a network policy names.
    fn ports(&self, rule: &Value) -> Vec<Option<u64>> {
        let ports = rule["ports"].as_array().into_iter().flatten();
        ports
            .map(|port| port_of(self.container, &port["port"]))
            .collect()
    }
}

fn peers_are_the_replicas(central: &Central<'_>) -> Result<(), String> {
    let text = central.configuration.setting("peers")?;
    let peers: BTreeMap<_, _> = text.split(',').filter_map(|p| p.split_once('=')).collect();
    let replicas = central.set["spec"]["replicas"].as_u64().unwrap_or_default();
    let port = central.port("http.listen")?;
    let service = central.set["spec"]["serviceName"].as_str();
    let service = service.unwrap_or_default();
    check(peers.len() as u64 == replicas, || {
        format!("{replicas} replicas, and the peers are {peers:?}")
    })?;
    check(replicas >= 3, || format!("{replicas} replicas only"))?;
    for number in 0..replicas {
        let name = format!("{}-{number}", name_of(central.set));
        let expected = format!("http://{name}.{service}:{port}");
        let found = peers.get(name.as_str());
        check(found == Some(&expected.as_str()), || {
            format!("peer {name} is {found:?}, not {expected}")
        })?;
    }
    Ok(())
}

fn peers_find_each_other(central: &Central<'_>) -> Result<(), String> {
    let name = central.set["spec"]["serviceName"].as_str();
    let service = central.service(name.unwrap_or_default())?;
    check(service["clusterIP"] == "None", || {
        "the replicas' service is not headless".to_owned()
    })?;
    check(service["publishNotReadyAddresses"] == true, || {
        "replicas that are not ready have no name".to_owned()
    })?;
    let policy = &central.set["spec"]["podManagementPolicy"];
    check(*policy == "Parallel", || {
        format!("podManagementPolicy is {policy}: the first would wait for the others for ever")
    })?;
    let http = central.port("http.listen")?;
    let spec = central.policy("tidegate")?;
    for direction in ["ingress", "egress"] {
        let peer = if direction == "ingress" { "from" } else { "to" };
        let open = |rule: &&Value| {
            let selector = &rule[peer][0]["podSelector"]["matchLabels"];
            selects(selector, central.template).is_ok() && central.ports(rule) == [Some(http)]
        };
        let mut rules = spec[direction].as_array().into_iter().flatten();
        check(rules.any(|rule| open(&rule)), || {
            format!("peers are not let through: {direction}")
        })?;
    }
    check(spec["policyTypes"] == json!(["Ingress", "Egress"]), || {
        "what is not said is not closed".to_owned()
    })
}

fn listeners_are_ports(central: &Central<'_>) -> Result<(), String> {
    for (setting, name) in [("agent.listen", "agent"), ("http.listen", "http")] {
        let (port, all) = central.configuration.listener(setting)?;
        check(all, || format!("{setting} is not open to all addresses"))?;
        let named = port_of(central.container, &json!(name));
        check(named == Some(port), || {
            format!("port {name} is {named:?}, {setting} {port}")
        })?;
    }
    Ok(())
}

fn probes_ask_what_they_should(central: &Central<'_>) -> Result<(), String> {
    let http = central.port("http.listen")?;
    is_alive_by_livez(central.container, http)?;
    let probe = &central.container["readinessProbe"];
    let path = &probe["httpGet"]["path"];
    check(*path == "/readyz", || format!("readiness asks {path}"))?;
    let port = port_of(central.container, &probe["httpGet"]["port"]);
    check(port == Some(http), || format!("readiness asks {port:?}"))?;
    let seconds = probe["periodSeconds"].as_u64().unwrap_or(10)
        * probe["failureThreshold"].as_u64().unwrap_or(3);
    check(seconds <= 5, || {
        format!("readiness notices after {seconds} s")
    })
}

fn the_end_is_waited_for(central: &Central<'_>) -> Result<(), String> {
    let before = &central.container["lifecycle"]["preStop"]["sleep"]["seconds"];
    let before = before.as_u64().unwrap_or_default();
    check(before > BALANCER_NOTICES_WITHIN, || {
        format!("preStop waits {before} s: the balancer needs {BALANCER_NOTICES_WITHIN}")
    })?;
    let grace = central.pod["terminationGracePeriodSeconds"].as_u64();
    let grace = grace.unwrap_or(30);
    let needed = Duration::from_secs(before + ROOM_TO_END);
    let needed = needed + central.configuration.span("drain_for")?;
    check(Duration::from_secs(grace) >= needed, || {
        format!("the grace period is {grace} s: preStop, drain_for and open polls need {needed:?}")
    })
}

fn the_balancer_is_internal(central: &Central<'_>) -> Result<(), String> {
    let service = central.rendered.one("Service", "tidegate")?;
    let kind = &service["metadata"]["annotations"]["networking.gke.io/load-balancer-type"];
    check(*kind == "Internal", || format!("the balancer is {kind}"))?;
    let spec = central.service("tidegate")?;
    check(spec["type"] == "LoadBalancer", || {
        format!("the service is {}", spec["type"])
    })?;
    check(spec["externalTrafficPolicy"] == "Local", || {
        "the source address is not kept".to_owned()
    })?;
    let address = spec["loadBalancerIP"].as_str().unwrap_or_default();
    check(address.parse::<std::net::IpAddr>().is_ok(), || {
        format!("HAProxy needs an address that stays: {address:?}")
    })
}

fn the_balancer_has_the_agent_port_alone(central: &Central<'_>) -> Result<(), String> {
    let spec = central.service("tidegate")?;
    let agent = central.port("agent.listen")?;
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports: Vec<_> = ports
        .map(|port| {
            (
                port["port"].as_u64(),
                port_of(central.container, &port["targetPort"]),
            )
        })
        .collect();
    check(ports == [(Some(agent), Some(agent))], || {
        format!("the balancer forwards {ports:?}, the agent listens at {agent}")
    })
}

fn haproxy_alone_reaches_the_agent(central: &Central<'_>) -> Result<(), String> {
    let agent = central.port("agent.listen")?;
    let rules = &central.policy("tidegate-haproxy")?["ingress"];
    let rule = rules[0].clone();
    check(
        rules.as_array().map(Vec::len) == Some(1) && central.ports(&rule) == [Some(agent)],
        || format!("the agent port is not what HAProxy reaches: {rules}"),
    )?;
    let sources = rule["from"].as_array().into_iter().flatten();
    let allowed: Vec<_> = sources
        .map(|from| from["ipBlock"]["cidr"].clone())
        .collect();
    ranges_are_named(&allowed)?;
    let balanced = &central.service("tidegate")?["loadBalancerSourceRanges"];
    check(*balanced == json!(allowed), || {
        format!("the balancer lets in {balanced}, the network policy {allowed:?}")
    })
}

/// Not everybody, and not nobody.
fn ranges_are_named(ranges: &[Value]) -> Result<(), String> {
    let is_range = |range: &Value| {
        let text = range.as_str().unwrap_or_default();
        text.contains('/') && !text.ends_with("/0")
    };
    check(!ranges.is_empty() && ranges.iter().all(is_range), || {
        format!("ranges are not those of the nodes: {ranges:?}")
    })
}

fn readers_reach_http_alone(central: &Central<'_>) -> Result<(), String> {
    let http = central.port("http.listen")?;
    let rules = central.policy("tidegate-readers")?["ingress"].as_array();
    let rules = rules.ok_or("nobody may read the HTTP port")?;
    for rule in rules {
        check(central.ports(rule) == [Some(http)], || {
            format!("readers reach more than HTTP: {rule}")
        })?;
        let sources = rule["from"].as_array().ok_or("everybody reads HTTP")?;
        let ranges = sources.iter().map(|from| from["ipBlock"]["cidr"].clone());
        let ranges: Vec<_> = ranges.filter(|range| !range.is_null()).collect();
        check(
            ranges.is_empty() || ranges_are_named(&ranges).is_ok(),
            || format!("everybody reads HTTP: {ranges:?}"),
        )?;
    }
    Ok(())
}

fn consul_is_reached(central: &Central<'_>) -> Result<(), String> {
    let address = central.configuration.variables.get("CONSUL_HTTP_ADDR");
    let address = address.ok_or("nobody says where Consul is")?;
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    let rules = &central.policy("tidegate-consul")?["egress"];
    let open = central.ports(&rules[0]);
    check(address.starts_with("https://") && open == [port], || {
        format!("Consul is at {address}, and {open:?} is open")
    })
}

fn what_is_known_is_kept(central: &Central<'_>) -> Result<(), String> {
    let folder = central.configuration.setting("data_dir")?;
    let mount = named(&central.container["volumeMounts"], DATA);
    let path = mount.and_then(|mount| mount["mountPath"].as_str());
    check(path == Some(folder), || {
        format!("data_dir is {folder}, and the disk is at {path:?}")
    })?;
    let claims = central.set["spec"]["volumeClaimTemplates"].as_array();
    let claims = claims.into_iter().flatten();
    check(claims.map(name_of).any(|name| name == DATA), || {
        "what is known is gone with the pod".to_owned()
    })
}

fn one_at_a_time(central: &Central<'_>) -> Result<(), String> {
    let budget = &central.rendered.one("PodDisruptionBudget", "tidegate")?["spec"];
    selects(&budget["selector"]["matchLabels"], central.template)
        .map_err(|error| format!("disruption budget: {error}"))?;
    check(budget["maxUnavailable"] == 1, || {
        format!("the budget lets {} go at once", budget["maxUnavailable"])
    })?;
    let update = &central.set["spec"]["updateStrategy"]["type"];
    check(*update == "RollingUpdate", || format!("update: {update}"))?;
    let spread = &central.pod["topologySpreadConstraints"][0];
    selects(&spread["labelSelector"]["matchLabels"], central.template)
        .map_err(|error| format!("spread: {error}"))?;
    let zones = (
        &spread["topologyKey"],
        &spread["whenUnsatisfiable"],
        &spread["maxSkew"],
        &spread["minDomains"],
    );
    let expected = (
        &json!("topology.kubernetes.io/zone"),
        &json!("DoNotSchedule"),
        &json!(1),
        &central.set["spec"]["replicas"],
    );
    check(zones == expected, || {
        format!("two replicas may stand in one zone: {spread}")
    })
}
