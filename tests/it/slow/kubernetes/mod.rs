//! The Kubernetes manifests: they render, they are of the form that Kubernetes knows, and what has to
//! hold between them and the configuration holds. No cluster is asked; what that cannot prove is said
//! in deploy/kubernetes/README.md.

mod central;
mod configuration;
mod mistakes;
mod rules;
mod sidecar;

use crate::harness::copied::Copied;
use crate::harness::kubernetes::Rendered;

const MANIFESTS: &str = "deploy/kubernetes";
const OVERLAYS: [&str; 2] = ["overlays/gprd", "overlays/gstg"];
const WITH_SIDECAR: &str = "examples/haproxy-with-sidecar";
/// The oldest that knows all that is used, and the newest that the schemas are there for.
const VERSIONS: [&str; 2] = ["1.30", "1.37"];

fn rendered(copied: &Copied, folder: &str) -> Rendered {
    Rendered::of(copied, folder).unwrap_or_else(|error| panic!("{folder}: {error}"))
}

#[test]
fn kubernetes_knows_every_field_of_the_overlays_and_the_example() {
    let copied = Copied::of(MANIFESTS);
    for folder in OVERLAYS.into_iter().chain([WITH_SIDECAR]) {
        let rendered = rendered(&copied, folder);
        for version in VERSIONS {
            let fits = rendered.fits(&copied, version);
            assert_eq!(fits, Ok(()), "{folder}, Kubernetes {version}");
        }
    }
}

#[test]
fn what_has_to_hold_between_manifests_and_configuration_holds_in_each_overlay() {
    let copied = Copied::of(MANIFESTS);
    for overlay in OVERLAYS {
        let wrong = central::wrong(&rendered(&copied, overlay));
        assert!(wrong.is_empty(), "{overlay}: {wrong:#?}");
    }
}

/// Names that differ between environments are values; everything else is the base's.
#[test]
fn the_overlays_differ_in_values_alone() {
    let copied = Copied::of(MANIFESTS);
    let [gprd, gstg] = OVERLAYS.map(|overlay| rendered(&copied, overlay));
    let kinds = |rendered: &Rendered| -> Vec<String> {
        let kind = |object: &serde_json::Value| object["kind"].to_string();
        rendered.objects.iter().map(kind).collect()
    };
    assert_eq!(kinds(&gprd), kinds(&gstg));
    let as_gprd = gstg
        .yaml
        .replace("gstg", "gprd")
        .replace("10.30.", "10.20.");
    let differ = |(one, other): &(&str, &str)| one != other && !one.contains("-environment-");
    let lines = gprd.yaml.lines().zip(as_gprd.lines());
    let different: Vec<_> = lines.filter(differ).collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn the_backlog_component_lengthens_the_queue_and_opens_the_namespace_for_that() {
    let copied = Copied::of(MANIFESTS);
    let overlay = format!("{}/kustomization.yaml", OVERLAYS[0]);
    copied.change(
        &overlay,
        "resources:\n",
        "components: [../../components/backlog]\nresources:\n",
    );
    let rendered = rendered(&copied, OVERLAYS[0]);
    assert_eq!(rendered.fits(&copied, VERSIONS[0]), Ok(()));
    let set = rendered.one("StatefulSet", "tidegate").unwrap();
    let sysctls = &set["spec"]["template"]["spec"]["securityContext"]["sysctls"];
    assert_eq!(sysctls[0]["name"], "net.core.somaxconn");
    // As the package's file says.
    assert_eq!(sysctls[0]["value"], "65535");
    let namespace = rendered.one("Namespace", "tidegate").unwrap();
    let labels = &namespace["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged");
    let wrong = central::wrong(&rendered);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
