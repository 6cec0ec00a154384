//! The configuration of a container, read by the real program as the container would read it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use crate::harness::folder::Folder;
use crate::harness::kubernetes::{Rendered, name_of, named};
use crate::harness::process::run;
use crate::harness::tidegate::tidegate;
use crate::harness::tools::tool;
use crate::harness::wait::{PATIENCE, check};

/// Where the manifests put the secrets.
const SECRETS: &str = "/run/secrets/tidegate";

/// What holds for one replica, as `check-config` prints it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) settings: BTreeMap<String, String>,
    /// What Consul's own variables are.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) digest: String,
}

impl Configuration {
    pub(super) fn setting(&self, key: &str) -> Result<&str, String> {
        let value = self.settings.get(key).map(String::as_str);
        value.ok_or_else(|| format!("the configuration says no {key}"))
    }

    /// A time.
    pub(super) fn span(&self, key: &str) -> Result<Duration, String> {
        let text = self.setting(key)?;
        humantime::parse_duration(text).map_err(|error| format!("{key}: {error}"))
    }

    /// The port of a listener, and whether it takes connections of every address.
    pub(super) fn listener(&self, key: &str) -> Result<(u64, bool), String> {
        let text = self.setting(key)?;
        let address: std::net::SocketAddr = text.parse().map_err(|_| format!("{key}: {text}"))?;
        Ok((address.port().into(), address.ip().is_unspecified()))
    }
}

/// Reads the configuration of the container in a pod of that name; the error is what the program
/// says of it.
pub(super) fn configuration(
    rendered: &Rendered,
    pod: &Value,
    container: &Value,
    name: &str,
) -> Result<Configuration, String> {
    let folder = Folder::new("configuration");
    let secrets = folder.path().display().to_string();
    write_secrets(&folder);
    let text = file_of(rendered, pod, container)?;
    let file = folder.write("tidegate.toml", &text.replace(SECRETS, &secrets));
    let variables = variables(rendered, container, name)?;
    let here = |text: &String| text.replace(SECRETS, &secrets);
    let given: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.clone(), here(value)))
        .collect();
    let output = tidegate(&["check-config", &file.display().to_string()], &given);
    check(output.code == Some(0), || {
        format!("check-config, {name}: {}", output.stderr)
    })?;
    let mut settings = BTreeMap::new();
    for line in output.stdout.lines() {
        if let Some((key, rest)) = line.split_once(" = ")
            && let Some((value, _)) = rest.rsplit_once(" (")
        {
            settings.insert(key.to_owned(), value.replace(&secrets, SECRETS));
        }
    }
    Ok(Configuration {
        settings,
        variables,
        digest: output.stdout.lines().last().unwrap_or_default().to_owned(),
    })
}

/// What the README has people make: `kubectl create secret generic tidegate-secrets`.
pub(super) const SECRET_FILES: [&str; 3] = ["consul-token", "peers-token", "consul-ca.pem"];

fn write_secrets(folder: &Folder) {
    let [consul_token, peers_token, ca] = SECRET_FILES;
    folder.write(consul_token, "11111111-2222-3333-4444-555555555555");
    folder.write(peers_token, "a-secret-of-three-replicas");
    folder.write(ca, &AUTHORITY);
}

/// The certificate of an authority.
static AUTHORITY: LazyLock<String> = LazyLock::new(|| {
    let folder = Folder::new("authority");
    let mut command = Command::new(tool("consul"));
    command
        .args(["tls", "ca", "create"])
        .current_dir(folder.path());
    let output = run("consul-tls", &command, PATIENCE);
    assert_eq!(output.code, Some(0), "{output:?}");
    let file = folder.join("consul-agent-ca.pem");
    std::fs::read_to_string(file).expect("consul wrote it")
});

/// The file that `--config` names, out of the volume that is mounted there.
fn file_of(rendered: &Rendered, pod: &Value, container: &Value) -> Result<String, String> {
    let arguments = container["args"].as_array().ok_or("no arguments")?;
    let at = arguments.iter().position(|argument| argument == "--config");
    let path = at.and_then(|at| arguments.get(at + 1)?.as_str());
    let path = path.ok_or("no --config in the arguments")?;
    let (folder, file) = path.rsplit_once('/').ok_or("--config is no path")?;
    let volume = volume_at(pod, container, folder)?;
    let map = volume["configMap"]["name"].as_str();
    let map = rendered.one("ConfigMap", map.ok_or("--config lies in no ConfigMap")?)?;
    let text = map["data"][file].as_str();
    text.map(str::to_owned)
        .ok_or_else(|| format!("{} has no {file}", name_of(map)))
}

/// The volume of the pod that is mounted at a path.
pub(super) fn volume_at<'a>(
    pod: &'a Value,
    container: &Value,
    path: &str,
) -> Result<&'a Value, String> {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mut mounts = mounts.filter(|mount| mount["mountPath"] == path);
    let mount = mounts.next();
    let name = mount.and_then(|mount| mount["name"].as_str());
    let name = name.ok_or_else(|| format!("nothing is mounted at {path}"))?;
    named(&pod["volumes"], name).ok_or_else(|| format!("the pod has no volume {name}"))
}

/// What the container finds in its environment, in a pod of that name.
fn variables(
    rendered: &Rendered,
    container: &Value,
    pod_name: &str,
) -> Result<BTreeMap<String, String>, String> {
    let mut all = BTreeMap::new();
    for from in container["envFrom"].as_array().into_iter().flatten() {
        let name = from["configMapRef"]["name"].as_str();
        let map = rendered.one("ConfigMap", name.unwrap_or_default())?;
        for (name, value) in map["data"].as_object().into_iter().flatten() {
            all.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let value = if variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name" {
            pod_name
        } else {
            variable["value"].as_str().unwrap_or_default()
        };
        all.insert(name_text(variable).to_owned(), value.to_owned());
    }
    Ok(all)
}

fn name_text(entry: &Value) -> &str {
    entry["name"].as_str().unwrap_or_default()
}
