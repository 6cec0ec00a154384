//! `/api/v1/groups/<group>`.

use std::time::Duration;

use serde_json::Value;

use super::DRAIN;
use crate::harness::http;
use crate::harness::tidegate::Tidegate;
use crate::harness::wait::{PATIENCE, check, eventually};

#[test]
fn a_router_is_told_what_a_group_is_and_when_that_is_other() {
    let (state, tidegate) = Tidegate::start_drained();
    state.put("canary-state", DRAIN);
    let (tag, view) = eventually("the group is drained by alice", PATIENCE, || {
        let answer = tidegate.get("/api/v1/groups/canary");
        let view: Value = serde_json::from_slice(&answer.body).map_err(|e| e.to_string())?;
        let tag = answer.header("etag").unwrap_or_default().to_owned();
        check(view["by"] == "alice", || view.to_string()).map(|()| (tag, view))
    });
    assert_eq!(view["state"], "drain");
    assert_eq!(view["reason"], "bad release");
    assert_eq!(view["since"], "2026-01-02T03:04:05Z");
    assert_eq!(
        (&view["replica"], &view["authority"]),
        (&"a".into(), &"current".into())
    );
    assert!(view["index"].is_u64());
    let again = || {
        let (http, path) = (tidegate.http(), "/api/v1/groups/canary");
        let headers = [("If-None-Match", tag.as_str())];
        let limit = Duration::from_secs(2);
        http::request(http, "GET", path, &headers, b"", limit).expect("it answers")
    };
    let same = again();
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(same.header("cache-control"), Some("no-cache"));
    state.put("nodes/lb-1/canary-state", "40%");
    eventually("the node's key counts for the node", PATIENCE, || {
        let answer = tidegate.get("/api/v1/groups/canary?node=lb-1");
        let text = answer.text();
        check(text.contains("\"state\":\"ready\",\"weight\":40"), || {
            text.clone()
        })
    });
    assert_eq!(again().status, 200, "another listing is another tag");
    // Everything else is never kept.
    let fleet = tidegate.get("/api/v1/fleet");
    assert_eq!(fleet.header("cache-control"), Some("no-store"));
}

#[test]
fn what_cannot_be_said_is_an_error_that_says_why() {
    let (state, mut tidegate) = Tidegate::start_drained();
    let expect = |tidegate: &Tidegate, path: &str, status: u16, text: &str| {
        eventually(&format!("{path} says {status}"), PATIENCE, || {
            let answer = tidegate.get(path);
            let seen = format!("{} {}", answer.status, answer.text());
            check(answer.status == status && seen.contains(text), || {
                seen.clone()
            })
        });
    };
    let unknown = "no key stands for the group typo";
    expect(&tidegate, "/api/v1/groups/typo", 404, unknown);
    expect(&tidegate, "/api/v1/groups/a%20b", 400, "a name holds ' '");
    expect(
        &tidegate,
        "/api/v1/groups/canary?node=",
        400,
        "a name is empty",
    );
    expect(
        &tidegate,
        "/api/v1/groups/canary?nodes=a",
        400,
        "unknown field",
    );
    state.put("canary-state", "dran");
    let frozen = "canary-state cannot be followed: \"dran\" is none of";
    expect(&tidegate, "/api/v1/groups/canary", 503, frozen);
    state.remove("_meta");
    tidegate.await_readyz(503, "held", PATIENCE);
    expect(&tidegate, "/api/v1/groups/canary", 503, "_meta");
    tidegate.process().assert_running();
}
