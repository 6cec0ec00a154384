//! What tokens may see, with both of Consul's rules for listings.

use tidegate::kv::{Expect, Kv, KvError, Operation, VALUE_BYTES_MAX};

use super::{connect, gprd, set};
use crate::harness::consul::Consul;
use crate::harness::folder::Folder;

const UNKNOWN: &str = "aaaaaaaa-2222-3333-4444-555555555555";

/// The number of entries that a listing shows, and whether `_meta` can be read by name; `None`
/// where Consul denies it.
type Seen = (Option<usize>, Option<bool>);

async fn seen(consul: &Consul, token: Option<&str>) -> (Seen, String) {
    let variables: Vec<_> = token.iter().map(|t| ("CONSUL_HTTP_TOKEN", *t)).collect();
    let kv = connect(consul, &variables);
    let mut texts = String::new();
    let mut allowed = |result: Result<usize, KvError>| match result {
        Ok(count) => Some(count),
        Err(KvError::Denied(text)) => {
            texts += &text;
            None
        }
        Err(other) => panic!("{other:?}"),
    };
    let list = allowed(kv.list(&gprd()).await.map(|listing| listing.entries.len()));
    let names = allowed(kv.confirm(&gprd()).await.map(|outline| outline.names.len()));
    assert_eq!(list, names, "the light read sees what the full one sees");
    let meta = allowed(
        kv.get("frontend/gprd/_meta")
            .await
            .map(|e| usize::from(e.is_some())),
    );
    ((list, meta.map(|count| count == 1)), texts)
}

/// Three entries, and a token of each kind: what each sees.
async fn check(consul: &Consul, expected: [Seen; 6]) {
    for path in ["_meta", "canary-state", "settings"] {
        consul.kv_put(&format!("frontend/gprd/{path}"), "1");
    }
    let token = |name: &str, rules: &str| {
        consul.policy(name, rules);
        consul.token_for(&[name])
    };
    let rightless = token("rightless", r#"service_prefix "" { policy = "read" }"#);
    let read = token("read", r#"key_prefix "frontend/gprd/" { policy = "read" }"#);
    let list = token("list", r#"key_prefix "frontend/gprd/" { policy = "list" }"#);
    let narrowed = token(
        "narrowed",
        r#"key "frontend/gprd/canary-state" { policy = "read" }"#,
    );
    let tokens = [
        ("none", None),
        ("unknown", Some(UNKNOWN)),
        ("rightless", Some(rightless.as_str())),
        ("read", Some(&read)),
        ("list", Some(&list)),
        ("narrowed", Some(&narrowed)),
    ];
    for ((name, token), expected) in tokens.into_iter().zip(expected) {
        let (seen, text) = seen(consul, token).await;
        assert_eq!(seen, expected, "{name}: {text}");
        let says = match (name, text.is_empty()) {
            (_, true) => "",
            ("none", false) => "no token was sent: set CONSUL_HTTP_TOKEN",
            ("unknown", false) => "does not know the token (CONSUL_HTTP_TOKEN)",
            (_, false) => "the token (CONSUL_HTTP_TOKEN) lacks the right",
        };
        assert!(text.contains(says), "{name}: {text}");
        assert!(
            !token.is_some_and(|t| text.contains(t)),
            "a token was shown: {text}"
        );
    }
}

/// Consul's default: what may not be read is left out without a word. Reading one key that must
/// be there tells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_list_policy_a_token_without_rights_sees_an_empty_world() {
    let expected = [
        (Some(0), None),
        (None, None),
        (Some(0), None),
        (Some(3), Some(true)),
        (Some(3), Some(true)),
        (Some(1), None),
    ];
    check(&Consul::dev_with_filtering_acl(), expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_list_policy_a_token_without_the_list_right_is_refused() {
    let expected = [
        (None, None),
        (None, None),
        (None, None),
        (None, Some(true)),
        (Some(3), Some(true)),
        (None, None),
    ];
    check(&Consul::dev_with_acl(), expected).await;
}

/// Consul answers a transaction that lacks rights with 409, as it does a failed expectation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_the_right_is_denied_and_not_a_conflict() {
    let consul = Consul::dev_with_acl();
    consul.policy(
        "writer",
        r#"key_prefix "frontend/gprd/" { policy = "list" }
           key "frontend/gprd/canary-state" { policy = "write" }"#,
    );
    let token = consul.token_for(&["writer"]);
    let kv = connect(&consul, &[("CONSUL_HTTP_TOKEN", &token)]);
    let allowed = set("frontend/gprd/canary-state", "ready");
    let delete = |key: &str, expect| Operation::Delete {
        key: key.to_owned(),
        expect,
    };
    for refused in [
        set("frontend/gprd/canary-stat", "drain"),
        set("frontend/gprd/large", vec![0; VALUE_BYTES_MAX]),
        delete("frontend/gprd/_meta", Expect::Anything),
    ] {
        let mut attempts = vec![vec![refused.clone()]];
        if let Operation::Delete { .. } = refused {
            attempts.push(vec![allowed.clone(), refused.clone()]);
        }
        for operations in attempts {
            let error = kv.transact(&operations).await.unwrap_err();
            let KvError::Denied(text) = &error else {
                panic!("{error:?}");
            };
            assert!(text.contains(refused.key()), "{text}");
        }
    }
    assert_eq!(consul.kv_keys("frontend/"), Vec::<String>::new());
    kv.transact(&[allowed]).await.unwrap();
    assert_eq!(consul.kv_keys("frontend/"), ["frontend/gprd/canary-state"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_token_file_is_read_after_a_refusal_or_on_demand() {
    let consul = Consul::dev_with_acl();
    consul.kv_put("frontend/gprd/_meta", "1");
    consul.policy("list", r#"key_prefix "frontend/gprd/" { policy = "list" }"#);
    let (first, second) = (consul.token_for(&["list"]), consul.token_for(&["list"]));
    let folder = Folder::new("consul-token");
    let file = folder.write("token", &format!("{first}\n"));
    let kv = connect(
        &consul,
        &[("CONSUL_HTTP_TOKEN_FILE", file.to_str().unwrap())],
    );
    kv.list(&gprd()).await.unwrap();

    // An unusable file changes nothing.
    folder.write("token", "\n");
    let error = kv.reload().await.unwrap_err();
    assert!(
        error.to_string().starts_with("CONSUL_HTTP_TOKEN_FILE: "),
        "{error}"
    );
    kv.list(&gprd()).await.unwrap();

    consul.delete_token(&first);
    let error = kv.list(&gprd()).await.unwrap_err();
    let KvError::Denied(text) = error else {
        panic!("{error:?}");
    };
    assert!(
        text.contains(file.to_str().unwrap()) && !text.contains(&first),
        "{text}"
    );
    folder.write("token", &second);
    kv.list(&gprd()).await.unwrap_err();
    kv.list(&gprd()).await.unwrap();

    let third = consul.token_for(&["list"]);
    folder.write("token", &third);
    kv.reload().await.unwrap();
    consul.delete_token(&second);
    kv.list(&gprd()).await.unwrap();
    assert!(!format!("{kv:?}").contains(&third));
}
