//! The files under `examples/` are what the fleet makes of them, and `scripts/demo` runs on them.

pub(crate) mod render;

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::domain::name::ServerId;
use tidegate::domain::settings::Settings;
use tidegate::domain::topology::Topology;

use crate::harness::fleet::{Active, Fleet};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::tidegate::{Tidegate, tidegate};

/// Set to anything, the tests write the files instead of comparing them.
const UPDATE: &str = "UPDATE_EXAMPLES";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn check_file(path: &str, expected: &str) {
    let file = folder().join(path);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&file, expected)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "examples/{path} is not what examples/fleet.json makes of it; {UPDATE}=1 writes it anew"
    );
}

#[test]
fn the_example_configurations_are_what_the_fleet_renders_and_haproxy_accepts_them() {
    let fleet = Fleet::example();
    let nodes = render::NODES.map(|(name, _)| (name, render::node(&fleet, name)));
    let backends = ("backends", render::backends(&fleet));
    for (name, text) in nodes.into_iter().chain([backends]) {
        check_file(&format!("nodes/{name}.cfg"), &text);
        for version in Version::ALL {
            assert_eq!(
                Haproxy::accepts(version, &text),
                Ok(()),
                "{version:?} {name}"
            );
        }
    }
}

#[test]
fn the_example_settings_know_every_enrolled_server_of_the_fleet() {
    let text = render::settings(&Fleet::example());
    check_file("state/frontend/gprd/settings", &text);
    let (settings, unknown) = Settings::parse(text.as_bytes()).unwrap();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(settings.rows.len(), text.matches("\"server\"").count());
    assert!(settings.guard.is_some());
    assert_eq!(settings.faults, Vec::<String>::new());
    check_topology(&Topology::from_settings(&settings, None));
}

/// Every row of the fleet stands on its node as HAProxy has it, and nothing else does.
fn check_topology(topology: &Topology) {
    let fleet = Fleet::example();
    let mut rows = 0;
    for (node, backend, server) in fleet.enrolled_rows() {
        let id = ServerId::parse(&format!("{backend}/{}", server.name)).expect("a server id");
        let placement = topology.placement(&topology.nodes()[node.name.as_str()], &id);
        let active = server.active == Active::Always || server.zone.as_ref() == Some(&node.zone);
        assert_eq!(
            placement.map(|placed| placed.active),
            Some(active),
            "{id} on {}",
            node.name
        );
        rows += 1;
    }
    let placed = topology.nodes().values().flat_map(|node| {
        let rows = topology.rows().keys();
        rows.filter(move |id| topology.placement(node, id).is_some())
    });
    assert_eq!(placed.count(), rows);
}

#[test]
fn the_example_state_is_served_without_a_problem() {
    let kv = format!("dir:{}", folder().join("state").display());
    let row = "web/gke-cny-web canary node=haproxy-main-01 zone=us-east1-b base=100";
    let service = Tidegate::start(&["--kv", &kv]);
    assert_eq!(service.ask_line(row), "up ready 5%");
    assert_eq!(
        service.ask_line("web/web-gke-us-east1-b base=100"),
        "up ready 100%"
    );
    let explained = tidegate(&["explain", "--env", "gprd", "--kv", &kv, row], &[]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let snapshot = service.get("/api/v1/snapshot").text();
    let snapshot: serde_json::Value = serde_json::from_str(&snapshot).unwrap();
    assert_eq!(snapshot["problems"], serde_json::json!([]), "{snapshot}");
}
