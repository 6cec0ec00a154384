//! The Kubernetes manifests as kustomize renders them, and the schemas of Kubernetes over them.

use std::process::Command;

use serde_json::{Deserializer, Value};

use super::copied::Copied;
use super::process::{Output, run};
use super::tools::tool;
use super::wait::{PATIENCE, check};

/// What `deploy/kubernetes` makes of one of its folders.
pub(crate) struct Rendered {
    pub(crate) yaml: String,
    pub(crate) objects: Vec<Value>,
}

impl Rendered {
    /// Renders a folder of a copy of `deploy/kubernetes`; the error is what kustomize says.
    pub(crate) fn of(copied: &Copied, folder: &str) -> Result<Self, String> {
        let yaml = kubectl(&["kustomize", &copied.join(folder).display().to_string()])?;
        let file = copied.write("rendered.yaml", &yaml).display().to_string();
        // Asks no cluster; it is what turns YAML into JSON.
        let label = ["label", "--local", "-f", &file, "-o", "json", "read=here"];
        let json = kubectl(&label)?;
        let objects = Deserializer::from_str(&json).into_iter();
        let objects: Result<_, _> = objects.collect();
        Ok(Self {
            yaml,
            objects: objects.map_err(|error| format!("{error}: {json}"))?,
        })
    }

    /// Whether every object is of the form that this version of Kubernetes knows, without a field
    /// that it does not know.
    pub(crate) fn fits(&self, copied: &Copied, version: &str) -> Result<(), String> {
        let file = copied.write("rendered.yaml", &self.yaml);
        let mut command = Command::new(tool("kubernetes-validate"));
        command.args(["--strict", "-k", version]).arg(file);
        let Output {
            code,
            stdout,
            stderr,
        } = run("kubernetes-validate", &command, PATIENCE);
        check(code == Some(0), || format!("{stdout}{stderr}"))
    }

    /// The only object of that kind and name.
    pub(crate) fn one(&self, kind: &str, name: &str) -> Result<&Value, String> {
        let mut found = self.all(kind).filter(|object| name_of(object) == name);
        match (found.next(), found.next()) {
            (Some(object), None) => Ok(object),
            (None, _) => Err(format!("there is no {kind} {name}")),
            (Some(_), Some(_)) => Err(format!("there are two {kind} {name}")),
        }
    }

    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |object| object["kind"] == kind)
    }
}

pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The entry of a list that has that name.
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry["name"] == name)
}

fn kubectl(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(tool("kubectl"));
    // Nothing of whoever runs the tests: no cluster, no plug-in.
    command.args(arguments).env("KUBECONFIG", "/dev/null");
    let output = run("kubectl", &command, PATIENCE);
    check(output.code == Some(0), || output.stderr.clone())?;
    Ok(output.stdout)
}
