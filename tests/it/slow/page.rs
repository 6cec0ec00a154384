//! The status page in Chromium. `tests/browser/page.js` opens it and tells what it saw.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::events::Events;
use crate::harness::process::run;
use crate::harness::tidegate::Tidegate;
use crate::harness::tools;
use crate::harness::wait::PATIENCE;

/// Six pages on two shared cores.
const BROWSER_MAX: Duration = Duration::from_mins(3);

#[test]
fn in_a_browser_it_is_accessible_follows_within_a_second_and_asks_nobody_else() {
    let (state, tidegate) = Tidegate::start_drained();
    let hostile = r#"{"v":1,"state":"ready","since":"2026-01-01T00:00:00Z","by":"<img src=//elsewhere.example>",
        "reason":"</p><script>alert(1)</script>","ramp":{"by":"nodes","steps":[25],"nodes":["lb-1","lb-2"]}}"#;
    state.put("canary-state", hostile);
    state.put("server-overrides/web/a", "<b onclick=alert(2)>draim");
    state.put("server-overrides/web/b", "maint");
    for node in 1..=30 {
        for server in ["web/gke-cny-web canary", "web/a", "web/b", "web/c"] {
            tidegate.ask(format!(
                "{server} node=lb-{node} zone=us-east1-{}\n",
                node % 3
            ));
        }
    }
    tidegate.await_answer("web/b", "up maint", PATIENCE);
    let seen = browse(&tidegate, &state.file("canary-state"), "maint");
    for nothing in ["violations", "overflow", "elsewhere", "errors"] {
        assert_eq!(
            seen[nothing],
            Value::Array(Vec::new()),
            "{nothing}: {seen:#}"
        );
    }
    let still = seen["without_script"].as_str().expect("a text");
    assert!(still.contains("held at 25%"), "{still}");
    assert!(still.contains("<script>alert(1)</script>"), "{still}");
    let focused = seen["focused"].as_array().expect("a list");
    assert_eq!(focused[0], "a Skip to the state", "{seen:#}");
    let unseen = focused
        .iter()
        .filter(|one| one.to_string().contains("UNSEEN"));
    assert_eq!(unseen.count(), 0, "{seen:#}");
    let live = &seen["live"];
    let took = live["took"].as_u64().expect("a number");
    assert!(took < 1_000, "{took} ms");
    assert_eq!(live["said"], "Canary: maint");
    assert_eq!(live["focus"], "find-node");
    assert_eq!(live["title"], "maint · gprd · Tidegate");
    println!(
        "a change is in the browser after {took} ms; {} requests",
        seen["requests"]
    );
}

/// A connection of this listener lives ten seconds. A browser tells a person of one that is cut.
#[test]
fn a_stream_ends_before_its_connection_is_cut_and_repeats_nothing() {
    let (_state, tidegate) = Tidegate::start_drained();
    let mut events = Events::open(tidegate.http(), "/events", None).expect("it listens");
    events.await_named("stands");
    let begun = Instant::now();
    while let Some(event) = events.next().expect("it ends in order") {
        let unchanged = ["canary", "stands", "servers"].contains(&event.name.as_str());
        assert!(!unchanged, "nothing is new: {event:?}");
    }
    let lived = begun.elapsed();
    assert!(lived > Duration::from_secs(5), "{lived:?}");
    assert!(lived < Duration::from_secs(10), "{lived:?}");
}

fn browse(tidegate: &Tidegate, key: &Path, value: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/page.js");
    let mut command = Command::new(tools::tool("node"));
    command
        .arg(script)
        .arg(tools::browser_modules())
        .arg(tools::tool("chromium"));
    command
        .arg(format!("http://{}", tidegate.http()))
        .arg(key)
        .arg(value);
    let output = run("browser", &command, BROWSER_MAX);
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).expect("it tells in JSON")
}
