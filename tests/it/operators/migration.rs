//! Nodes that are enrolled beside nodes that are not: one command for all of them.

use std::fmt::Write as _;

use super::*;
use crate::harness::folder::Folder;
use crate::harness::haproxy::Version;
use crate::harness::http;
use crate::harness::receiver::{Answer, Receiver};
use crate::harness::wait::{check, eventually};
use crate::read_paths::Node;

const SETTINGS: &str = r#"{"rows":[{"server":"web/gke-b","groups":["main"]},
    {"server":"web/gke-cny-web","groups":["canary"]},
    {"server":"canary_web/gke-cny-web","groups":["canary"]}],
    "nodes":[{"name":"lb-1"},{"name":"lb-2"},{"name":"lb-3"},{"name":"lb-4"}]}"#;
const ROWS: [&str; 2] = ["web", "canary_web"];

/// A service on a real Consul; lb-1 (2.6) and lb-2 (2.8) ask it, lb-3 and lb-4 ask nobody.
struct Mixed {
    place: Place,
    tidegate: Tidegate,
    nodes: Vec<Node>,
    folder: Folder,
}

impl Mixed {
    fn start() -> Self {
        let place = Place::consul();
        place.done(&["init"]);
        place.put("settings", SETTINGS);
        place.put("group-states/main", "ready");
        let tidegate = place.serve();
        let agent = Some(tidegate.agent());
        let nodes = vec![
            Node::start("lb-1", Version::V26, agent),
            Node::start("lb-2", Version::V28, agent),
            Node::start("lb-3", Version::V26, None),
            Node::start("lb-4", Version::V28, None),
        ];
        let mixed = Self {
            place,
            tidegate,
            nodes,
            folder: Folder::new("configuration"),
        };
        mixed.await_polls();
        mixed
    }

    /// Until every row of the two enrolled nodes was seen polling.
    fn await_polls(&self) {
        eventually("four rows poll", PATIENCE, || {
            let fleet = http::get(self.tidegate.http(), "/api/v1/fleet");
            let fleet = fleet.map_err(|error| error.to_string())?.text();
            let polled = fleet.matches("gke-cny-web").count();
            check(polled >= 4, || fleet)
        });
    }

    /// The sockets of all nodes, `level admin`.
    fn sockets(&self) -> Vec<(String, String)> {
        let socket = |node: &Node| {
            let path = node.haproxy.socket();
            (
                node.haproxy.name().to_owned(),
                format!("unix:{}", path.display()),
            )
        };
        let mut sockets: Vec<_> = self.nodes.iter().map(socket).collect();
        // Both kinds of sockets.
        sockets[3].1 = self.nodes[3].admin.to_string();
        sockets
    }

    /// Runs a command with these sockets configured, writing to those of an environment.
    fn run(&self, arguments: &[&str], sockets: &[(String, String)], writes: &str) -> Output {
        let mut text = String::new();
        if !writes.is_empty() {
            let _ = writeln!(text, "migration = {{ environment = '{writes}' }}");
        }
        text += "[observe.stats]\n";
        for (node, socket) in sockets {
            let _ = writeln!(text, "{node} = '{socket}'");
        }
        self.folder.write("tidegate.toml", &text);
        let config = self.folder.join("tidegate.toml");
        let replica = format!("http://{}", self.tidegate.http());
        let more = ["--replica", &replica, "--config"];
        let config = config.to_str().expect("a path in UTF-8");
        let asks = ["set", "clear", "undo"].contains(&arguments[0]);
        let yes: &[&str] = if asks { &["--yes"] } else { &[] };
        self.place.run(&[arguments, yes, &more, &[config]].concat())
    }

    /// Every row of the canary has this status, the enrolled ones within an interval.
    fn await_canary(&self, node: usize, status: &str) {
        for backend in ROWS {
            let haproxy = &self.nodes[node].haproxy;
            haproxy.await_server(backend, "gke-cny-web", (status, None), PATIENCE);
        }
    }
}

#[test]
fn one_drain_and_one_rollback_reach_enrolled_and_old_nodes() {
    let mixed = Mixed::start();
    let sockets = mixed.sockets();
    // Somebody has throttled it here by hand: a rollback puts that back, too.
    let old = &mixed.nodes[3].haproxy;
    old.stats("set server web/gke-cny-web weight 40");

    let drain = ["canary", "--drain", "--reason", "bad deploy"];
    let output = mixed.run(&drain, &sockets, "gprd");
    let shown = expect(
        &output,
        0,
        &[
            "by stats socket",
            "drain, read back",
            "in the KV, generation",
        ],
    );
    for (node, via) in [
        ("lb-1", "kv"),
        ("lb-2", "kv"),
        ("lb-3", "socket"),
        ("lb-4", "socket"),
    ] {
        let lines: Vec<_> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words.first() == Some(&node))
            .collect();
        // Each row once, in one way.
        assert_eq!(lines.len(), 2, "{node}: {shown}");
        assert!(lines.iter().all(|words| words[2] == via), "{node}: {shown}");
    }
    // The old ones have it when the command ends.
    for node in 2..4 {
        for backend in ROWS {
            let row = mixed.nodes[node].haproxy.server(backend, "gke-cny-web");
            assert_eq!(row.status(), "DRAIN");
        }
    }
    for node in 0..2 {
        mixed.await_canary(node, "DRAIN");
    }
    assert_eq!(mixed.place.json("canary-state")["state"], "drain");
    let again = mixed.run(&drain, &sockets, "gprd");
    expect(&again, 0, &["it is already so"]);

    let history = mixed.place.done(&["history"]);
    let line = "web/gke-cny-web on lb-4, by its socket: ready at weight 40 -> drain";
    assert!(history.contains(line), "{history}");
    let undo = ["undo", &id(&shown)];
    let output = mixed.run(&undo, &sockets, "gprd");
    expect(&output, 0, &["ready at weight 40, read back"]);
    for node in 0..4 {
        mixed.await_canary(node, "no check");
    }
    assert_eq!(old.server("web", "gke-cny-web").weight(), 40);
    assert_eq!(old.server("canary_web", "gke-cny-web").weight(), 100);
    let again = mixed.run(&undo, &sockets, "gprd");
    expect(&again, 0, &["it is already so"]);
}

#[test]
fn a_dead_socket_and_one_that_refuses_are_named_and_nothing_else_is_lost() {
    let mut mixed = Mixed::start();
    let mended = mixed.sockets();
    let mut sockets = mended.clone();
    sockets[2].1 = mixed.nodes[2].user.to_string();
    mixed.nodes[3].haproxy.stop();
    let drain = ["canary", "--drain"];
    let receiver = Receiver::start(Answer::Status(204));
    let url = format!("events={}", receiver.url("/changes"));
    let told = [&drain[..], &["--announce-url", &url]].concat();
    let output = mixed.run(&told, &sockets, "gprd");
    let shown = expect(
        &output,
        1,
        &["Permission denied", "Connection refused", "repeat"],
    );
    assert_eq!(receiver.take()[0].body["outcome"], "partly");
    for row in ["web/gke-cny-web", "canary_web/gke-cny-web"] {
        for node in ["lb-3", "lb-4"] {
            assert!(
                output.stderr.contains(&format!("{row} on {node}: ")),
                "{shown}"
            );
        }
    }
    assert_eq!(mixed.place.json("canary-state")["state"], "drain");
    for node in 0..2 {
        mixed.await_canary(node, "DRAIN");
    }
    mixed.await_canary(2, "no check");
    // As long as it is so, it is said.
    let output = mixed.run(&drain, &sockets, "gprd");
    expect(&output, 1, &["Permission denied", "Connection refused"]);

    // Mended and repeated: what was missed is written, and has its record.
    mixed.nodes[3].haproxy.start_again();
    let output = mixed.run(&told, &mended, "gprd");
    let shown = expect(&output, 0, &["lb-3", "lb-4", "tidegate undo"]);
    expect_sockets_alone(&mixed, &receiver.take()[0].body, &id(&shown));
    for node in 0..4 {
        mixed.await_canary(node, "DRAIN");
    }
    // What somebody changes by hand after that is not put back over his head.
    mixed.nodes[2]
        .haproxy
        .stats("set server web/gke-cny-web state maint");
    let output = mixed.run(&["undo", &id(&shown)], &mended, "gprd");
    let text = "web/gke-cny-web on lb-3: somebody has changed it since: it is maint";
    expect(&output, 1, &[text]);
    mixed.await_canary(3, "no check");
    let row = mixed.nodes[2].haproxy.server("web", "gke-cny-web");
    assert_eq!(row.status(), "MAINT");
}

/// A change of sockets alone is told, and kept apart from keys.
fn expect_sockets_alone(mixed: &Mixed, body: &Value, change: &str) {
    let text = body["text"].as_str().unwrap_or_default();
    assert_eq!(
        text,
        "canary_web/gke-cny-web on lb-3, web/gke-cny-web on lb-3, canary_web/gke-cny-web on lb-4, \
         web/gke-cny-web on lb-4 set to drain by stats socket"
    );
    assert_eq!(body["keys"], serde_json::json!([]), "{body}");
    assert_eq!(body["outcome"], "written");
    let rows = body["rows"].as_array().expect("it has rows");
    assert!(!rows.is_empty(), "{body}");
    assert!(rows.iter().all(|row| row["by_socket"] == true), "{body}");
    let warning = format!("4 rows that {change} set by stats socket are not compared");
    expect(&mixed.place.run(&["diff", change]), 0, &[&warning]);
}

#[test]
fn old_nodes_are_left_and_named_unless_the_migration_is_switched_on() {
    let mixed = Mixed::start();
    let sockets = mixed.sockets();
    let output = mixed.run(&["canary", "--drain"], &sockets, "");
    let shown = expect(&output, 0, &["written to gprd"]);
    for row in ["web/gke-cny-web", "canary_web/gke-cny-web"] {
        for node in ["lb-3", "lb-4"] {
            let text = format!("{row} on {node}: left as it is: migration.environment");
            assert!(shown.contains(&text), "{shown}");
        }
    }
    for node in 0..2 {
        mixed.await_canary(node, "DRAIN");
    }
    // Sockets of another environment are not this one's.
    let output = mixed.run(&["canary", "--maint"], &sockets, "gstg");
    expect(&output, 0, &["written to gprd"]);
    for node in 0..2 {
        mixed.await_canary(node, "MAINT");
    }
    for node in 2..4 {
        mixed.await_canary(node, "no check");
    }
}

#[test]
fn single_servers_are_set_and_cleared_on_enrolled_and_old_nodes() {
    let mixed = Mixed::start();
    let sockets = mixed.sockets();
    let row = "canary_web/gke-cny-web";
    let status = |node: usize, status: &str, weight: u32| {
        let haproxy = &mixed.nodes[node].haproxy;
        let wanted = (status, Some(weight));
        haproxy.await_server("canary_web", "gke-cny-web", wanted, PATIENCE);
    };
    for (command, state, weight) in [
        (&["set", "40%", row][..], "no check", 40),
        (&["set", "drain", row], "DRAIN", 40),
        (&["clear", row], "no check", 100),
    ] {
        let output = mixed.run(command, &sockets, "production");
        expect(&output, 0, &["read back", "in the KV"]);
        for node in 0..4 {
            status(node, state, weight);
        }
    }
    // The rails see what stands on old nodes: nothing would be left there.
    let output = mixed.run(&["set", "drain", "web/gke-b"], &sockets, "gprd");
    expect(&output, 3, &["floor: web: 0 of 1"]);
    for node in &mixed.nodes {
        assert_eq!(node.haproxy.server("web", "gke-b").status(), "no check");
    }
    // One node alone, and a node that is not enrolled.
    let output = mixed.run(&["canary", "--drain", "--node", "lb-4"], &sockets, "gprd");
    expect(&output, 0, &["lb-4"]);
    mixed.await_canary(3, "DRAIN");
    mixed.await_canary(2, "no check");
}
