//! Each refused login says what to mend, and to whom; nothing of it shows a secret.

use super::{RELEASE, Scene, other, run};
use crate::harness::consul::Consul;
use crate::harness::issuer::Issuer;

const GET: [&str; 2] = ["explain", "web/a canary"];

#[test]
fn a_refused_login_says_what_to_mend() {
    let scene = Scene::new();
    let token = |claim| scene.issuer.token_with(RELEASE, &other(claim));
    let not_taken = "the auth method \"ci\" does not take the bearer token \
                     (TIDEGATE_CONSUL_BEARER_TOKEN)";
    for (what, bearer, texts) in [
        (
            "expired",
            scene.issuer.expired(RELEASE),
            [not_taken, "expired (exp)"],
        ),
        ("audience", token("aud"), [not_taken, "aud claim"]),
        ("issuer", token("iss"), [not_taken, "issuer claim"]),
        (
            "key",
            Issuer::new().token(RELEASE),
            [not_taken, "no known key"],
        ),
        (
            "no JWT",
            "hello-hello".to_owned(),
            [not_taken, "three parts"],
        ),
        (
            "subject",
            scene.issuer.token("nobody"),
            [
                "no binding rule of the auth method \"ci\"",
                "Permission denied",
            ],
        ),
    ] {
        let variables = scene.variables_and(&[("TIDEGATE_CONSUL_BEARER_TOKEN", &bearer)]);
        let output = run(&GET, &variables);
        assert_eq!(output.code, Some(6), "{what}: {output:?}");
        for text in texts {
            assert!(
                output.stderr.contains(text),
                "{what}: no {text:?}: {output:?}"
            );
        }
        assert!(!output.stderr.contains(&bearer), "{what}: {output:?}");
    }
    scene.expect_signed_out();
}

#[test]
fn an_unknown_method_and_a_consul_without_acls_are_named() {
    let scene = Scene::new();
    let bearer = scene.issuer.token(RELEASE);
    let bearer = ("TIDEGATE_CONSUL_BEARER_TOKEN", bearer.as_str());
    let unknown = [bearer, ("TIDEGATE_CONSUL_LOGIN_METHOD", "nope")];
    let open = Consul::dev();
    let url = open.url();
    let without = [bearer, ("CONSUL_HTTP_ADDR", url.as_str())];
    for (more, text) in [
        (unknown, "Consul has no auth method \"nope\""),
        (
            without,
            "Consul's ACLs are disabled: drop consul.login_method",
        ),
    ] {
        let output = run(&GET, &scene.variables_and(&more));
        assert_eq!(output.code, Some(6), "{output:?}");
        assert!(output.stderr.contains(text), "no {text:?}: {output:?}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_before_anything_is_asked() {
    let scene = Scene::new();
    let file = scene.folder.join("bearer").display().to_string();
    let file = ("TIDEGATE_CONSUL_BEARER_TOKEN_FILE", file.as_str());
    let token = ("TIDEGATE_CONSUL_BEARER_TOKEN", "a-bearer-token");
    for (more, text) in [
        (vec![], "consul.login_method: a login needs a bearer token"),
        (vec![file, token], "drop one of the two"),
        (
            vec![file, ("CONSUL_HTTP_TOKEN", "a-secret")],
            "unset CONSUL_HTTP_TOKEN to sign in with \"ci\", or drop consul.login_method",
        ),
        (
            vec![token, ("CONSUL_HTTP_TOKEN_FILE", "/nowhere")],
            "unset CONSUL_HTTP_TOKEN_FILE to sign in",
        ),
        (
            vec![("TIDEGATE_CONSUL_BEARER_TOKEN_FILE", "/nowhere/bearer")],
            "consul.bearer_token_file: /nowhere/bearer: No such file",
        ),
        (
            vec![("TIDEGATE_CONSUL_BEARER_TOKEN", "a bearer-token")],
            "TIDEGATE_CONSUL_BEARER_TOKEN: the bearer token holds white space",
        ),
        (
            vec![token, ("TIDEGATE_CONSUL_LOGIN_METHOD", "c i")],
            "\"c i\" is no name of an auth method",
        ),
    ] {
        let output = run(&GET, &scene.variables_and(&more));
        assert_eq!(output.code, Some(2), "{more:?}: {output:?}");
        assert!(output.stderr.contains(text), "no {text:?}: {output:?}");
        for secret in ["a-bearer-token", "a-secret"] {
            assert!(!output.stderr.contains(secret), "{output:?}");
        }
    }
    for name in [file, token] {
        let alone = [("CONSUL_HTTP_ADDR", "127.0.0.1:1"), name];
        let alone = alone.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let output = run(&GET, &alone);
        assert_eq!(output.code, Some(2), "{output:?}");
        let text = "consul.login_method: is needed as well";
        assert!(output.stderr.contains(text), "{output:?}");
    }
}
