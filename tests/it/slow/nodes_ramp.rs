//! A ramp over eight nodes, held on its way and resumed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tidegate::clock;

use crate::follows::{WRITTEN, Web};
use crate::harness::haproxy::{Haproxy, Version};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually, throughout};

const NODES: usize = 8;
const INTER: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_secs(3);
/// A set of nodes that stands this long is a step; what stands shorter is on the way to one, while
/// the nodes poll one after the other.
const STEADY: Duration = Duration::from_millis(1_500);

/// Which nodes have the canary ready, each change once with its moment.
#[derive(Default)]
struct History(Vec<(Instant, BTreeSet<usize>)>);

impl History {
    /// Looks at all nodes. None ever goes back: whatever was ready stays so.
    fn look(&mut self, nodes: &[Haproxy]) -> BTreeSet<usize> {
        let is_ready = |node: &Haproxy| !node.server("web", "a").status().starts_with("DRAIN");
        let ready: BTreeSet<_> = nodes
            .iter()
            .enumerate()
            .filter(|(_, n)| is_ready(n))
            .map(|(i, _)| i + 1)
            .collect();
        if let Some((_, before)) = self.0.last() {
            assert!(
                ready.is_superset(before),
                "a step back: {before:?}, then {ready:?}"
            );
        }
        if self.0.last().is_none_or(|(_, before)| *before != ready) {
            self.0.push((Instant::now(), ready.clone()));
        }
        ready
    }

    /// The sets that stood long enough, and for how long.
    fn steps(&self) -> Vec<(usize, Duration)> {
        let ends = self
            .0
            .iter()
            .skip(1)
            .map(|(begin, _)| *begin)
            .chain([Instant::now()]);
        let steady = |((begin, ready), end): (&(Instant, BTreeSet<usize>), Instant)| {
            let stood = end - *begin;
            let first: BTreeSet<_> = (1..=ready.len()).collect();
            assert!(
                stood < STEADY || *ready == first,
                "not the first on the list: {ready:?}"
            );
            (stood >= STEADY).then_some((ready.len(), stood))
        };
        self.0.iter().zip(ends).filter_map(steady).collect()
    }
}

struct Scene {
    state: StateFolder,
    nodes: Vec<Haproxy>,
    history: History,
    _tidegate: Tidegate,
}

impl Scene {
    fn start() -> Self {
        let state = StateFolder::new();
        state.put("canary-state", "drain");
        let tidegate = Tidegate::start(&["--kv", &state.kv()]);
        let web = Web::new(tidegate.agent(), INTER).row(
            "a",
            "canary node=${HAPROXY_LOCALPEER} base=100",
            "disabled",
        );
        let start = |i: usize| {
            Haproxy::start_node(Version::ALL[i % 2], &format!("lb-{i}"), &[], &web.config())
        };
        let nodes: Vec<_> = (1..=NODES).map(start).collect();
        for node in &nodes {
            node.await_server("web", "a", ("DRAIN", None), WRITTEN);
        }
        Self {
            state,
            nodes,
            history: History::default(),
            _tidegate: tidegate,
        }
    }

    /// Writes a ramp that counts from now; `more` follows its steps.
    fn write(&self, steps: &str, more: &str) {
        let mut nodes = String::new();
        for i in 1..=NODES {
            write!(nodes, "{}\"lb-{i}\"", if i == 1 { "" } else { "," })
                .expect("a string takes every byte");
        }
        let since = clock::now();
        self.state.put(
            "canary-state",
            format!(
                r#"{{"state":"ready","since":"{since}",
                 "ramp":{{"by":"nodes","steps":{steps},"nodes":[{nodes}],"seed":"01J"{more}}}}}"#
            ),
        );
    }

    fn await_count(&mut self, count: usize) {
        let Self { nodes, history, .. } = self;
        eventually(
            &format!("{count} of {NODES} nodes are in"),
            PATIENCE,
            || {
                let ready = history.look(nodes);
                check(ready.len() == count, || format!("{ready:?}"))
            },
        );
    }

    fn stays(&mut self, count: usize, span: Duration) {
        let Self { nodes, history, .. } = self;
        throughout(&format!("{count} of {NODES} nodes are in"), span, || {
            let ready = history.look(nodes);
            check(ready.len() == count, || format!("{ready:?}"))
        });
    }
}

#[test]
fn a_ramp_over_eight_nodes_takes_1_2_4_8_of_them_and_keeps_them_over_hold_and_resume() {
    let every = format!(r#","every":"{}s""#, EVERY.as_secs());
    let mut scene = Scene::start();
    scene.history.look(&scene.nodes);
    scene.write("[5,25,50]", &every);
    scene.await_count(1);
    scene.await_count(2);
    // A hold is the one step reached, without a time; it outlasts what the next step would have.
    scene.write("[25]", "");
    scene.stays(2, 2 * EVERY);
    // A resume is the steps that are left, counted anew.
    scene.write("[50]", &every);
    scene.await_count(4);
    scene.await_count(8);
    scene.stays(8, STEADY + INTER);

    let steps = scene.history.steps();
    eprintln!("ramp over {NODES} nodes, held at two: {steps:?}");
    let counts: Vec<_> = steps
        .iter()
        .map(|(count, _)| *count)
        .filter(|c| *c > 0)
        .collect();
    assert_eq!(counts, [1, 2, 4, 8], "{:?}", scene.history.0);
}

#[test]
fn a_ramp_over_eight_nodes_goes_through_its_steps_by_itself() {
    let mut scene = Scene::start();
    scene.write("[5,25,50]", &format!(r#","every":"{}s""#, EVERY.as_secs()));
    scene.await_count(NODES);
    scene.stays(NODES, STEADY + INTER);
    let steps = scene.history.steps();
    eprintln!("ramp over {NODES} nodes: {steps:?}");
    let counts: Vec<_> = steps
        .iter()
        .map(|(count, _)| *count)
        .filter(|c| *c > 0)
        .collect();
    assert_eq!(counts, [1, 2, 4, 8], "{:?}", scene.history.0);
}
