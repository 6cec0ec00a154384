//! Tidegate beside one HAProxy, in its pod.

use serde_json::Value;

use super::configuration::{configuration, volume_at};
use super::rules::{image_is_named, is_alive_by_livez, is_confined, port_of, secrets_are_mounted};
use super::{MANIFESTS, WITH_SIDECAR, rendered};
use crate::harness::copied::Copied;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::kubernetes::{Rendered, named};
use crate::harness::tidegate::tidegate;
use crate::harness::wait::check;

#[test]
fn what_has_to_hold_beside_one_haproxy_holds_in_the_example() {
    let copied = Copied::of(MANIFESTS);
    assert_eq!(holds(&rendered(&copied, WITH_SIDECAR)), Ok(()));
}

#[test]
fn haproxy_accepts_the_example_and_lint_finds_nothing_in_it() {
    let copied = Copied::of(MANIFESTS);
    let config = file_of_haproxy(&rendered(&copied, WITH_SIDECAR)).unwrap();
    for version in Version::ALL {
        // The pod says which zone it stands in.
        let config = format!("global\n    setenv LB_ZONE us-east1-b\n{config}");
        assert_eq!(Haproxy::accepts(version, &config), Ok(()));
    }
    let folder = Folder::new("sidecar");
    let file = folder.write("haproxy.cfg", &config).display().to_string();
    let zone = "LB_ZONE=us-east1-b";
    let output = tidegate(&["lint", "--strict", "--variable", zone, &file], &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// What has to hold; the error says what does not.
pub(super) fn holds(rendered: &Rendered) -> Result<(), String> {
    let pod = &rendered.one("Deployment", "haproxy")?["spec"]["template"]["spec"];
    let container = named(&pod["initContainers"], "tidegate").ok_or("no sidecar")?;
    check(container["restartPolicy"] == "Always", || {
        "HAProxy would wait for the end of Tidegate".to_owned()
    })?;
    for probe in ["readinessProbe", "startupProbe"] {
        check(container[probe].is_null(), || {
            format!("{probe}: without Consul no HAProxy would be in service")
        })?;
    }
    let configuration = configuration(rendered, pod, container, "haproxy-5d9c-x7k2p")?;
    let standalone = configuration.setting("standalone")?;
    check(standalone == "true", || "it is not alone".to_owned())?;
    let (http, _) = configuration.listener("http.listen")?;
    is_alive_by_livez(container, http)?;
    let named_http = port_of(container, &"tidegate-http".into());
    check(named_http == Some(http), || {
        format!("HTTP is at {named_http:?}")
    })?;
    asks_its_own_pod(
        &file_of_haproxy(rendered)?,
        configuration.setting("agent.listen")?,
    )?;
    let data = volume_at(pod, container, configuration.setting("data_dir")?)?;
    check(!data["emptyDir"].is_null(), || {
        format!("data_dir is no folder of the pod: {data}")
    })?;
    secrets_are_mounted(pod, container, &configuration)?;
    image_is_named(container)?;
    is_confined(pod, container)
}

/// Every agent check goes to where Tidegate listens, which nobody else reaches.
fn asks_its_own_pod(config: &str, listen: &str) -> Result<(), String> {
    let (address, port) = listen.rsplit_once(':').unwrap_or_default();
    check(address == "127.0.0.1", || {
        format!("agent.listen is {listen}: others than this HAProxy reach it")
    })?;
    let words = format!("agent-addr {address} agent-port {port} ");
    let asking = config.lines().filter(|line| line.contains("agent-check"));
    let mut elsewhere = asking.filter(|line| !line.contains(&words));
    check(elsewhere.next().is_none(), || {
        format!("HAProxy asks elsewhere than {listen}")
    })
}

fn file_of_haproxy(rendered: &Rendered) -> Result<String, String> {
    let pod = &rendered.one("Deployment", "haproxy")?["spec"]["template"]["spec"];
    let container = named(&pod["containers"], "haproxy").ok_or("no HAProxy")?;
    let volume = volume_at(pod, container, "/usr/local/etc/haproxy")?;
    let map = volume["configMap"]["name"].as_str().unwrap_or_default();
    let text: &Value = &rendered.one("ConfigMap", map)?["data"]["haproxy.cfg"];
    text.as_str()
        .map(str::to_owned)
        .ok_or_else(|| "no haproxy.cfg".to_owned())
}
