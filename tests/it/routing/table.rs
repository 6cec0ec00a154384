//! Where each request goes, by cookie, path and header. `slow::routing_table` sends them in every
//! state of the canary.

use super::{Canary, Edge, KINDS};
use crate::harness::haproxy::Version;

/// Who shall answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Canary,
    Main,
    /// The backend in which both have their share.
    Shared,
}

/// One line of the table: the first three are what it is about.
struct Line {
    cookies: &'static [Option<&'static str>],
    canary_paths: &'static [bool],
    headers: &'static [Option<&'static str>],
    on: Stage,
    off: Stage,
}

const MAIN: &[Option<&str>] = &[
    Some("gitlab_canary=false"),
    Some("a=b; gitlab_canary=false; c=true"),
];
const WANTED: &[Option<&str>] = &[
    Some("gitlab_canary=true"),
    Some("a=false; gitlab_canary=true; c=d"),
];
const NO_CHOICE: &[Option<&str>] = &[
    None,
    Some("a=true"),
    Some("gitlab_canary="),
    Some("gitlab_canary=%00true;;="),
    Some("gitlab_canary=truest"),
    Some("xgitlab_canary=true"),
    Some("gitlab_canary=TRUE"),
];
const ANY_PATH: &[bool] = &[true, false];
const ANY_HEADER: &[Option<&str>] = &[None, Some("cny"), Some("main"), Some("CNY")];
const OTHER_HEADER: &[Option<&str>] = &[None, Some("main"), Some("CNY")];

const TABLE: [Line; 5] = [
    Line {
        cookies: MAIN,
        canary_paths: ANY_PATH,
        headers: ANY_HEADER,
        on: Stage::Main,
        off: Stage::Main,
    },
    Line {
        cookies: WANTED,
        canary_paths: ANY_PATH,
        headers: ANY_HEADER,
        on: Stage::Canary,
        off: Stage::Main,
    },
    Line {
        cookies: NO_CHOICE,
        canary_paths: ANY_PATH,
        headers: &[Some("cny")],
        on: Stage::Canary,
        off: Stage::Main,
    },
    Line {
        cookies: NO_CHOICE,
        canary_paths: &[true],
        headers: OTHER_HEADER,
        on: Stage::Canary,
        off: Stage::Main,
    },
    Line {
        cookies: NO_CHOICE,
        canary_paths: &[false],
        headers: OTHER_HEADER,
        on: Stage::Shared,
        off: Stage::Shared,
    },
];

/// Paths by kind: our own projects', and others that only look so.
fn path(kind: &str, is_canary: bool) -> &'static str {
    match (kind, is_canary) {
        ("web", true) => "/gitlab-org/gitlab/-/issues",
        ("web", false) => "/gitlab-organ/x",
        ("api", true) => "/api/v4/projects/gitlab-org%2Fgitlab",
        ("api", false) => "/api/v4/projects/1?path=/gitlab-org/",
        ("https_git", true) => "/gitlab-org/gitlab.git/info/refs?service=git-upload-pack",
        ("https_git", false) => "/group/gitlab-org.git/git-receive-pack",
        (kind, _) => panic!("no path of kind {kind}"),
    }
}

/// What is wrong with where one request went.
fn mismatch(
    edge: &Edge,
    kind: usize,
    line: &Line,
    request: (&str, &[(&str, &str)]),
) -> Option<String> {
    let (kind, _, prefix, canary) = KINDS[kind];
    let stage = if edge.canary.is_on() {
        line.on
    } else {
        line.off
    };
    let (path, headers) = request;
    let (answer, got) = edge.request("GET", path, headers);
    let main = edge.main_server(prefix);
    let (backend, servers) = match stage {
        Stage::Canary => (format!("canary_{kind}"), vec![canary]),
        Stage::Main => (format!("main_{kind}"), vec![&main[..]]),
        Stage::Shared if edge.canary.is_on() => (kind.to_owned(), vec![&main[..], canary]),
        Stage::Shared => (kind.to_owned(), vec![&main[..]]),
    };
    let text = answer.text();
    let fits = answer.status == 200 && got == [backend] && servers.contains(&&text[..]);
    (!fits).then(|| {
        format!(
            "{:?}: {path} {headers:?}: wanted {stage:?}, got {} {text} of {got:?}",
            edge.canary, answer.status
        )
    })
}

/// All requests of the table; gives their number and what went wrong.
fn send_all(edge: &Edge) -> (usize, Vec<String>) {
    let (mut sent, mut wrong) = (0, Vec::new());
    for line in &TABLE {
        for cookie in line.cookies {
            for &is_canary in line.canary_paths {
                for header in line.headers {
                    let cookie = cookie.map(|value| ("Cookie", value));
                    let header = header.map(|value| ("X-GitLab-Stage", value));
                    let headers: Vec<_> = cookie.into_iter().chain(header).collect();
                    for (at, (kind, ..)) in KINDS.iter().enumerate() {
                        sent += 1;
                        let request = (path(kind, is_canary), &headers[..]);
                        wrong.extend(mismatch(edge, at, line, request));
                    }
                }
            }
        }
    }
    (sent, wrong)
}

/// Each combination of 11 cookies, 2 paths and 4 headers is in one line, for each kind.
pub(crate) const REQUESTS: usize = 11 * 2 * 4 * KINDS.len();

/// Every request of the table goes where it says.
pub(crate) fn check(version: Version, zone: &'static str, canary: Canary) {
    let edge = Edge::start(version, zone, canary);
    let (sent, wrong) = send_all(&edge);
    assert_eq!(sent, REQUESTS);
    assert!(
        wrong.is_empty(),
        "{version:?}: {} of {sent}: {wrong:#?}",
        wrong.len()
    );
}

#[test]
fn with_a_ready_canary_haproxy_2_6_routes_as_the_table_says() {
    check(Version::V26, "b", Canary::Ready);
}

#[test]
fn with_a_drained_canary_haproxy_2_8_routes_as_the_table_says() {
    check(Version::V28, "d", Canary::Drain);
}
