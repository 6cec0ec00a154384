//! The HTTP port: it is read-only, and shows its views for a token where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;

use crate::harness::folder::Folder;
use crate::harness::http::{self, Response};
use crate::harness::state_folder::StateFolder;
use crate::harness::tidegate::{Tidegate, status_of, tidegate};
use crate::harness::wait::{PATIENCE, check, eventually};

const LIMIT: Duration = Duration::from_secs(2);
const TOKEN: &str = "a-token-for-who-may-see";

/// Who may ask for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// A balancer's probe.
    Probe,
    /// Whoever may see the views.
    Viewer,
    /// The other replicas.
    Peer,
}

/// Every route as the source has it, a path of it, and who may ask. The two that are marked take
/// POST and nothing else: they forget a node that polls no more.
const ROUTES: [(&str, &str, Asker); 14] = [
    ("/livez", "/livez", Asker::Probe),
    ("/readyz", "/readyz", Asker::Probe),
    ("/", "/", Asker::Viewer),
    ("/events", "/events", Asker::Viewer),
    ("/assets/{file}", "/assets/none", Asker::Viewer),
    ("/metrics", "/metrics", Asker::Viewer),
    ("/api/v1/snapshot", "/api/v1/snapshot", Asker::Viewer),
    (
        "/api/v1/explain",
        "/api/v1/explain?request=web/cny",
        Asker::Viewer,
    ),
    ("/api/v1/fleet", "/api/v1/fleet", Asker::Viewer),
    (
        "/api/v1/groups/{group}",
        "/api/v1/groups/canary",
        Asker::Viewer,
    ),
    ("/api/v1/replicas", "/api/v1/replicas", Asker::Viewer),
    ("/peer/v1/word", "/peer/v1/word", Asker::Peer),
    ("/peer/v1/fleet", "/peer/v1/fleet", Asker::Peer),
    ("", "/no/such/page", Asker::Viewer),
];
const POSTED: [(&str, &str, Asker); 2] = [
    (
        "/api/v1/fleet/forget",
        "/api/v1/fleet/forget?node=lb-1",
        Asker::Viewer,
    ),
    (
        "/peer/v1/fleet/forget",
        "/peer/v1/fleet/forget?node=lb-1&slot=a&digest=0",
        Asker::Peer,
    ),
];

fn asked(tidegate: &Tidegate, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    http::request(tidegate.http(), method, path, headers, b"", LIMIT)
        .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Asks for the head of an answer that may never end.
fn status(tidegate: &Tidegate, path: &str, headers: &[(&str, &str)]) -> u16 {
    asked(tidegate, "HEAD", path, headers).status
}

#[test]
fn every_route_refuses_every_method_but_its_own_and_nothing_is_written() {
    let (state, tidegate) = Tidegate::start_drained();
    tidegate.ask("web/cny canary node=lb-1\n");
    let before = contents(state.path());
    for method in [
        "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE",
    ] {
        for (route, path, _) in ROUTES {
            let answer = asked(&tidegate, method, path, &[]);
            let expected = if route.is_empty() { 404 } else { 405 };
            assert_eq!(
                answer.status,
                expected,
                "{method} {path}: {}",
                answer.text()
            );
        }
        for (_, path, _) in POSTED.into_iter().filter(|_| method != "POST") {
            assert_eq!(
                asked(&tidegate, method, path, &[]).status,
                405,
                "{method} {path}"
            );
        }
    }
    for (_, path, _) in POSTED {
        for method in ["GET", "HEAD"] {
            assert_eq!(
                asked(&tidegate, method, path, &[]).status,
                405,
                "{method} {path}"
            );
        }
        assert_eq!(asked(&tidegate, "POST", path, &[]).status, 200, "{path}");
    }
    assert_eq!(contents(state.path()), before, "the folder of keys changed");
    assert_eq!(tidegate.ask_line("web/cny canary"), "up drain");
}

/// A route that this file does not know is asked by no test of it.
#[test]
fn the_routes_of_these_tests_are_those_of_the_source() {
    let mut found = BTreeSet::new();
    for file in files_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http")) {
        let text = fs::read_to_string(&file).expect("a source file");
        let routes = text.split(".route(").skip(1);
        let paths =
            routes.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        found.extend(paths.map(str::to_owned));
    }
    let known = ROUTES.iter().chain(&POSTED).map(|(route, ..)| *route);
    let known: BTreeSet<_> = known
        .filter(|route| !route.is_empty())
        .map(str::to_owned)
        .collect();
    assert_eq!(found, known);
}

/// A page that a browser on this machine has open may not use that it is on this machine.
#[test]
fn a_page_in_a_browser_cannot_make_a_node_forgotten() {
    let (_state, tidegate) = Tidegate::start_drained();
    tidegate.ask("web/cny canary node=lb-1\n");
    eventually("the node is known", PATIENCE, || {
        let fleet = tidegate.get("/api/v1/fleet").text();
        check(fleet.contains("lb-1"), || fleet)
    });
    let origin = [("Origin", "https://elsewhere.example")];
    let (_, path, _) = POSTED[0];
    assert_eq!(asked(&tidegate, "POST", path, &origin).status, 403);
    let fleet = tidegate.get("/api/v1/fleet").text();
    assert!(fleet.contains("lb-1"), "{fleet}");
}

/// A service with a token, in a file that can be replaced.
fn with_token() -> (StateFolder, Folder, Tidegate) {
    let (state, folder) = (StateFolder::new(), Folder::new("http-token"));
    state.put("canary-state", "drain");
    let file = folder.write("token", TOKEN).display().to_string();
    let tidegate = Tidegate::start(&["--kv", &state.kv(), "--http-token-file", &file]);
    (state, folder, tidegate)
}

#[test]
fn with_a_token_the_views_are_for_who_has_it_and_probes_need_none() {
    let (_state, _folder, tidegate) = with_token();
    let bearer = format!("Bearer {TOKEN}");
    let basic = |password: &str| format!("Basic {}", STANDARD.encode(format!("ana:{password}")));
    let (right, wrong) = (basic(TOKEN), basic("another-token-altogether"));
    let longer = format!("{bearer}x");
    for (sent, is_right) in [
        (None, false),
        (Some(bearer.as_str()), true),
        (Some(&right), true),
        (Some(&bearer[..bearer.len() - 1]), false),
        (Some(&longer), false),
        (Some(&wrong), false),
        (Some(TOKEN), false),
        (Some(""), false),
        (Some("Basic !"), false),
    ] {
        let headers: Vec<_> = sent
            .map(|sent| ("Authorization", sent))
            .into_iter()
            .collect();
        for (_, path, who) in ROUTES {
            let status = status(&tidegate, path, &headers);
            let refused = who == Asker::Viewer && !is_right;
            assert_eq!(status == 401, refused, "{path} with {sent:?}: {status}");
        }
        let (_, path, _) = POSTED[0];
        let forget = asked(&tidegate, "POST", path, &headers).status;
        assert_eq!(forget == 401, !is_right, "{path} with {sent:?}: {forget}");
    }
    let refused = asked(&tidegate, "GET", "/metrics", &[]);
    let challenge = refused.header("WWW-Authenticate").unwrap_or_default();
    assert!(
        challenge.contains("Bearer") && challenge.contains("Basic"),
        "{challenge}"
    );
    assert!(!refused.text().contains(TOKEN));
}

#[test]
fn a_token_is_replaced_at_sighup_and_a_bad_one_keeps_the_old() {
    let (_state, folder, mut tidegate) = with_token();
    let reads = |tidegate: &Tidegate, token: &str| {
        let bearer = format!("Bearer {token}");
        status(tidegate, "/metrics", &[("Authorization", &bearer)])
    };
    let next = "the-token-after-the-first";
    folder.write("token", next);
    tidegate.process().signal(Signal::HUP);
    eventually("the new token opens", PATIENCE, || {
        let status = reads(&tidegate, next);
        check(status == 200, || status.to_string())
    });
    assert_eq!(reads(&tidegate, TOKEN), 401, "the old one");
    folder.write("token", "too-short");
    tidegate.process().signal(Signal::HUP);
    tidegate
        .process()
        .await_log("old ones stay in use: http.token_file", PATIENCE);
    assert_eq!(reads(&tidegate, next), 200);
    assert!(!tidegate.process().log_text().contains("too-short"));
}

#[test]
fn commands_show_the_token_and_say_when_it_is_another() {
    let (state, folder, service) = with_token();
    let (kv, replica) = (state.kv(), format!("http://{}", service.http()));
    let right = folder.join("token").display().to_string();
    let wrong = folder
        .write("wrong", "a-token-of-somebody-else")
        .display()
        .to_string();
    let status = |more: &[&str]| status_of(&kv, &replica, more);
    let output = status(&["--http-token-file", &right]);
    assert!(
        !output.stdout.contains("401") && !output.stderr.contains("401"),
        "{output:?}"
    );
    for more in [&[][..], &["--http-token-file", &wrong]] {
        let output = status(more);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(
            said.contains("401 Unauthorized: the token of http.token_file"),
            "{output:?}"
        );
    }
    let forget = |more: &[&str]| {
        let common = ["forget", "lb-1", "--replica", &replica];
        tidegate(&[&common[..], more].concat(), &[])
    };
    service.ask("web/cny canary node=lb-1\n");
    eventually("the node is forgotten with the token", PATIENCE, || {
        let output = forget(&["--http-token-file", &right]);
        check(output.code == Some(0), || format!("{output:?}"))
    });
    let output = forget(&["--http-token-file", &wrong]);
    assert_eq!(output.code, Some(1), "{output:?}");
}

/// Every file below a folder, with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_of(folder).into_iter();
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).expect("it stays there");
        (file, bytes)
    };
    files.map(read).collect()
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_of(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
