//! Traces, read back from a real receiver of OTLP over gRPC.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::follows::commands::Place;
use crate::follows::{Web, await_rows};
use crate::harness::collector::{Collector, Sent};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::process::Output;
use crate::harness::replicas::{Replicas, SLOTS};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

mod faults;
mod secure;
mod single;

/// `agent-inter` of the nodes.
const INTER: Duration = Duration::from_millis(500);
/// What HAProxy calls a server that has an agent check alone, and no reason to be elsewhere.
pub(crate) const READY: &str = "no check";
/// A command without its trace takes some 100 ms here.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(3);

/// Every span that there may be beside the commands' own: there is none per poll.
const NAMES: [&str; 11] = [
    "kv.write",
    "wait",
    "kv.update",
    "state.transition",
    "delivered",
    "authority.change",
    "reload",
    "stop",
    "ramp.start",
    "ramp.step",
    "ramp.end",
];

/// Three replicas, four nodes of which each asks one of them, and a collector.
pub(crate) struct Scene {
    pub(crate) collector: Collector,
    place: Place,
    pub(crate) replicas: Replicas,
    nodes: Vec<Haproxy>,
}

impl Scene {
    fn start() -> Self {
        Self::start_on(Place::folder(), &[])
    }

    /// The same on any store, which is empty, with further arguments of the replicas.
    pub(crate) fn start_on(place: Place, more: &[&str]) -> Self {
        let collector = Collector::start();
        place.done(&["init"]);
        place.put("group-states/main", "ready");
        let environment = [collector.environment(), place.environment()].concat();
        let kv = place.kv();
        let arguments = [&["--kv", &kv], more].concat();
        let replicas = Replicas::start(3, &arguments, &environment);
        let nodes = [
            (Version::V26, 0),
            (Version::V28, 1),
            (Version::V26, 2),
            (Version::V28, 0),
        ];
        let start = |(number, (version, replica)): (usize, &(Version, usize))| {
            let words = "canary node=${HAPROXY_LOCALPEER} base=100";
            let web = Web::new(replicas.all[*replica].agent(), INTER).row("cny", words, "");
            Haproxy::start_node(*version, &format!("lb-{number}"), &[], &web.config())
        };
        let nodes: Vec<_> = nodes.iter().enumerate().map(start).collect();
        let scene = Self {
            collector,
            place,
            replicas,
            nodes,
        };
        scene.follow(READY);
        eventually("every node has asked", PATIENCE, || {
            let rows = |replica: &Tidegate| replica.count("tidegate_fleet_rows");
            let rows: Vec<_> = scene.replicas.all.iter().map(rows).collect();
            check(rows == [2, 1, 1], || format!("{rows:?}"))
        });
        scene
    }

    pub(crate) fn follow(&self, status: &str) {
        let row = [("cny".to_owned(), (status, None))];
        await_rows(&self.nodes, &row, PATIENCE);
    }

    pub(crate) fn canary(&self, flags: &[&str]) -> Output {
        let environment = [self.collector.environment(), self.place.environment()].concat();
        let arguments = [&["canary"], flags].concat();
        command_on(&self.place.kv(), &environment, &arguments)
    }

    /// The spans that came of the command with this change id, checked by links and times.
    pub(crate) fn expect_story(&self, output: &Output) {
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.stderr, "");
        let change = crate::operators::id(&output.stdout);
        let command = self.command(&change);
        let linked = |name: &str, count: usize| {
            let all = self.await_linked(name, &command, count);
            assert_eq!(all.len(), count, "{all:?}");
            all
        };
        let writes = self.collector.named("kv.write");
        let write = writes
            .iter()
            .find(|it| it.span.trace_id == command.span.trace_id);
        let write = write.expect("the command wrote");
        assert_eq!(write.span.parent_span_id, command.span.span_id);

        let transitions = linked("state.transition", SLOTS[..3].len());
        let replicas: BTreeSet<_> = transitions.iter().map(|it| it.instance.as_str()).collect();
        assert_eq!(replicas, BTreeSet::from(["a", "b", "c"]));
        let (asked, _) = command.times();
        for transition in &transitions {
            assert_eq!(transition.attribute("path"), "canary-state");
            assert_ne!(
                transition.span.trace_id, command.span.trace_id,
                "linked, not parented"
            );
            assert_eq!(transition.span.links.len(), 1, "{transition:?}");
            let (begin, end) = transition.times();
            assert!(asked < begin && begin <= end, "{transition:?}");
            self.expect_parent(transition, "kv.update");
        }

        let delivered = &linked("delivered", 1)[0];
        assert_eq!(delivered.instance, "a");
        for (key, value) in [("nodes", "4"), ("rows", "4"), ("rows_left", "0")] {
            assert_eq!(delivered.attribute(key), value, "{delivered:?}");
        }
        let (begin, end) = delivered.times();
        let seen = transitions
            .iter()
            .find(|it| it.instance == "a")
            .expect("a saw it");
        assert!(
            seen.times().1 <= begin + MILLI && begin <= end,
            "{seen:?} {delivered:?}"
        );
        assert!(
            u128::from(end - asked) < PATIENCE.as_nanos(),
            "{delivered:?}"
        );
    }

    pub(crate) fn command(&self, change: &str) -> Sent {
        let all = self.collector.await_named("tidegate canary", 1, PATIENCE);
        let found = all
            .into_iter()
            .find(|sent| sent.attribute("change") == change);
        found.expect("a command sends its span before it ends")
    }

    pub(crate) fn await_linked(&self, name: &str, to: &Sent, count: usize) -> Vec<Sent> {
        let what = format!("{count} spans {name} linked to the command");
        eventually(&what, PATIENCE, || {
            let all = self.collector.named(name);
            let linked: Vec<_> = all.iter().filter(|it| it.is_linked_to(to)).collect();
            check(linked.len() >= count, || format!("{all:#?}"))?;
            Ok(linked.into_iter().cloned().collect())
        })
    }

    fn expect_parent(&self, child: &Sent, name: &str) {
        let parent = eventually("the parent comes", PATIENCE, || {
            let mut all = self.collector.named(name).into_iter();
            let parent = all.find(|it| it.span.span_id == child.span.parent_span_id);
            parent.ok_or_else(|| format!("none of {child:?}"))
        });
        assert_eq!(parent.span.trace_id, child.span.trace_id);
    }

    /// No span but those that there may be, and as many transitions as changes and replicas.
    pub(crate) fn expect_no_others(&self, transitions: usize) {
        for sent in self.collector.all() {
            let known = NAMES.contains(&sent.span.name.as_str());
            assert!(known || sent.span.name.starts_with("tidegate "), "{sent:?}");
            assert_eq!(sent.service, "tidegate");
        }
        let all = self.collector.named("state.transition");
        assert_eq!(all.len(), transitions, "{all:#?}");
    }
}

/// What two clocks of one machine may differ by when one of them is cut to milliseconds.
const MILLI: u64 = 1_000_000;

fn command(state: &StateFolder, collector: &Collector, arguments: &[&str]) -> Output {
    command_on(&state.kv(), &collector.environment(), arguments)
}

fn command_on(kv: &str, environment: &[(String, String)], arguments: &[&str]) -> Output {
    let place = ["--env", "gprd", "--kv", kv, "--by", "ana"];
    let begin = Instant::now();
    let output = tidegate(&[arguments, &place].concat(), environment);
    assert!(begin.elapsed() < COMMAND_TIME_MAX, "{:?}", begin.elapsed());
    output
}

#[test]
fn a_drain_is_read_end_to_end_from_who_asked_to_the_last_node() {
    let scene = Scene::start();
    let output = scene.canary(&["--drain", "--reason", "bad deploy"]);
    scene.follow("DRAIN");
    scene.expect_story(&output);
    let command = scene.command(&crate::operators::id(&output.stdout));
    for (key, value) in [
        ("by", "ana"),
        ("reason", "bad deploy"),
        ("environment", "gprd"),
    ] {
        assert_eq!(command.attribute(key), value, "{command:?}");
    }
    assert!(
        command
            .attribute("command")
            .starts_with("tidegate canary --drain")
    );
    scene.expect_no_others(3);
}
