//! Where `HAProxy` is asked.

use super::{LEAST, load};

#[test]
fn where_haproxy_is_asked_is_checked_like_the_rest() {
    let errors = |key, text: &str| {
        let error = load(LEAST.as_bytes(), &[(key, text)], &[]).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    for (key, text, why) in [
        ("observe.prometheus", "prometheus:9090", "neither http://"),
        ("observe.prometheus", "http://", "names no host"),
        ("observe.prometheus", "http://p/?query=x", "has more than"),
        (
            "observe.prometheus_matchers",
            "{env=\"a\"}",
            "without braces",
        ),
        ("observe.prometheus_matchers", "env=\"a\",", "no matchers"),
        ("observe.node_label", "f-q", "no label's name"),
        ("observe.stats", "unix:/x", "no pair such as"),
        ("observe.stats", "lb-1=x", "names no port"),
        ("observe.stats", "a=b:1,a=c:2", "a is named twice"),
        ("migration.environment", "gprd", "observe.stats names no"),
    ] {
        let error = errors(key, text);
        assert!(error.contains(why), "{error}");
    }
    let secret = errors("observe.prometheus", "http://me:secret@p:9090");
    assert!(!secret.contains("secret"), "{secret}");
}
