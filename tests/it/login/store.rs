//! The store's own promises, with a login.

use std::time::Duration;

use tidegate::domain::key::Prefix;
use tidegate::kv::consul::ConsulKv;
use tidegate::kv::consul::environment::{ConsulSettings, LoginSettings};
use tidegate::kv::{Expect, Kv, KvError, Operation, Outcome};

use super::{METHOD, Scene};
use crate::harness::wait::let_pass;

fn connect(scene: &Scene) -> ConsulKv {
    let login = LoginSettings {
        method: Some(METHOD.to_owned()),
        bearer_token_file: Some(scene.folder.join("bearer")),
    };
    let lookup = |name: &str| (name == "CONSUL_HTTP_ADDR").then(|| scene.consul.url());
    let settings = ConsulSettings::new(&login, lookup);
    let kv = settings.and_then(ConsulKv::new);
    kv.unwrap_or_else(|errors| panic!("{errors}"))
}

fn prefix() -> Prefix {
    Prefix::new("frontend", "gprd").expect("these are names")
}

/// Many requests at once need one login, not one each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_once_share_one_login() {
    let scene = Scene::new();
    let (kv, prefix) = (connect(&scene), prefix());
    for round in 0..3 {
        let (list, outline, entry, index) = tokio::join!(
            kv.list(&prefix),
            kv.confirm(&prefix),
            kv.get("frontend/gprd/_meta"),
            kv.table_index(&prefix),
        );
        assert!(
            list.is_ok() && outline.is_ok() && entry.is_ok() && index.is_ok(),
            "round {round}: {list:?} {outline:?} {entry:?} {index:?}"
        );
        let tokens = scene.consul.login_tokens();
        assert_eq!(tokens.len(), 1, "round {round}");
        if round == 1 {
            // The next round's requests all meet an unknown token.
            await_pause().await;
            scene.consul.delete_token(&tokens[0]);
        }
    }
    assert!(!format!("{kv:?}").contains(&scene.consul.login_tokens()[0]));
    kv.close().await.expect("Consul is there");
    scene.expect_signed_out();
    let error = kv.list(&prefix).await.expect_err("it is closed");
    assert!(error.to_string().contains("signed out"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_token_is_gone_is_written_once_with_the_next_one() {
    let scene = Scene::new();
    let kv = connect(&scene);
    let read = kv.get("frontend/gprd/canary-state").await;
    let index = read.expect("it is read").expect("it is there").modify_index;
    await_pause().await;
    scene.consul.delete_token(&scene.consul.login_tokens()[0]);
    let write = Operation::Set {
        key: "frontend/gprd/canary-state".to_owned(),
        value: "maint".into(),
        expect: Expect::Index(index),
    };
    // A second write would be a conflict with the first.
    let outcome = kv.transact(&[write]).await;
    assert!(
        matches!(outcome, Ok(Outcome::Committed { .. })),
        "{outcome:?}"
    );
    assert_eq!(scene.canary(), "maint");
}

/// Within a second of the last login none is tried: the refusal is told as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_keep_a_pace() {
    let scene = Scene::new();
    let (kv, prefix) = (connect(&scene), prefix());
    kv.list(&prefix).await.expect("the login works");
    scene.consul.delete_token(&scene.consul.login_tokens()[0]);
    let error = kv
        .list(&prefix)
        .await
        .expect_err("the last login was just now");
    let KvError::Denied(text) = &error else {
        panic!("{error:?}");
    };
    assert!(
        text.contains("does not know the token (of the login with \"ci\""),
        "{text}"
    );
    scene.expect_signed_out();
    await_pause().await;
    kv.list(&prefix).await.expect("the next login works");
}

/// A bearer token that is no good any more says so, and does not pass for an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_cannot_be_repeated_is_denied() {
    let scene = Scene::new();
    let (kv, prefix) = (connect(&scene), prefix());
    kv.list(&prefix).await.expect("the login works");
    for (bearer, says) in [
        (
            Some(scene.issuer.expired(super::RELEASE)),
            "does not take the bearer token",
        ),
        (None, "bearer: No such file"),
    ] {
        match bearer {
            Some(bearer) => scene.show(&bearer),
            None => std::fs::remove_file(scene.folder.join("bearer")).expect("it is there"),
        }
        for token in scene.consul.login_tokens() {
            scene.consul.delete_token(&token);
        }
        await_pause().await;
        let error = kv.list(&prefix).await.expect_err("there is no token");
        let KvError::Denied(text) = &error else {
            panic!("{error:?}");
        };
        assert!(
            text.contains("does not know the token of the last login"),
            "{text}"
        );
        assert!(text.contains(says), "{text}");
    }
}

/// A reading may be dropped at any moment, also while its login is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reading_given_up_during_its_login_loses_no_token() {
    let (scene, prefix) = (Scene::new(), prefix());
    let mut given_up = 0;
    for step in 0..40 {
        let kv = connect(&scene);
        let limit = Duration::from_micros(step * 100);
        let read = tokio::time::timeout(limit, kv.list(&prefix)).await;
        given_up += usize::from(read.is_err());
        kv.close().await.expect("Consul is there");
    }
    assert!(given_up > 0, "the steps begin before the end of a login");
    scene.expect_signed_out();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_without_consul_is_an_outage_and_no_refusal() {
    let mut scene = Scene::new();
    let kv = connect(&scene);
    scene.consul.kill();
    let error = kv.list(&prefix()).await.expect_err("nobody is there");
    assert!(matches!(error, KvError::Unreachable(_)), "{error:?}");
    let write = Operation::Delete {
        key: "frontend/gprd/canary-state".to_owned(),
        expect: Expect::Anything,
    };
    let error = kv.transact(&[write]).await.expect_err("nobody is there");
    assert!(
        matches!(error, KvError::Unreachable(_)),
        "nothing was written: {error:?}"
    );
}

/// The pace between two logins is part of what is tested here.
async fn await_pause() {
    tokio::task::spawn_blocking(|| {
        let_pass(Duration::from_millis(1_100));
    })
    .await
    .expect("it only waits");
}
