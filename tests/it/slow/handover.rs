//! Restarts beside a polling HAProxy: what it says of its agent checks.

use std::time::Duration;

use crate::harness::backend::Backend;
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::recorder::Recorder;
use crate::harness::tidegate::{Tidegate, consul_environment};
use crate::harness::wait::{PATIENCE, check, eventually, throughout};
use crate::kv_cases::{DRAINED, key, set_up};
use crate::life_cycle::handover::{Unit, longest_wait};

const SERVERS: usize = 40;
const POLLERS: usize = 8;
/// So often that polls come at every moment of a restart.
const INTER: Duration = Duration::from_millis(100);
const RESTARTS: usize = 5;

struct Scene {
    unit: Unit,
    tidegate: Tidegate,
    consul: Consul,
    folder: Folder,
    backend: Backend,
}

impl Scene {
    fn start() -> Self {
        let consul = Consul::dev();
        set_up(&consul);
        consul.kv_put(&key("canary-state"), "drain");
        let folder = Folder::new("handover");
        let mut unit = Unit::new();
        let tidegate = start(&mut unit, &consul, &folder);
        Self {
            unit,
            tidegate,
            consul,
            folder,
            backend: Backend::start("canary"),
        }
    }

    fn restart(&mut self) {
        assert_eq!(self.tidegate.stop(), Some(0));
        self.tidegate = start(&mut self.unit, &self.consul, &self.folder);
    }

    /// Polls get the time that an agent-inter of 2 s would leave them.
    fn haproxy(&self, version: Version) -> Haproxy {
        let names: Vec<_> = (0..SERVERS).map(|at| format!("s{at}")).collect();
        let requests: Vec<_> = names
            .iter()
            .map(|name| format!("web/{name} canary"))
            .collect();
        let servers = names.iter().zip(&requests).map(|(name, request)| {
            let server = AgentServer {
                name,
                address: self.backend.address(),
                agent: self.tidegate.agent(),
                request,
                inter: INTER,
                more: "",
            };
            format!("{server}\n")
        });
        let servers: String = servers.collect();
        let config = format!(
            "global\n    log stdout format raw daemon\n{DEFAULTS}    log global\n    option \
             log-health-checks\n    timeout check 2s\nbackend web\n{servers}"
        );
        let haproxy = Haproxy::start(version, &config);
        await_drained(&haproxy);
        haproxy
    }
}

fn start(unit: &mut Unit, consul: &Consul, folder: &Folder) -> Tidegate {
    let data = folder.join("data").display().to_string();
    let arguments = ["--kv", "consul", "--data-dir", &data];
    let mut tidegate = unit.start(&arguments, &consul_environment(consul));
    tidegate.await_ready();
    tidegate
}

fn await_drained(haproxy: &Haproxy) {
    eventually("all servers are drained", PATIENCE, || {
        check_drained(haproxy)
    });
}

fn check_drained(haproxy: &Haproxy) -> Result<(), String> {
    let rows = haproxy.show_stat();
    let mut servers = rows.iter().filter(|row| row.field("type") == "2");
    servers.try_for_each(|row| check(row.stands("DRAIN", None), || row.shown()))
}

fn check_version(version: Version) {
    let mut scene = Scene::start();
    let mut haproxy = scene.haproxy(version);
    let pollers = [(); POLLERS].map(|()| Recorder::start(&scene.tidegate, DRAINED));
    for _ in 0..RESTARTS {
        scene.restart();
        throughout("all stay drained", 5 * INTER, || check_drained(&haproxy));
    }
    let failed = failures(&mut haproxy);
    assert!(failed.is_empty(), "{failed:#?}");
    let mut waited = Duration::ZERO;
    let mut polls = 0;
    for poller in &pollers {
        poller.assert_only(&["up drain"]);
        let record = poller.record();
        waited = waited.max(longest_wait(&record));
        polls += record.len();
    }
    println!(
        "{version:?}: {RESTARTS} restarts, {polls} polls beside HAProxy's, none lost, the longest took {waited:.2?}"
    );

    // The same without a manager that keeps anything: what was counted above does happen.
    eventually("HAProxy tells of lost polls", PATIENCE, || {
        // A fast restart may fall between two polls, and each process has its listeners kept.
        scene.unit.manager.forget();
        scene.restart();
        let failed = failures(&mut haproxy).len();
        check(failed > 0, || "no failure in its log".to_owned())
    });
}

/// HAProxy logs the first of a server's polls that failed, and then the first that did not.
fn failures(haproxy: &mut Haproxy) -> Vec<String> {
    let log = haproxy.process().log_text();
    let of_agents = log
        .lines()
        .filter(|line| line.contains("Agent check for server"));
    let failed = of_agents.filter(|line| line.contains(" failed, reason: "));
    failed.map(str::to_owned).collect()
}

#[test]
fn haproxy_loses_no_poll_over_restarts_on_a_listener_that_is_kept() {
    for version in Version::ALL {
        check_version(version);
    }
}
