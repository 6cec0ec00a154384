//! Preflights carry neither the cookie nor the header of the stage.

use super::{Canary, Edge};
use crate::harness::haproxy::Version;

fn preflight(edge: &Edge, path: &str, origin: &str) -> (u16, Option<String>, Vec<String>) {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "x-gitlab-stage"),
    ];
    let (answer, got) = edge.request("OPTIONS", path, &headers);
    let origin = answer.header("Access-Control-Allow-Origin");
    if answer.status == 204 {
        let allowed = answer
            .header("Access-Control-Allow-Headers")
            .unwrap_or_default();
        assert!(allowed.contains("X-GitLab-Stage"), "{answer:?}");
        assert_eq!(answer.header("Vary"), Some("Origin"));
    }
    (answer.status, origin.map(str::to_owned), got)
}

#[test]
fn the_edge_answers_a_preflight_of_our_own_pages_and_leaves_others_to_the_application() {
    for version in Version::ALL {
        let edge = Edge::start(version, "b", Canary::Ready);
        for ours in ["https://example.org", "https://ide.example.org"] {
            let answer = preflight(&edge, "/api/v4/user", ours);
            assert_eq!(answer, (204, Some(ours.to_owned()), vec![]), "{version:?}");
        }
        for (path, origin, backend) in [
            (
                "/api/v4/user",
                "https://example.org.elsewhere.example",
                "api",
            ),
            ("/api/v4/user", "https://notexample.org", "api"),
            ("/users/sign_in", "https://example.org", "web"),
        ] {
            let answer = preflight(&edge, path, origin);
            assert_eq!(answer, (200, None, vec![backend.to_owned()]), "{version:?}");
        }
        // Without the header of a preflight it is a request as any other.
        let (answer, got) = edge.request(
            "OPTIONS",
            "/api/v4/user",
            &[("Origin", "https://example.org")],
        );
        assert_eq!((answer.status, got), (200, vec!["api".to_owned()]));
    }
}
