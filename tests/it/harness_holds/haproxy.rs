//! Real HAProxy nodes of both versions, real requests through them.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::backend::Backend;
use crate::harness::consul::loopback;
use crate::harness::haproxy::{AgentServer, DEFAULTS, Haproxy, Version};
use crate::harness::load::{self, Load};
use crate::harness::ports::Port;
use crate::harness::responder::Responder;
use crate::harness::wait::{check, eventually};

const INTER: Duration = Duration::from_millis(200);
/// One poll interval, and what a loaded machine needs beside it.
const SOON: Duration = Duration::from_secs(5);

/// Two backends behind one node: `a` follows an agent, `b` does not.
struct Pair {
    a: Backend,
    b: Backend,
    agent: Responder,
    front: Port,
    haproxy: Haproxy,
}

impl Pair {
    fn start(version: Version, more: &str) -> Self {
        let (a, b) = (Backend::start("a"), Backend::start("b"));
        let agent = Responder::start("up ready 100%");
        let front = Port::reserve(loopback(1));
        let server = AgentServer {
            name: "a",
            address: a.address(),
            agent: agent.address(),
            request: "web/a canary node=${HAPROXY_LOCALPEER} zone=${LB_ZONE} base=100",
            inter: INTER,
            more,
        };
        let config = format!(
            "{DEFAULTS}\nlisten web\n    bind 127.0.0.1:{}\n    option httpchk GET /health\n\
             {server}\n    server b {} weight 100\n",
            front.number(),
            b.address()
        );
        let zone = [("LB_ZONE", "us-east1-b")];
        let haproxy = Haproxy::start_node(version, "lb-07", &zone, &config);
        Self {
            a,
            b,
            agent,
            front,
            haproxy,
        }
    }

    /// The load goes on: twenty more requests have been answered.
    fn await_further_requests(&self) {
        let requests = || self.a.requests() + self.b.requests();
        let before = requests();
        eventually("more requests", SOON, || {
            check(requests() >= before + 20, || {
                format!("{before}, then {}", requests())
            })
        });
    }

    fn front(&self) -> std::net::SocketAddr {
        (loopback(1), self.front.number()).into()
    }
}

#[test]
fn both_versions_follow_an_agent_and_show_it_on_the_stats_socket() {
    for version in Version::ALL {
        let pair = Pair::start(version, "");
        let seen = |state| pair.haproxy.await_server("web", "a", state, SOON);
        eventually("the first poll", SOON, || {
            check(!pair.agent.last_request().is_empty(), || "none".to_owned())
        });
        let request = pair.agent.last_request();
        assert_eq!(
            request, "web/a canary node=lb-07 zone=us-east1-b base=100\n",
            "{version:?}"
        );

        pair.agent.say("up ready 40% # i=17 r=a");
        let row = seen(("", Some(40)));
        assert_eq!(row.agent_status(), "L7OK");
        assert!(
            row.last_agt().contains("i=17 r=a"),
            "{version:?}: {}",
            row.last_agt()
        );
        pair.agent.say("up drain");
        seen(("DRAIN", None));
        let counts = load::send(pair.front(), 10);
        assert_eq!(
            (counts.of("b"), counts.total()),
            (10, 10),
            "{version:?}: {counts:?}"
        );
        pair.agent.say("up maint");
        seen(("MAINT", None));
        let state = pair.haproxy.servers_state();
        assert_eq!(state.len(), 2);
        assert!(
            state
                .iter()
                .any(|row| row.field("srv_name") == "a" && row.field("srv_admin_state") == "1")
        );
        pair.agent.say("up ready 100%");
        seen(("", Some(100)));
        assert!(load::send(pair.front(), 10).of("a") > 0);
        assert!(pair.a.requests() > 0 && pair.b.requests() > 0);
    }
}

#[test]
fn a_health_check_that_fails_takes_the_server_down() {
    for version in Version::ALL {
        let pair = Pair::start(version, "check inter 100ms rise 1 fall 1");
        pair.haproxy.await_server("web", "a", ("UP", None), SOON);
        pair.a.set_healthy(false);
        pair.haproxy.await_server("web", "a", ("DOWN", None), SOON);
        pair.a.set_healthy(true);
        pair.haproxy.await_server("web", "a", ("UP", None), SOON);
    }
}

#[test]
fn a_reload_loses_no_request_and_a_restart_comes_back_on_the_same_port() {
    for version in Version::ALL {
        let mut pair = Pair::start(version, "");
        let load = Load::start(pair.front(), 2, Duration::from_millis(2));
        let before = pair.haproxy.worker();
        pair.await_further_requests();
        for _ in 0..2 {
            pair.haproxy.reload();
            pair.await_further_requests();
        }
        let counts = load.stop();
        assert_ne!(pair.haproxy.worker(), before);
        assert_eq!(counts.failures, 0, "{version:?}: {counts:?}");

        pair.haproxy.stop();
        assert_eq!(load::send(pair.front(), 1).failures, 1);
        pair.haproxy.start_again();
        assert_eq!(load::send(pair.front(), 4).failures, 0);
        pair.haproxy.restart();
        assert_eq!(load::send(pair.front(), 4).failures, 0);
    }
}

#[test]
fn the_worker_of_a_killed_master_is_gone_too() {
    for version in Version::ALL {
        let mut pair = Pair::start(version, "");
        let worker = pair.haproxy.worker().unwrap();
        assert!(super::is_alive(worker));
        pair.haproxy.process().signal(Signal::KILL);
        eventually("the worker is gone", SOON, || {
            check(!super::is_alive(worker), || {
                format!("{version:?}: {worker} lives")
            })
        });
    }
}

#[test]
fn a_configuration_that_haproxy_refuses_is_shown_with_its_words() {
    for version in Version::ALL {
        let config = "listen web\n    bind 127.0.0.1:1\n    balance nonsense";
        let message = Haproxy::accepts(version, config).unwrap_err();
        assert!(message.contains("balance nonsense"), "{message}");
        assert!(message.contains("[ALERT]"), "{message}");
        let good = config.replace("nonsense", "roundrobin");
        assert_eq!(
            Haproxy::accepts(version, &format!("{DEFAULTS}{good}")),
            Ok(())
        );
    }
}
