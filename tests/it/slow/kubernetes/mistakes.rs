//! Planted mistakes: each must turn red, and for its own reason.

use super::{MANIFESTS, OVERLAYS, VERSIONS, WITH_SIDECAR, central, sidecar};
use crate::harness::copied::{Copied, Mistake, mistake};
use crate::harness::kubernetes::Rendered;

const BUDGET: &str = "base/disruption-budget.yaml";
const CONFIG: &str = "base/tidegate.toml";
const GPRD: &str = "overlays/gprd/kustomization.yaml";
const NAMES: &str = "base/services.yaml";
const POLICIES: &str = "base/network-policies.yaml";
const SET: &str = "base/stateful-set.yaml";
const VALUES: &str = "overlays/gprd/values.yaml";

const SIDECAR: &str = "components/sidecar/sidecar.yaml";
const SIDECAR_CONFIG: &str = "components/sidecar/tidegate.toml";
const EXAMPLE: &str = "examples/haproxy-with-sidecar/haproxy.yaml";

/// What kustomize or the schemas of Kubernetes know.
const OF_THE_FORM: &[Mistake] = &[
    mistake(
        SET,
        "podManagementPolicy:",
        "podManagement:",
        "podManagement",
    ),
    mistake(
        SET,
        "readOnly: true\n            - name: secrets",
        "readonly: true\n            - name: secrets",
        "readonly",
    ),
    mistake(SET, "replicas: 3", "replicas: three", "three"),
    mistake(
        SET,
        "  serviceName: tidegate-replicas\n",
        "  serviceNames: tidegate-replicas\n",
        "'serviceName' is a required",
    ),
    mistake(
        NAMES,
        "publishNotReadyAddresses: true",
        "publishNotReady: true",
        "publishNotReady",
    ),
    mistake(POLICIES, "  ingress:\n", "  incoming:\n", "incoming"),
    mistake(
        VALUES,
        "  name: tidegate-readers\n",
        "  name: tidegate-reader\n",
        "no matches",
    ),
    mistake(GPRD, "  - ../../base\n", "  - ../../bases\n", "bases"),
];

/// What holds between manifests and configuration.
const OF_THE_CENTRAL_SERVICE: &[Mistake] = &[
    mistake(CONFIG, "drain_for =", "drain_time =", "drain_time"),
    mistake(
        CONFIG,
        "drain_for = \"5s\"",
        "drain_for = \"30s\"",
        "the grace period is 60 s",
    ),
    mistake(
        SET,
        "terminationGracePeriodSeconds: 60",
        "terminationGracePeriodSeconds: 30",
        "the grace period is 30 s",
    ),
    mistake(SET, "seconds: 30", "seconds: 10", "preStop waits 10 s"),
    mistake(
        SET,
        "replicas: 3",
        "replicas: 4",
        "tidegate-3 is none of the peers",
    ),
    mistake(
        SET,
        "replicas: 3",
        "replicas: 2",
        "2 replicas, and the peers",
    ),
    mistake(
        CONFIG,
        "tidegate-2 = \"http://tidegate-2.",
        "tidegate-2 = \"http://tidegate-3.",
        "peer tidegate-2 is",
    ),
    mistake(
        CONFIG,
        "http://tidegate-1.tidegate-replicas:8791",
        "http://tidegate-1.tidegate-replicas:8790",
        "peer tidegate-1 is",
    ),
    mistake(
        SET,
        "fieldPath: metadata.name",
        "fieldPath: metadata.namespace",
        "none of the peers",
    ),
    mistake(
        SET,
        "serviceName: tidegate-replicas",
        "serviceName: tidegate",
        "peer tidegate-0 is",
    ),
    mistake(
        NAMES,
        "  publishNotReadyAddresses: true\n",
        "",
        "replicas that are not ready have no name",
    ),
    mistake(NAMES, "  clusterIP: None\n", "", "not headless"),
    mistake(
        SET,
        "podManagementPolicy: Parallel",
        "podManagementPolicy: OrderedReady",
        "would wait for the others",
    ),
    mistake(
        CONFIG,
        "listen = \"0.0.0.0:8790\"",
        "listen = \"0.0.0.0:8789\"",
        "port agent is",
    ),
    mistake(
        CONFIG,
        "listen = \"0.0.0.0:8790\"",
        "listen = \"127.0.0.1:8790\"",
        "not open to all addresses",
    ),
    mistake(
        SET,
        "containerPort: 8791",
        "containerPort: 8792",
        "port http is",
    ),
    mistake(SET, "path: /livez", "path: /readyz", "liveness asks"),
    mistake(
        SET,
        "failureThreshold: 6",
        "failureThreshold: 2",
        "liveness waits 20 s",
    ),
    mistake(SET, "path: /readyz", "path: /livez", "readiness asks"),
    mistake(
        SET,
        "periodSeconds: 2",
        "periodSeconds: 20",
        "readiness notices after",
    ),
    mistake(
        NAMES,
        "load-balancer-type: Internal",
        "load-balancer-type: External",
        "the balancer is",
    ),
    mistake(
        NAMES,
        "externalTrafficPolicy: Local",
        "externalTrafficPolicy: Cluster",
        "source address is not kept",
    ),
    mistake(
        NAMES,
        "      targetPort: agent\n",
        "      targetPort: http\n",
        "the balancer forwards",
    ),
    mistake(
        VALUES,
        "  loadBalancerIP: 10.20.9.9\n",
        "",
        "an address that stays",
    ),
    mistake(VALUES, "[10.20.0.0/24, ", "[", "the balancer lets in"),
    mistake(
        VALUES,
        "cidr: 10.20.1.0/24",
        "cidr: 0.0.0.0/0",
        "ranges are not those",
    ),
    mistake(
        VALUES,
        "        - port: agent\n",
        "        - port: http\n",
        "not what HAProxy reaches",
    ),
    mistake(
        VALUES,
        "cidr: 10.20.16.0/28",
        "cidr: 0.0.0.0/0",
        "everybody reads HTTP",
    ),
    mistake(
        VALUES,
        "        - port: 8501\n",
        "        - port: 8500\n",
        "Consul is at",
    ),
    mistake(
        GPRD,
        "TIDEGATE_ENV=gprd",
        "TIDEGATE_ENV=gprod",
        "gprod is no environment",
    ),
    mistake(
        GPRD,
        "      - CONSUL_CACERT=/run/secrets/tidegate/consul-ca.pem\n",
        "",
        "no CONSUL_CACERT",
    ),
    mistake(
        GPRD,
        "    newTag: 0.1.0\n",
        "    newTag: latest\n",
        "the image is",
    ),
    mistake(
        CONFIG,
        "data_dir = \"/var/lib/tidegate\"",
        "data_dir = \"/var/lib/other\"",
        "data_dir is",
    ),
    mistake(
        CONFIG,
        "/run/secrets/tidegate/peers-token",
        "/etc/tidegate/peers-token",
        "is not of the secret",
    ),
    mistake(
        SET,
        "/run/secrets/tidegate/consul-token",
        "/run/secrets/tidegate/token",
        "CONSUL_HTTP_TOKEN_FILE",
    ),
    mistake(
        SET,
        "readOnlyRootFilesystem: true",
        "readOnlyRootFilesystem: false",
        "readOnlyRootFilesystem is",
    ),
    mistake(SET, "        runAsNonRoot: true\n", "", "runAsNonRoot is"),
    mistake(SET, "runAsUser: 65532", "runAsUser: 1000", "runAsUser is"),
    mistake(
        SET,
        "              drop: [ALL]",
        "              add: [NET_ADMIN]",
        "capabilities is",
    ),
    mistake(
        SET,
        "        seccompProfile:\n          type: RuntimeDefault\n",
        "",
        "seccompProfile is",
    ),
    mistake(
        SET,
        "enableServiceLinks: false",
        "enableServiceLinks: true",
        "enableServiceLinks",
    ),
    mistake(
        SET,
        "whenUnsatisfiable: DoNotSchedule",
        "whenUnsatisfiable: ScheduleAnyway",
        "in one zone",
    ),
    mistake(
        BUDGET,
        "maxUnavailable: 1",
        "maxUnavailable: 2",
        "lets 2 go at once",
    ),
    mistake(
        BUDGET,
        "      app.kubernetes.io/name: tidegate\n",
        "      app.kubernetes.io/name: tidegates\n",
        "disruption budget: it selects other pods",
    ),
];

/// What holds beside one HAProxy.
const OF_THE_SIDECAR: &[Mistake] = &[
    mistake(
        SIDECAR,
        "          restartPolicy: Always\n",
        "",
        "wait for the end",
    ),
    mistake(
        SIDECAR,
        "          livenessProbe:\n",
        "          readinessProbe:\n",
        "no HAProxy would be in service",
    ),
    mistake(SIDECAR, "path: /livez", "path: /readyz", "liveness asks"),
    mistake(
        SIDECAR,
        "containerPort: 8791",
        "containerPort: 8792",
        "liveness asks",
    ),
    mistake(
        SIDECAR_CONFIG,
        "listen = \"127.0.0.1:8790\"",
        "listen = \"0.0.0.0:8790\"",
        "others than this HAProxy",
    ),
    mistake(
        SIDECAR_CONFIG,
        "listen = \"127.0.0.1:8790\"",
        "listen = \"127.0.0.1:8789\"",
        "asks elsewhere",
    ),
    mistake(SIDECAR_CONFIG, "standalone = true\n", "", "standalone"),
    mistake(
        SIDECAR,
        "mountPath: /var/lib/tidegate",
        "mountPath: /var/lib/data",
        "nothing is mounted at",
    ),
    mistake(
        SIDECAR,
        "allowPrivilegeEscalation: false",
        "allowPrivilegeEscalation: true",
        "allowPrivilegeEscalation is",
    ),
    mistake(EXAMPLE, "fsGroup: 65532", "fsGroup: 0", "fsGroup is"),
];

#[test]
fn fields_and_names_that_nobody_knows_turn_red() {
    for mistake in OF_THE_FORM {
        let copied = Copied::of(MANIFESTS);
        mistake.plant(&copied);
        let said = Rendered::of(&copied, OVERLAYS[0])
            .and_then(|rendered| rendered.fits(&copied, VERSIONS[0]));
        mistake.expect_noticed(said.is_ok(), &said.err().unwrap_or_default());
    }
}

#[test]
fn each_mistake_between_manifests_and_configuration_turns_red() {
    for mistake in OF_THE_CENTRAL_SERVICE {
        let copied = Copied::of(MANIFESTS);
        mistake.plant(&copied);
        let wrong = match Rendered::of(&copied, OVERLAYS[0]) {
            Ok(rendered) => central::wrong(&rendered),
            Err(error) => vec![error],
        };
        mistake.expect_noticed(wrong.is_empty(), &wrong.join("\n"));
    }
}

#[test]
fn each_mistake_beside_one_haproxy_turns_red() {
    for mistake in OF_THE_SIDECAR {
        let copied = Copied::of(MANIFESTS);
        mistake.plant(&copied);
        let holds =
            Rendered::of(&copied, WITH_SIDECAR).and_then(|rendered| sidecar::holds(&rendered));
        mistake.expect_noticed(holds.is_ok(), &holds.err().unwrap_or_default());
    }
}
