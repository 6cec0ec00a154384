//! The writing commands, on a folder and on a real Consul, and what HAProxy makes of each.

use std::time::Duration;

use serde_json::Value;

use super::{Seen, WRITTEN, Web};
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;
use crate::harness::haproxy::Haproxy;
use crate::harness::process::Output;
use crate::harness::tidegate::{Tidegate, consul_environment, tidegate};

const SHORT: Duration = Duration::from_millis(250);
const UP: Seen<'static> = ("no check", Some(100));
const DRAIN: Seen<'static> = ("DRAIN", None);
const MAINT: Seen<'static> = ("MAINT", None);

/// A store that the commands write to and the service follows: empty at first.
pub(crate) enum Place {
    Folder(Folder),
    Consul(Box<Consul>),
}

impl Place {
    pub(crate) fn folder() -> Self {
        Self::Folder(Folder::new("state"))
    }

    pub(crate) fn consul() -> Self {
        Self::Consul(Box::new(Consul::dev()))
    }

    pub(crate) fn kv(&self) -> String {
        match self {
            Self::Folder(folder) => format!("dir:{}", folder.path().display()),
            Self::Consul(_) => "consul".to_owned(),
        }
    }

    /// The variables by which the commands and the service find it.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Consul(consul) => consul_environment(consul),
        }
    }

    /// Runs a command on this store, in the environment `gprd`. Nobody is there to be asked: one
    /// that would ask is told yes.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let asks = ["set", "clear", "undo"].contains(&arguments[0]);
        let said = arguments.contains(&"--yes") || arguments.contains(&"--dry-run");
        let yes: &[&str] = if asks && !said { &["--yes"] } else { &[] };
        self.run_as_it_is(&[arguments, yes].concat())
    }

    /// The same without any help.
    pub(crate) fn run_as_it_is(&self, arguments: &[&str]) -> Output {
        let kv = self.kv();
        let store = ["--env", "gprd", "--kv", &kv];
        tidegate(&[arguments, &store].concat(), &self.environment())
    }

    /// The same, and it succeeds; gives what it prints.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.stdout
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let key = format!("frontend/gprd/{key}");
        let bytes = match self {
            Self::Folder(folder) => std::fs::read(folder.join(&key)).ok(),
            Self::Consul(consul) => consul.kv_get(&key),
        };
        bytes.map(|bytes| String::from_utf8(bytes).expect("the commands write text"))
    }

    pub(crate) fn json(&self, key: &str) -> Value {
        let text = self.get(key).unwrap_or_else(|| panic!("{key} is missing"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{key} = {text}: {error}"))
    }

    pub(crate) fn generation(&self) -> u64 {
        self.json("_meta")["gen"].as_u64().expect("gen is a number")
    }

    /// Writes a value as `consul kv put` or an editor does.
    pub(crate) fn put(&self, key: &str, value: &str) {
        let key = format!("frontend/gprd/{key}");
        match self {
            Self::Folder(folder) => {
                let path = folder.join(&key);
                let parent = path.parent().expect("a key stands in a folder");
                std::fs::create_dir_all(parent).expect("the folder takes folders");
                std::fs::write(path, value).expect("the folder takes files");
            }
            Self::Consul(consul) => consul.kv_put(&key, value),
        }
    }

    pub(crate) fn serve(&self) -> Tidegate {
        match self {
            Self::Folder(_) => Tidegate::start(&["--kv", &self.kv()]),
            Self::Consul(consul) => Tidegate::start_on(consul),
        }
    }
}

/// One command, the key that it writes, and then row `a` (of the canary) and row `b` (of no group)
/// on the nodes lb-26 and lb-28.
struct Step {
    command: &'static [&'static str],
    key: &'static str,
    a: [Seen<'static>; 2],
    b: [Seen<'static>; 2],
}

const fn step(
    command: &'static [&'static str],
    key: &'static str,
    a: [Seen<'static>; 2],
    b: [Seen<'static>; 2],
) -> Step {
    Step { command, key, a, b }
}

const STEPS: [Step; 14] = [
    step(
        &["canary", "--drain"],
        "canary-state",
        [DRAIN, DRAIN],
        [UP, UP],
    ),
    step(&["canary", "--ready"], "canary-state", [UP, UP], [UP, UP]),
    step(
        &["canary", "--maint"],
        "canary-state",
        [MAINT, MAINT],
        [UP, UP],
    ),
    step(&["canary", "--enable"], "canary-state", [UP, UP], [UP, UP]),
    step(
        &["canary", "--disable"],
        "canary-state",
        [DRAIN, DRAIN],
        [UP, UP],
    ),
    step(&["canary", "--ready"], "canary-state", [UP, UP], [UP, UP]),
    step(
        &["canary", "--drain", "--zone", "zone-26"],
        "zones/zone-26/canary-state",
        [DRAIN, UP],
        [UP, UP],
    ),
    step(
        &["canary", "--maint", "--node", "lb-28"],
        "nodes/lb-28/canary-state",
        [DRAIN, MAINT],
        [UP, UP],
    ),
    step(
        &["set", "drain", "web/b"],
        OVERRIDE,
        [DRAIN, MAINT],
        [DRAIN, DRAIN],
    ),
    step(
        &["set", "40%", "web/b", "--node", "lb-26"],
        "nodes/lb-26/server-overrides/web/b",
        [DRAIN, MAINT],
        [("no check", Some(40)), DRAIN],
    ),
    step(
        &["set", "maint", "web/b", "--zone", "zone-28"],
        "zones/zone-28/server-overrides/web/b",
        [DRAIN, MAINT],
        [("no check", Some(40)), MAINT],
    ),
    step(
        &["clear", "web/b", "--node", "lb-26"],
        "nodes/lb-26/server-overrides/web/b",
        [DRAIN, MAINT],
        [DRAIN, MAINT],
    ),
    step(
        &["clear", "web/b", "--zone", "zone-28"],
        "zones/zone-28/server-overrides/web/b",
        [DRAIN, MAINT],
        [DRAIN, DRAIN],
    ),
    step(&["clear", "web/b"], OVERRIDE, [DRAIN, MAINT], [UP, UP]),
];

const OVERRIDE: &str = "server-overrides/web/b";

fn take(place: &Place, step: &Step, nodes: &[Haproxy; 2]) {
    let what = step.command.join(" ");
    let before = (place.get("_meta"), place.get(step.key));
    let reason = ["--reason", "a test", "--by", "somebody", "--keep-overrides"];
    let command = [step.command, &reason].concat();
    let shown = place.done(&[&command[..], &["--dry-run"]].concat());
    assert!(
        shown.contains(step.key) && shown.contains("nothing was written"),
        "{what}: {shown}"
    );
    assert_eq!(
        (place.get("_meta"), place.get(step.key)),
        before,
        "{what}: dry run"
    );

    let generation = place.generation();
    let shown = place.done(&command);
    assert!(shown.contains(step.key), "{what}: {shown}");
    assert_eq!(place.generation(), generation + 1, "{what}");
    if step.command[0] == "clear" {
        assert_eq!(place.get(step.key), None, "{what}");
    } else {
        let directive = place.json(step.key);
        assert_eq!(directive["by"], "somebody", "{what}: {directive}");
        assert_eq!(directive["reason"], "a test", "{what}: {directive}");
        let stamped = directive["since"].is_string() && directive["change"].is_string();
        assert!(stamped, "{what}: {directive}");
    }
    let written = (place.get("_meta"), place.get(step.key));
    let shown = place.done(&command);
    assert!(
        shown.contains("nothing to change"),
        "{what}, twice: {shown}"
    );
    assert_eq!(
        (place.get("_meta"), place.get(step.key)),
        written,
        "{what}, twice"
    );

    for (i, node) in nodes.iter().enumerate() {
        node.await_server("web", "a", step.a[i], WRITTEN);
        node.await_server("web", "b", step.b[i], WRITTEN);
    }
}

fn check_commands(place: &Place) {
    let early = place.run(&["canary", "--drain"]);
    assert_eq!(early.code, Some(1), "not initialised: {early:?}");
    assert!(early.stderr.contains("tidegate init"), "{early:?}");
    assert_eq!(place.get("canary-state"), None);

    place.done(&["init", "--by", "somebody"]);
    assert_eq!(
        (place.generation(), place.json("_meta")["schema"].as_u64()),
        (1, Some(1))
    );
    assert_eq!(place.json("canary-state")["state"], "ready");
    let meta = place.get("_meta");
    assert_eq!(place.run(&["init"]).code, Some(3), "a second init");
    assert_eq!(place.get("_meta"), meta);

    let tidegate = place.serve();
    let words = "node=${HAPROXY_LOCALPEER} zone=${LB_ZONE} base=100";
    let nodes = Web::new(tidegate.agent(), SHORT)
        .row("a", &format!("canary {words}"), "disabled")
        .row("b", words, "")
        .start();
    for step in &STEPS {
        take(place, step, &nodes);
        if step.command == ["canary", "--disable"] {
            let plan = &place.json(step.key)["then"];
            let after = plan["after"].as_str().map(humantime::parse_duration);
            assert_eq!(plan["state"], "maint", "{plan}");
            assert_eq!(after, Some(Ok(Duration::from_mins(1))), "{plan}");
        }
    }
}

#[test]
fn haproxy_follows_each_command_written_to_a_folder() {
    check_commands(&Place::folder());
}

#[test]
fn haproxy_follows_each_command_written_to_consul() {
    check_commands(&Place::consul());
}
