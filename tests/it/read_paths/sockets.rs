//! What is changed over a stats socket: servers that ask no agent yet.

use std::future::Future;
use std::net::TcpListener;

use tidegate::domain::migration::Mode;
use tidegate::domain::name::ServerId;
use tidegate::haproxy::socket::StatsAddress;

use super::{Fleet, Node};

#[test]
fn a_server_without_an_agent_is_drained_and_opened_over_both_kinds_of_sockets() {
    let fleet = Fleet::start();
    let server = ServerId::parse("web/gke-b").unwrap();
    for node in &fleet.nodes {
        let unix = format!("unix:{}", node.haproxy.socket().display());
        for address in [unix, node.admin.to_string()] {
            let address = StatsAddress::parse(&address).unwrap();
            for (state, shown) in [
                (Mode::Drain, "DRAIN"),
                (Mode::Maint, "MAINT"),
                (Mode::Ready, "no check"),
            ] {
                run(address.set_state(&server, state)).unwrap();
                assert_eq!(node.haproxy.server("web", "gke-b").status(), shown);
            }
            for weight in [50, 100] {
                run(address.set_weight(&server, weight)).unwrap();
                let row = node.haproxy.server("web", "gke-b");
                assert_eq!(row.weight(), u32::from(weight));
            }
        }
    }
}

#[test]
fn what_haproxy_refuses_is_said_in_its_words() {
    let fleet = Fleet::start();
    for node in &fleet.nodes {
        let refused = |address: String, server: &str| {
            let address = StatsAddress::parse(&address).unwrap();
            let server = ServerId::parse(server).unwrap();
            let refused = run(address.set_state(&server, Mode::Maint));
            refused.unwrap_err().to_string()
        };
        let error = refused(node.admin.to_string(), "web/nobody");
        let command = "refuses `set server web/nobody state maint`";
        assert!(
            error.contains(command) && error.ends_with("No such server."),
            "{error}"
        );
        let error = refused(node.user.to_string(), "web/gke-b");
        assert!(error.contains("Permission denied"), "{error}");
        assert_eq!(node.haproxy.server("web", "gke-b").status(), "no check");
    }
}

/// Nothing is taken for done that HAProxy has not confirmed.
#[test]
fn a_socket_that_closes_without_an_answer_has_done_nothing_that_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        use std::io::Read as _;
        for mut stream in listener.incoming().flatten() {
            // A close before everything was read would be a reset.
            let _ = stream.read(&mut [0; 4_096]);
        }
    });
    let address = StatsAddress::parse(&address).unwrap();
    let server = ServerId::parse("web/gke-b").unwrap();
    let error = run(address.set_state(&server, Mode::Drain)).unwrap_err();
    assert!(
        error.to_string().contains("closed without an answer"),
        "{error}"
    );
    let error = run(address.show_stat()).unwrap_err();
    assert!(
        error.to_string().contains("this is no `show stat`"),
        "{error}"
    );
}

#[test]
fn a_socket_that_may_only_look_shows_everything() {
    let fleet = Fleet::start();
    let node: &Node = &fleet.nodes[0];
    let address = StatsAddress::parse(&node.user.to_string()).unwrap();
    let seen = run(address.show_stat()).unwrap();
    assert_eq!(seen.servers.len(), 3);
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(work)
}
