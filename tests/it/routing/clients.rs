//! The examples of `deploy/examples`, run by Node against the edge.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Canary, Edge};
use crate::harness::haproxy::Version;
use crate::harness::process::run;
use crate::harness::tools;

const NODE_MAX: Duration = Duration::from_secs(30);

/// What `tests/browser/stage.mjs` tells.
fn tell(edge: &Edge) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(tools::tool("node"));
    command
        .arg(root.join("tests/browser/stage.mjs"))
        .arg(tools::browser_modules())
        .arg(root.join("deploy/examples"))
        .arg(format!("http://{}", edge.ports.at(1, "BIND_HTTP")));
    // Whatever proxy this machine reaches the network by: axios heeds it.
    command.env("NO_PROXY", "127.0.0.1");
    let output = run("stage", &command, NODE_MAX);
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).expect("it tells in JSON")
}

#[test]
fn api_requests_of_a_canary_page_reach_the_canary_and_no_other_origin_is_told_the_stage() {
    let canary = "gke-cny-api";
    let edge = Edge::start(Version::V28, "b", Canary::Ready);
    let before = edge.sessions();
    let mut told = tell(&edge);
    let mut after = edge.sessions();
    after.retain(|backend, count| {
        *count -= before[backend];
        *count > 0
    });
    // Two of six came from another page, for which both stages are good.
    let expected = [("api", 2), ("canary_api", 4)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(after, expected.into(), "{told:#}");
    for of in ["fetch", "axios"] {
        told[of]["other page"].take();
    }
    assert_eq!(
        told,
        json!({
            "stages": ["cny", null, null],
            "fetch": { "canary page": canary, "request object": canary, "other page": null },
            "axios": { "canary page": canary, "relative address": canary, "other page": null },
            "own word": ["main", "main"],
            "kept": ["1", "2", "3"],
            "told elsewhere": [null, null, null],
        })
    );
}

#[test]
fn api_requests_of_a_canary_page_reach_the_main_stage_while_the_canary_is_drained() {
    let edge = Edge::start(Version::V26, "b", Canary::Drain);
    let told = tell(&edge);
    assert_eq!(told["fetch"]["canary page"], edge.main_server("api-gke"));
    assert_eq!(told["axios"]["canary page"], edge.main_server("api-gke"));
}
