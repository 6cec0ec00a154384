//! The service dies, Consul dies: HAProxy keeps its state, and follows again afterwards.

use std::time::Duration;

use crate::follows::{INTER, MARGIN, Seen, WRITTEN, Web, await_rows, describe, rows_stand};
use crate::harness::consul::Consul;
use crate::harness::haproxy::Haproxy;
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, throughout};

const SHORT: Duration = Duration::from_millis(300);

/// One row in each state, each with its override.
const ROWS: [(&str, &str, Seen<'static>); 4] = [
    ("a", "40%", ("no check", Some(40))),
    ("b", "drain", ("DRAIN", Some(100))),
    ("c", "maint", ("MAINT", None)),
    ("d", "ready", ("no check", Some(100))),
];

/// What stands in their overrides the other time.
const OTHERS: [(&str, &str, Seen<'static>); 4] = [
    ("a", "drain", ("DRAIN", Some(40))),
    ("b", "ready", ("no check", Some(100))),
    ("c", "7%", ("no check", Some(7))),
    ("d", "maint", ("MAINT", None)),
];

fn expected(rows: [(&str, &str, Seen<'static>); 4]) -> Vec<(String, Seen<'static>)> {
    rows.map(|(name, _, seen)| (name.to_owned(), seen)).into()
}

fn start(tidegate: &Tidegate, inter: Duration) -> [Haproxy; 2] {
    let web = Web::new(tidegate.agent(), inter);
    ROWS.iter()
        .fold(web, |web, (name, ..)| web.row(name, "base=100", ""))
        .start()
}

fn stand(nodes: &[Haproxy], rows: [(&str, &str, Seen<'static>); 4]) -> Result<(), String> {
    nodes
        .iter()
        .try_for_each(|node| rows_stand(node, &expected(rows)))
}

#[test]
fn while_the_service_is_dead_every_state_stands_and_it_is_back_within_one_agent_inter() {
    let state = StateFolder::new();
    let put = |rows: [(&str, &str, Seen<'_>); 4]| {
        rows.map(|(name, word, _)| state.put(&format!("server-overrides/web/{name}"), word))
    };
    put(ROWS);
    let mut tidegate = Tidegate::start(&["--kv", &state.kv()]);
    let nodes = start(&tidegate, INTER);
    await_rows(&nodes, &expected(ROWS), 2 * INTER + MARGIN);

    tidegate.kill();
    put(OTHERS);
    let shows_the_fault = || {
        nodes.iter().try_for_each(|node| {
            ROWS.iter().try_for_each(|(name, ..)| {
                let row = node.server("web", name);
                let fault = ("L4CON", "Connection refused");
                let shown = (row.agent_status(), row.last_agt());
                check(shown == fault, || describe(&row))
            })
        })
    };
    eventually("the fault is shown", INTER + MARGIN, shows_the_fault);
    throughout("everything stands", 3 * INTER, || stand(&nodes, ROWS));
    eventually("the fault is still shown", INTER + MARGIN, shows_the_fault);

    tidegate.start_again();
    let took = await_rows(&nodes, &expected(OTHERS), INTER + MARGIN);
    eprintln!("service back: HAProxy follows {took:?} after it is ready, agent-inter {INTER:?}");
}

#[test]
fn while_consul_is_dead_nothing_changes_and_it_is_followed_again_without_a_restart() {
    let mut consul = Consul::single();
    let put = |consul: &Consul, rows: [(&str, &str, Seen<'_>); 4]| {
        for (name, word, _) in rows {
            consul.kv_put(&format!("frontend/gprd/server-overrides/web/{name}"), word);
        }
    };
    consul.kv_put("frontend/gprd/_meta", crate::harness::state_folder::META);
    put(&consul, ROWS);
    let mut tidegate = Tidegate::start_on(&consul);
    let mut nodes = start(&tidegate, SHORT);
    await_rows(&nodes, &expected(ROWS), WRITTEN);
    let readiness = |word: &str| {
        let answer = tidegate.get("/readyz");
        let text = answer.text();
        check(answer.status == 200 && text.starts_with(word), || {
            format!("{} {text}", answer.status)
        })
    };
    readiness("current: ").unwrap();

    consul.kill();
    // It may not answer for a moment: until it is sure that Consul is gone for everybody.
    eventually("the service says that Consul is gone", WRITTEN, || {
        readiness("agreed: ")
    });
    throughout("everything stands", 5 * SHORT, || {
        stand(&nodes, ROWS).and_then(|()| readiness("agreed: "))
    });
    // A new worker comes up open, and is told the last known state.
    nodes.iter_mut().for_each(Haproxy::reload);
    await_rows(&nodes, &expected(ROWS), WRITTEN);

    consul.start();
    put(&consul, OTHERS);
    let took = await_rows(&nodes, &expected(OTHERS), PATIENCE);
    eventually("the service is current again", WRITTEN, || {
        readiness("current: ")
    });
    eprintln!("Consul back and written to: HAProxy follows {took:?} later");
    assert!(tidegate.process().ended().is_none());
}
