//! What holds for each container of Tidegate, wherever it stands.

use serde_json::{Value, json};

use super::configuration::{Configuration, SECRET_FILES, volume_at};
use crate::harness::wait::check;

/// The user of the image.
const USER: u64 = 65532;

/// What the restricted standard of Kubernetes asks for, and a root that nobody writes to.
pub(super) fn is_confined(pod: &Value, container: &Value) -> Result<(), String> {
    let (of_pod, own) = (&pod["securityContext"], &container["securityContext"]);
    let either = |field: &str| own.get(field).unwrap_or(&of_pod[field]).clone();
    for (field, expected) in [
        ("runAsNonRoot", json!(true)),
        ("runAsUser", json!(USER)),
        ("runAsGroup", json!(USER)),
        ("seccompProfile", json!({"type": "RuntimeDefault"})),
    ] {
        let seen = either(field);
        check(seen == expected, || format!("{field} is {seen}"))?;
    }
    for (field, expected) in [
        ("allowPrivilegeEscalation", json!(false)),
        ("readOnlyRootFilesystem", json!(true)),
        ("capabilities", json!({"drop": ["ALL"]})),
    ] {
        let seen = &own[field];
        check(*seen == expected, || format!("{field} is {seen}"))?;
    }
    for field in ["automountServiceAccountToken", "enableServiceLinks"] {
        check(pod[field] == json!(false), || format!("{field} is not off"))?;
    }
    // The data is written through this group, and secrets are read.
    let group = &of_pod["fsGroup"];
    check(*group == json!(USER), || format!("fsGroup is {group}"))?;
    for name in ["hostNetwork", "hostPID", "hostIPC"] {
        check(pod[name].is_null(), || format!("{name} is said"))?;
    }
    Ok(())
}

/// What is read is where it is mounted, and part of the secret that people are told to make.
pub(super) fn secrets_are_mounted(
    pod: &Value,
    container: &Value,
    configuration: &Configuration,
) -> Result<(), String> {
    let variable = |name| configuration.variables.get(name);
    let token = variable("CONSUL_HTTP_TOKEN_FILE").ok_or("no CONSUL_HTTP_TOKEN_FILE")?;
    let ca = variable("CONSUL_CACERT")
        .ok_or("no CONSUL_CACERT: the image has no authorities of its own")?;
    let peers = configuration.settings.get("peers_token_file");
    for path in [token, ca].into_iter().chain(peers) {
        let (folder, file) = path.rsplit_once('/').unwrap_or_default();
        let volume = volume_at(pod, container, folder)?;
        let secret = &volume["secret"]["secretName"];
        check(*secret == "tidegate-secrets", || {
            format!("{path} is not of the secret: {volume}")
        })?;
        check(SECRET_FILES.contains(&file), || {
            format!("{file} is no file of the secret")
        })?;
    }
    Ok(())
}

/// A slow probe of `/livez`: `/readyz` says that Consul is away, which no new process cures.
pub(super) fn is_alive_by_livez(container: &Value, http: u64) -> Result<(), String> {
    let probe = &container["livenessProbe"];
    let path = &probe["httpGet"]["path"];
    check(*path == "/livez", || format!("liveness asks {path}"))?;
    let port = port_of(container, &probe["httpGet"]["port"]);
    check(port == Some(http), || format!("liveness asks {port:?}"))?;
    let seconds = probe["periodSeconds"].as_u64().unwrap_or(10)
        * probe["failureThreshold"].as_u64().unwrap_or(3);
    check(seconds >= 60, || format!("liveness waits {seconds} s only"))
}

/// The number of a port that is named, or given.
pub(super) fn port_of(container: &Value, port: &Value) -> Option<u64> {
    let ports = container["ports"].as_array()?;
    let named = ports.iter().find(|entry| entry["name"] == *port);
    let number = named.map_or(port, |entry| &entry["containerPort"]);
    number.as_u64()
}

/// Whether the pods of a template are among those that are meant.
pub(super) fn selects(selector: &Value, template: &Value) -> Result<(), String> {
    let wanted = selector.as_object().ok_or("it selects nothing")?;
    let labels = &template["metadata"]["labels"];
    let missing = wanted.iter().find(|(name, value)| labels[*name] != **value);
    check(!wanted.is_empty() && missing.is_none(), || {
        format!("it selects other pods: {missing:?}")
    })
}

/// An image with the registry and the version of a release.
pub(super) fn image_is_named(container: &Value) -> Result<(), String> {
    let image = container["image"].as_str().unwrap_or_default();
    let named = image.contains('/') && (image.contains(':') || image.contains('@'));
    check(named && !image.ends_with(":latest"), || {
        format!("the image is {image}")
    })
}
