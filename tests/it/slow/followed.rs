//! The commands that `follows::commands` leaves out, up to HAProxy's own word: ramps, undo, the
//! deploy lock, selectors, ends, and waiting.

use std::time::Duration;

use crate::follows::commands::Place;
use crate::follows::{Seen, WRITTEN, Web, rows_stand};
use crate::harness::haproxy::Haproxy;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::throughout;
use crate::operators::{expect, id};

const SHORT: Duration = Duration::from_millis(250);
const UP: Seen<'static> = ("no check", Some(100));
const TENTH: Seen<'static> = ("no check", Some(10));
const DRAIN: Seen<'static> = ("DRAIN", None);
const KNOWN: &str = r#"{"rows":[{"server":"web/a","groups":["canary"]},{"server":"web/b"},{"server":"web/c"},{"server":"web/d"}],
    "nodes":[{"name":"lb-26","zone":"zone-26"},{"name":"lb-28","zone":"zone-28"}]}"#;

struct Scene {
    place: Place,
    nodes: [Haproxy; 2],
    replica: String,
    _tidegate: Tidegate,
}

impl Scene {
    fn new() -> Self {
        let place = Place::consul();
        place.done(&["init"]);
        place.put("settings", KNOWN);
        let tidegate = place.serve();
        let words = "node=${HAPROXY_LOCALPEER} zone=${LB_ZONE} base=100";
        let nodes = Web::new(tidegate.agent(), SHORT)
            .row("a", &format!("canary {words}"), "")
            .row("b", words, "")
            .start();
        let replica = format!("--replica=http://{}", tidegate.http());
        let scene = Self {
            place,
            nodes,
            replica,
            _tidegate: tidegate,
        };
        scene.await_rows([UP, UP], [UP, UP]);
        scene
    }

    /// Row a of the canary and row b on both nodes.
    fn await_rows(&self, a: [Seen<'_>; 2], b: [Seen<'_>; 2]) {
        for (i, node) in self.nodes.iter().enumerate() {
            node.await_server("web", "a", a[i], WRITTEN);
            node.await_server("web", "b", b[i], WRITTEN);
        }
    }

    /// Runs a command that is done, and waits for row a.
    fn step(&self, command: &[&str], a: [Seen<'_>; 2]) -> String {
        let shown = self.place.done(&[command, &[&self.replica]].concat());
        self.await_rows(a, [UP, UP]);
        shown
    }

    fn stand(&self, a: [Seen<'_>; 2]) {
        throughout("the rows stand", 3 * SHORT, || {
            let mut rows = self.nodes.iter().zip(a);
            let stand =
                |(node, seen): (&Haproxy, Seen<'_>)| rows_stand(node, &[("a".to_owned(), seen)]);
            rows.try_for_each(stand)
        });
    }
}

#[test]
fn haproxy_follows_ramps_held_resumed_ended_and_undone() {
    let scene = Scene::new();
    scene.step(&["canary", "--drain"], [DRAIN, DRAIN]);
    let half = ["canary", "--ramp", "by=nodes,steps=50,every=10m"];
    scene.step(&half, [UP, DRAIN]);
    scene.step(&["canary", "--hold"], [UP, DRAIN]);
    scene.step(&["canary", "--resume"], [UP, DRAIN]);
    scene.stand([UP, DRAIN]);
    scene.step(&["canary", "--ready"], [UP, UP]);
    scene.step(&["canary", "--drain"], [DRAIN, DRAIN]);
    let tenth = ["canary", "--ramp", "by=weight,steps=10,every=10m"];
    scene.step(&tenth, [TENTH, TENTH]);
    let change = id(&scene.step(&["canary", "--drain"], [DRAIN, DRAIN]));
    scene.step(&["undo", &change], [TENTH, TENTH]);
    // The nodes of a zone for themselves, and as the fleet again.
    scene.step(&["canary", "--drain", "-z", "26"], [DRAIN, TENTH]);
    scene.step(&["canary", "--clear", "-z", "26"], [TENTH, TENTH]);
    let verify = scene.replica.replace("--replica=", "--verify=") + "/livez";
    let applied = scene.step(&["canary", "--enable", &verify, "--wait"], [UP, UP]);
    assert!(applied.contains("applied by 2 of 2 nodes"), "{applied}");
    scene.step(&["canary", "--drain"], [DRAIN, DRAIN]);
    scene.step(&["canary", "--slowly"], [UP, DRAIN]);
}

#[test]
fn haproxy_follows_selectors_and_ends_and_a_locked_canary_stays() {
    let scene = Scene::new();
    let place = &scene.place;
    place.done(&["set", "drain", "server=b", &scene.replica]);
    scene.await_rows([UP, UP], [DRAIN, DRAIN]);
    place.done(&["clear", "server=b", &scene.replica]);
    scene.await_rows([UP, UP], [UP, UP]);
    let ends = ["--ttl", "2s", "--on-expiry", "lift", &scene.replica];
    place.done(&[&["set", "drain", "web/b", "--node", "lb-28"], &ends[..]].concat());
    scene.await_rows([UP, UP], [UP, DRAIN]);
    scene.await_rows([UP, UP], [UP, UP]);

    place.done(&["deploy", "start", "cny", &scene.replica]);
    expect(
        &place.run(&["canary", "--drain", &scene.replica]),
        3,
        &["deploy-lock: "],
    );
    scene.stand([UP, UP]);
    scene.step(
        &["canary", "--drain", "--ignore-deployment-check"],
        [DRAIN, DRAIN],
    );
    scene.step(&["canary", "--ready"], [UP, UP]);
    place.done(&["deploy", "finish", "cny", &scene.replica]);
    scene.step(&["canary", "--drain"], [DRAIN, DRAIN]);
}
